"""forecast export to ONNX, which runs without torch; the model card; a server and a script as docs/ has them."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from apps.files import LAYOUT, write_csv
from checkpoints import DEMO, LENGTHS, SIZES, write_untrained
from program import call, refusal, shapes_unchecked

from forecast import Forecaster
from forecast.apps.export.command import export
from forecast.apps.export.onnx_file import calendar
from forecast.checkpoint.load import load_checkpoint
from forecast.data.values.time_features import feature_rules, time_features
from forecast.text.overrides import install

ROOT = Path(__file__).parents[2]


def needed():
    pytest.importorskip("onnxscript", reason='needs onnxscript: pip install -e ".[onnx]"')
    return pytest.importorskip("onnxruntime", reason='needs onnxruntime: pip install -e ".[onnx]"')


@pytest.mark.parametrize("encoding", ["timeF", "fixed"])
@pytest.mark.parametrize("freq", ["s", "15min", "h", "D", "B", "W-SUN", "MS", "QS-JAN", "YS", "ms"])
def test_the_calendar_of_seconds_is_that_of_pandas(freq, encoding):
    days = np.arange(np.datetime64("1678-01-01"), np.datetime64("2261-12-31"), 13).astype("datetime64[s]")
    times = days + np.random.default_rng(0).integers(0, 86_400, len(days)).astype("timedelta64[s]")
    leap = pd.date_range("1899-12-25", periods=90, freq="17h").union(pd.date_range("2000-02-20", periods=90, freq="7h"))
    times = pd.DatetimeIndex(times).append([leap, pd.date_range("2020-12-20", periods=60, freq="11h")])
    seconds = torch.from_numpy(times.as_unit("s").asi8.copy()).unsqueeze(0)
    expected = time_features(times, freq, encoding=encoding).astype(np.float32)
    np.testing.assert_array_equal(calendar(seconds, feature_rules(freq, encoding))[0].numpy(), expected)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained model with calibrated intervals and a floor, and a history of another time."""
    folder = tmp_path_factory.mktemp("run")
    table = write_csv(folder / "own.csv", rows=900)
    assert (table[["load", "wind"]] > 0).all(axis=None)
    lengths = ["seq_len=33", "label_len=0", "pred_len=3", "checks.leakage=false", "logger=none"]
    call(
        "train",
        "model=ridge",
        "model.look_back=40",
        *LAYOUT,
        f"data.path={folder}/own.csv",
        *lengths,
        f"hydra.run.dir={folder}/run",
    )
    write_csv(folder / "history.csv", rows=101, start="2022-12-31 03:15", seed=3)
    return folder


@pytest.fixture(scope="module")
def exported(run):
    """It, exported."""
    needed()
    call("export", run / "run/checkpoints/best.ckpt", run / "out", "--format", "onnx")
    return run / "out"


def page_example(first):
    """The program of the page on exports that imports this first, for the columns of the file here."""
    page = (ROOT / "docs/reference/exports.md").read_text()
    code = re.search(rf"```python\n(import json\n[^`]*?\nimport {first}.*?)```", page, re.DOTALL)[1]
    return code.replace('"date"', '"when"')


def test_the_example_of_the_page_forecasts_as_predict_does(run, exported, monkeypatch):
    monkeypatch.chdir(exported)
    pd.read_csv(run / "history.csv", sep=";", decimal=",").to_csv("history.csv", index=False)
    names = {}
    exec(page_example("onnxruntime").replace("OUT/", ""), names)
    checkpoint = f"ckpt_path={run}/run/checkpoints/best.ckpt"
    call("predict", checkpoint, f"data.path={run}/history.csv", f"output={run}/f.csv")
    expected = pd.read_csv(run / "f.csv", sep=";", decimal=",")
    assert pd.DatetimeIndex(names["ahead"]).equals(pd.DatetimeIndex(expected["when"]))
    np.testing.assert_allclose(names["forecast"][0], expected[["load", "wind"]], atol=0.011)


def test_the_intervals_at_every_level_are_those_of_predict(run, exported):
    about = json.loads((exported / "config.json").read_text())["onnx"]
    assert [part["name"] for part in about["inputs"]] == ["past", "time"]
    assert [part["name"] for part in about["outputs"]] == ["forecast", "lower", "upper"]
    assert about["largest_difference_scaled"] <= 1e-5 and {80.0, 95.0} < {*about["levels"]}
    session = needed().InferenceSession(exported / "model.onnx")
    for part, given in zip(session.get_inputs(), about["inputs"], strict=True):
        assert (part.name, part.shape[1:]) == (given["name"], given["shape"][1:])
    table = pd.read_csv(run / "history.csv", sep=";", decimal=",", parse_dates=["when"])
    length, steps = about["inputs"][0]["shape"][1], about["outputs"][0]["shape"][1]
    times = pd.date_range(table["when"].iloc[-length], periods=length + steps, freq="15min")
    past = table[["load", "wind"]].to_numpy()[-length:]
    inputs = {"past": np.stack([past, past + 50.0]), "time": np.stack([times.as_unit("s").asi8] * 2)}
    point, lower, upper = session.run(None, inputs)
    levels = ",".join(f"{level:g}" for level in about["levels"])
    checkpoint = f"ckpt_path={run}/run/checkpoints/best.ckpt"
    call("predict", checkpoint, f"data.path={run}/history.csv", f"output={run}/g.csv", f"level=[{levels}]")
    expected = pd.read_csv(run / "g.csv", sep=";", decimal=",")
    for t, name in enumerate(("load", "wind")):
        np.testing.assert_allclose(point[0, :, t], expected[name], atol=0.011)
        for k, level in enumerate(about["levels"]):
            np.testing.assert_allclose(lower[0, :, t, k], expected[f"{name}-lo-{level:g}"], atol=0.011)
            np.testing.assert_allclose(upper[0, :, t, k], expected[f"{name}-hi-{level:g}"], atol=0.011)
    assert not np.allclose(point[0], point[1])


def test_the_card_says_what_the_model_is_and_how_good_it_was_and_holds_no_row(run, exported):
    card = (exported / "README.md").read_text()
    metrics = json.loads((run / "run/metrics.json").read_text())
    assert "the next 3 steps of load, wind" in card and "| frequency | 15min |" in card
    assert (
        f"{metrics['test']['scaled']['mse']:.4f}" in card and "seasonal naive" in card and "| trained until |" in card
    )
    assert f"those of 95 % {100 * metrics['test']['intervals']['levels']['95']['coverage']:.0f} %" in card
    values = {cell for line in (run / "own.csv").read_text().splitlines()[1:] for cell in line.split(";")[1:]}
    assert str(run) not in card and not [value for value in values if value in card or value.replace(",", ".") in card]


@pytest.mark.filterwarnings("ignore")  # LitServe's own
def test_the_litserve_server_of_the_page_answers(run, monkeypatch):
    pytest.importorskip("litserve", reason="needs litserve: pip install litserve")
    server = {"__name__": "server"}
    exec(page_example("litserve"), server)
    monkeypatch.chdir(run)
    api = server["Forecasts"]()
    api.setup("cpu")
    table = pd.read_csv(run / "history.csv", sep=";", decimal=",")
    answer = api.predict(json.loads(table.to_json(orient="records")))
    expected = Forecaster.load(run / "run/checkpoints/best.ckpt").predict(run / "history.csv", level=[80, 95])
    found = pd.DataFrame(answer).assign(when=lambda rows: pd.to_datetime(rows["when"]))
    np.testing.assert_allclose(found.drop(columns="when"), expected.drop(columns="when"))
    assert list(found["when"]) == list(expected["when"])


def onnx_of(folder, *choice, sizes=SIZES, format="onnx"):
    path = write_untrained(folder / "a.ckpt", *choice, sizes=sizes)
    with shapes_unchecked():
        return export(load_checkpoint(path), folder / "out", batch=None, format=format)[format]


# The models that bring the fewest layers, of each family; pytest -m slow tests/scripts/test_export.py has all.
CONVERTED = {
    "dlinear": ["loss=quantile", "loss.levels=[0.1,0.95]"],
    "boosted_trees": [],
    "smoothing": ["model.seasons=[3,7]", "model.clip=1.5"],
}


@pytest.mark.parametrize("model", CONVERTED)
def test_a_model_is_written_and_onnxruntime_forecasts_as_it_does(model, tmp_path):
    needed()
    about = onnx_of(tmp_path, *DEMO, *LENGTHS, f"model={model}", *CONVERTED[model])
    assert "refused" not in about, about
    assert about["largest_difference_scaled"] <= 1e-5 and about["compared_on_windows"] == [1, 2, 7]
    assert about["levels"] == [] and [part["name"] for part in about["outputs"]] == ["forecast"]  # not calibrated


# Torch translates no stable sort and no complex conjugate; should this fail one day, docs/limits.md has less to say.
REFUSED = {
    "sort": ["model=reformer"],
    "_conj_physical": ["attention@model.encoder_attention=autocorrelation", "model.distil=false"],
}


@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_what_onnx_has_no_words_for_is_refused_with_torchs_reason(what, tmp_path):
    needed()
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    said = onnx_of(tmp_path, *DEMO, *LENGTHS, *REFUSED[what], sizes=SIZES | layers)["refused"]
    assert what in said and "Export it with --format program" in said and "\x1b" not in said


@pytest.mark.slow
@pytest.mark.parametrize("model", ["informer", "gpt", "patchtst"])
def test_a_model_with_attention_is_written_too(model, tmp_path):
    needed()
    about = onnx_of(tmp_path, *DEMO, *LENGTHS, f"model={model}")
    assert about["largest_difference_scaled"] <= 1e-5


def weather(rows=300):
    days = pd.date_range("2024-01-01", periods=rows)
    draw = np.random.default_rng(2)
    words = draw.choice(["sun", "rain"], rows)
    table = {"date": days, "load": draw.normal(9, 2, rows), "heat": draw.normal(20, 5, rows), "sky": words}
    return pd.DataFrame(table)


def test_columns_that_are_known_in_advance_are_an_input_in_their_units(tmp_path):
    runtime = needed()
    weather().to_csv(tmp_path / "w.csv", index=False)
    roles = ["data=csv", f"data.path={tmp_path}/w.csv", "data.target=load", "data.known=[heat,sky]"]
    about = onnx_of(tmp_path, *roles, *LENGTHS, "model=dlinear")
    assert about["inputs"][2]["shape"] == ["B", 27, 2] and "sky: 1 to 2 for rain, sun" in about["inputs"][2]["meaning"]
    table = weather(30)
    table[:-5].to_csv(tmp_path / "h.csv", index=False)
    table[-5:].drop(columns="load").to_csv(tmp_path / "f.csv", index=False)
    files = [f"data.path={tmp_path}/h.csv", f"future={tmp_path}/f.csv", f"output={tmp_path}/out.csv"]
    call("predict", f"ckpt_path={tmp_path}/a.ckpt", *files)
    rows = table[-27:].assign(sky=table["sky"].map({"rain": 1.0, "sun": 2.0}))
    inputs = {
        "past": rows[["load"]].to_numpy()[None, :22],
        "time": pd.DatetimeIndex(rows["date"]).as_unit("s").asi8[None],
        "known": rows[["heat", "sky"]].to_numpy()[None],
    }
    (found,) = runtime.InferenceSession(tmp_path / "out/model.onnx").run(None, inputs)
    np.testing.assert_allclose(found[0, :, 0], pd.read_csv(tmp_path / "out.csv")["load"], atol=1e-4)


def test_a_program_of_a_model_with_known_columns_says_what_they_are(tmp_path):
    weather().to_csv(tmp_path / "w.csv", index=False)
    roles = ["data=csv", f"data.path={tmp_path}/w.csv", "data.target=load", "data.known=[heat,sky]"]
    about = onnx_of(tmp_path, *roles, *LENGTHS, "model=dlinear", format="program")
    assert "refused" not in about, about
    described = json.loads((tmp_path / "out/config.json").read_text())
    assert [part["shape"] for part in described["inputs"]] == [["B", 22, 1], ["B", 22, 5], ["B", 5, 5]]
    assert described["known"][3:] == [{"name": "heat"}, {"name": "sky", "words": ["rain", "sun"]}]


# What is refused


def test_without_the_packages_the_extra_is_named_and_the_weights_are_left(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = write_untrained(tmp_path / "a.ckpt", *DEMO, *LENGTHS, "model=nlinear")
    said = refusal(capsys, "export", path, tmp_path / "out", "--format", "onnx")
    assert "/out/model.onnx: ONNX needs onnxscript and onnxruntime" in said and install("onnx") in said
    files = ["README.md", "config.json", "model.safetensors"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == files
    assert "There is no file that forecasts: ONNX needs" in (tmp_path / "out/README.md").read_text()


def test_a_model_of_many_series_and_one_without_a_graph_are_refused(tmp_path):
    needed()
    table = pd.concat([weather(80).assign(shop=name) for name in "ab"])[["shop", "date", "load"]]
    table.to_csv(tmp_path / "p.csv", index=False)
    keys = ["data=csv", f"data.path={tmp_path}/p.csv", "data.id_column=shop"]
    assert "each with a scale" in onnx_of(tmp_path, *keys, *LENGTHS, "model=nlinear")["refused"]
    weather(80).to_csv(tmp_path / "one.csv", index=False)
    padded = tmp_path / "padded"
    padded.mkdir()
    keys = ["data=csv", f"data.path={tmp_path}/one.csv", "data.short=pad"]
    assert "begin before their series" in onnx_of(padded, *keys, *LENGTHS, "model=nlinear")["refused"]
    single = tmp_path / "theta"
    single.mkdir()
    said = onnx_of(single, *DEMO, *LENGTHS, "model=theta")["refused"]
    assert "is fitted anew to each window" in said


def test_a_file_that_forecasts_otherwise_is_deleted(tmp_path, monkeypatch):
    needed()
    monkeypatch.setattr("forecast.apps.export.program.TOLERANCE", -1.0)
    about = onnx_of(tmp_path, *DEMO, *LENGTHS, "model=nlinear")
    assert "model.onnx are" in about["refused"] and "away from the model's" in about["refused"]
    assert not (tmp_path / "out/model.onnx").exists()
