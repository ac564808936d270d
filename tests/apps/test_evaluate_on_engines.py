"""evaluate engine=ray: the files of one process, parts that are gone on with, and what keeps it from its work.

A cluster is in test_on_ray.py; here is one in name, so that these run without Ray.
"""

import json

import numpy as np
import pandas as pd
import pytest
from apps.fake_ray import faked
from checkpoints import DEMO, LENGTHS, write_untrained
from program import call, refusal

from forecast.apps.common.engines import windows
from forecast.evaluation.evaluate import WindowPass
from forecast.jobs import cluster
from forecast.models.base import ForecastModel

HOURS = (171, 67, 97, 59, 83)  # windows that share batches across series
DATA = [
    *("data=csv", "data.id_column=shop", "data.time_column=hour", "seq_len=19", "label_len=7", "pred_len=5"),
    *("data/split=last", "data.split.horizon=5", "data.split.val=2", "data.split.test=3", "data.season=3"),
    *("trainer.max_epochs=1", "logger=none", "callbacks.figures=null", "checks.leakage=false"),
]
MODELS = {
    "ridge": ["model=ridge"],
    "adaptive": ["model=informer", "model.d_model=14", "model.n_heads=2", "model.d_ff=17", "calibration=adaptive"],
    "quantiles": ["model=dlinear", "loss=quantile"],
}


@pytest.fixture(scope="module")
def panel_csv(tmp_path_factory):
    draws, parts = np.random.default_rng(0), []
    for s, hours in enumerate(HOURS):
        times = pd.date_range("2021-01-01", periods=hours, freq="h") + pd.Timedelta(hours=5 * s)
        parts.append(
            pd.DataFrame({"shop": f"shop {s}", "hour": times, "y": draws.normal(size=hours).cumsum().round(3)})
        )
    path = tmp_path_factory.mktemp("panel") / "shops.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def runs(panel_csv, tmp_path_factory):
    """Of each model a training, and its evaluation by one process."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in MODELS.items():
        call("train", *DATA, f"data.path={panel_csv}", *words, f"hydra.run.dir={folder}/{name}")
        call("evaluate", f"ckpt_path={folder}/{name}/checkpoints/best.ckpt", f"hydra.run.dir={folder}/{name}-whole")
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """A worker's change of the folder is taken back."""
    monkeypatch.setattr(cluster, "REACHED", 0.0)
    monkeypatch.chdir(tmp_path)


def on_ray(runs, name, folder, *words):
    checkpoint = f"ckpt_path={runs}/{name}/checkpoints/best.ckpt"
    return ["evaluate", checkpoint, "engine=ray", f"hydra.run.dir={folder}", *words]


def stopped(runs, folder, capsys):
    """What is said where three workers die at the second of two parts."""
    with faked(killing=lambda name, given: given == (2, 2)):
        return refusal(capsys, *on_ray(runs, "quantiles", folder))


def files_of(folder):
    """All files by their bytes; metrics.json and what shows it without the seconds that it took."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.suffix != ".log"}
    metrics = json.loads(found.pop("metrics.json"))
    seconds = metrics.pop("cost")["evaluate_seconds"]
    assert seconds > 0 and metrics.pop("files")
    found.pop("report.html", None)
    return found, metrics


@pytest.mark.parametrize(
    ("name", "shards"), [("ridge", "3"), ("adaptive", "null"), ("adaptive", "1"), ("quantiles", "3")]
)
def test_any_number_of_parts_gives_the_files_of_one_process(runs, tmp_path, name, shards):
    with faked() as ray:
        call(*on_ray(runs, name, tmp_path / "e", f"ray.shards={shards}"))
    (ours, metrics), (whole, expected) = files_of(tmp_path / "e"), files_of(runs / f"{name}-whole")
    assert metrics == expected and expected["test"]["windows"] == 5 * 11
    assert ours.keys() == whole.keys() and len(ours) >= 5
    assert [key for key in ours if ours[key] != whole[key]] == []
    asked = sorted(call[1:] for call in ray.calls if call[0] == "work")
    count = 1 if name == "ridge" or shards == "1" else 2  # 55 windows are two batches of 32; of a ridge one of 1024
    assert asked == [(number, count) for number in range(1, count + 1)]
    assert not (tmp_path / "e" / windows.PARTS).exists()


def test_the_command_calls_the_model_for_the_pictures_alone(runs, tmp_path, monkeypatch):
    real, worker = ForecastModel.predicted, []

    def counted(model, past, *others):
        if type(model).__name__ == "Informer":
            worker[-1].append(len(past))
        return real(model, past, *others)

    def apart(*given, **keys):
        worker.append([])
        yield from made(*given, **keys)
        worker.append([])

    made = WindowPass.forecasts
    monkeypatch.setattr(WindowPass, "forecasts", apart)
    monkeypatch.setattr(ForecastModel, "predicted", counted)
    worker.append([])
    with faked():
        call(*on_ray(runs, "adaptive", tmp_path / "e"))
    assert sum(worker[1]) + sum(worker[3]) == 55 and worker[0] == worker[2] == []
    assert max(worker[4]) <= 5  # the last windows of the worst and the best series


def test_what_is_there_of_a_killed_command_is_not_made_again(runs, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "e"
    said = stopped(runs, folder, capsys)
    assert "1 of 2 parts failed" in said and f"say the same command again with hydra.run.dir={folder}" in said
    made, real = [], WindowPass.forecasts
    monkeypatch.setattr(WindowPass, "forecasts", lambda *a, **k: made.append(k["first"]) or real(*a, **k))
    with faked():
        call(*on_ray(runs, "quantiles", folder))
    assert made == [32]
    assert files_of(folder) == files_of(runs / "quantiles-whole")


def test_a_damaged_part_is_made_anew(runs, tmp_path, capsys):
    folder = tmp_path / "e"
    stopped(runs, folder, capsys)
    part = next((folder / windows.PARTS).glob("shard-00001-of-00002-*.npz"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with faked():
        call(*on_ray(runs, "quantiles", folder))
    assert files_of(folder) == files_of(runs / "quantiles-whole")


def test_parts_of_other_windows_are_not_taken(runs, tmp_path, capsys):
    folder = tmp_path / "e"
    stopped(runs, folder, capsys)
    with faked():
        call(*on_ray(runs, "quantiles", folder, "split=val"))
    assert json.loads((folder / "metrics.json").read_text())["val"]["windows"] == 5 * 6


def test_parts_of_another_reading_of_the_same_file_are_not_taken(runs, panel_csv, tmp_path, capsys):
    folder, file = tmp_path / "e", [f"data.path={panel_csv}", "split=all"]
    words = [*file, f"data.missing=[{pd.read_csv(panel_csv)['y'][40]}]", "data.gaps=interpolate"]
    with faked(killing=lambda name, given: given[:1] == (2,)):
        refusal(capsys, *on_ray(runs, "quantiles", folder, *file))
    with faked():
        call(*on_ray(runs, "quantiles", folder, *words))
    checkpoint = f"ckpt_path={runs}/quantiles/checkpoints/best.ckpt"
    call("evaluate", checkpoint, f"hydra.run.dir={tmp_path}/whole", *words)
    assert files_of(folder) == files_of(tmp_path / "whole")


def test_one_series_has_the_files_of_one_process_too(tmp_path):
    checkpoint = write_untrained(tmp_path / "c.ckpt", *DEMO, *LENGTHS)
    call("evaluate", f"ckpt_path={checkpoint}", f"hydra.run.dir={tmp_path}/whole")
    with faked() as ray:
        call("evaluate", f"ckpt_path={checkpoint}", "engine=ray", "ray.shards=3", f"hydra.run.dir={tmp_path}/e")
    assert files_of(tmp_path / "e") == files_of(tmp_path / "whole")
    assert [call for call in ray.calls if call[0] == "work"]
