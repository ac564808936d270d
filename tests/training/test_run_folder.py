"""The files of a training."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from program import BRIEF, WITH_FIGURES, call, refusal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from forecast.run_folder.commit import commit

FILES = [
    *(".hydra/config.yaml", ".hydra/overrides.yaml", "train.log", "run.json", "checkpoints/best.ckpt"),
    *("checkpoints/last.ckpt", "metrics.json", "metrics_by_step.csv", "errors_by_window.npz", "forecasts.npz"),
    *("forecast.png", "report.html"),
]
WINDOWS, P, T = 136, 5, 7  # 20 % of 700 rows, less pred_len - 1


def test_a_run_folder_holds_all_its_files_and_nothing_unfinished(tiny_run):
    files = [str(path.relative_to(tiny_run)) for path in tiny_run.rglob("*") if path.is_file() and path.stat().st_size]
    assert set(FILES) <= set(files)
    assert not list(tiny_run.rglob("*.part")) + list(tiny_run.rglob("*.tmp"))
    assert "litlogger" not in (tiny_run / "train.log").read_text()  # an advertisement of Lightning's


def test_metrics_json_is_the_contract(metrics):
    head = {"status": "finished", "model": "informer", "attention": "prob", "protocol": "all_windows"}
    head |= {"attention_slots": {"encoder": "prob", "decoder": "prob", "cross": "full"}, "data": "demo"}
    head |= {"features": "M", "seed": 1, "seq_len": 19, "label_len": 7, "pred_len": P, "best_epoch": 1, "target": "OT"}
    assert {key: metrics[key] for key in head} == head
    how = {"parameters", "same_data", "mase_scale", "scaling"}
    assert set(metrics) == {*head, *how, "test", "val", "baselines", "cost", "files"}
    unit_free = {"mase", "rmsse", "smape", "wape"}  # several target columns have no original unit in common
    whole = {"skill", "flat", "columns", "series", "coverage", "intervals"}
    assert set(metrics["test"]) == {"windows", "scaled", *unit_free, *whole}
    assert set(metrics["val"]) == {"windows", "scaled", *unit_free}
    assert set(metrics["baselines"]["last_value"]) == {"scaled", *unit_free, "columns", "difference"}
    assert set(metrics["test"]["columns"]["OT"]) == {"scaled", "original", "series_without_mase", *unit_free}
    assert set(metrics["baselines"]) == {
        "last_value",
        "seasonal_naive",
        "train_mean",
        "closed_form_nlinear",
        "ridge",
        "smoothing",
        "best_reachable",
    }
    rates = {"train_samples_per_second", "train_limit_samples_per_second"}
    assert set(metrics["cost"]) == {"train_seconds", *rates, "peak_memory_mb", "device", "precision"}
    assert metrics["test"]["windows"] == WINDOWS


def test_figures_are_rounded_to_six_decimals_and_small_ones_to_as_many_digits(metrics):
    def floats(node):
        if isinstance(node, dict):
            return [x for value in node.values() for x in floats(value)]
        return [node] if isinstance(node, float) else []

    assert floats(metrics)
    assert all(x == round(x, 6) for x in floats(metrics) if abs(x) >= 0.1)
    assert all(len(f"{x:e}".partition("e")[0].rstrip("0").replace(".", "").lstrip("-")) <= 7 for x in floats(metrics))


def test_skill_is_one_less_the_ratio_to_seasonal_naive(metrics):
    seasonal = metrics["baselines"]["seasonal_naive"]
    expected = 1 - metrics["test"]["scaled"]["mse"] / seasonal["scaled"]["mse"]
    assert metrics["test"]["skill"] == pytest.approx(expected, abs=1e-5)
    assert seasonal["period"] == 24  # a day, though seq_len is 19


def test_each_baseline_has_its_difference_to_the_model_with_an_interval(metrics):
    for name, block in metrics["baselines"].items():
        if name != "best_reachable":
            found = block["difference"]
            expected = metrics["test"]["scaled"]["mse"] - block["scaled"]["mse"]
            assert found["mse"] == pytest.approx(expected, abs=2e-6)
            assert found["low"] < found["mse"] < found["high"] and found["blocks"] == WINDOWS // P


def test_errors_by_window_average_to_the_metrics(tiny_run, metrics):
    with np.load(tiny_run / "errors_by_window.npz") as errors:
        assert errors["squared_scaled"].shape == errors["absolute_scaled"].shape == (WINDOWS, T)
        assert errors["squared_scaled"].mean() == pytest.approx(metrics["test"]["scaled"]["mse"], abs=1e-6)
        assert errors["absolute_scaled"].mean() == pytest.approx(metrics["test"]["scaled"]["mae"], abs=1e-6)
        # the first target of the test split is row 560 = 80 % of 700; its window begins seq_len before
        assert errors["start"].tolist() == list(range(560 - 19, 560 - 19 + WINDOWS))


def test_metrics_by_step_average_to_the_metrics(tiny_run, metrics):
    with (tiny_run / "metrics_by_step.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4", "5"]
    mean = np.mean([float(row["mse_scaled"]) for row in rows])
    assert mean == pytest.approx(metrics["test"]["scaled"]["mse"], abs=1e-5)
    best = np.mean([float(row["best_reachable_mse_scaled"]) for row in rows])
    assert best == pytest.approx(metrics["baselines"]["best_reachable"]["scaled"]["mse"], abs=1e-5)


def test_forecasts_are_in_original_units_and_belong_to_their_windows(tiny_run):
    with np.load(tiny_run / "forecasts.npz") as saved, np.load(tiny_run / "errors_by_window.npz") as errors:
        assert saved["forecast"].shape == saved["truth"].shape == (25, P, T)
        assert saved["past"].shape == (25, 19, T)
        checkpoint = torch.load(tiny_run / "checkpoints/best.ckpt", weights_only=True)
        std = checkpoint["forecast"]["series"]["scale"]["std"][0].numpy()
        squared = (((saved["forecast"] - saved["truth"]) / std) ** 2).mean(1)
        np.testing.assert_allclose(squared[[0, -1]], errors["squared_scaled"][[0, -1]], rtol=1e-4)


def test_run_json_holds_versions_checksum_device_and_cost(tiny_run):
    info = json.loads((tiny_run / "run.json").read_text())
    assert (info["status"], info["device"]) == ("finished", "cpu")
    assert info["data"]["checksum"] == "demo-seed7-rows700"
    assert {"forecast", "torch", "lightning", "python"} <= set(info["versions"])
    assert info["versions"]["threads"] == "1"
    assert info["commit"] == info["versions"]["commit"] == commit()
    assert min(info["train_seconds"], info["train_samples_per_second"], info["peak_memory_mb"]) > 0


def test_tags_are_in_run_json_and_another_command_that_goes_on_may_name_others(tmp_path):
    run, words = tmp_path / "run", ["model=dlinear", "data=demo", "data.rows=700", "seq_len=19", "label_len=7"]
    call("train", *words, "pred_len=5", "debug=limit", "logger=none", "tags=[night,two words]", f"hydra.run.dir={run}")
    assert json.loads((run / "run.json").read_text())["tags"] == ["night", "two words"]
    call("train", f"ckpt_path={run}/checkpoints/last.ckpt", "tags=[day]", "trainer.max_epochs=3")
    assert json.loads((run / "run.json").read_text())["tags"] == ["day"]


def test_tensorboard_has_scalars_figures_histograms_and_final_hyperparameters(tmp_path):
    few = ["trainer.max_epochs=2", "trainer.limit_train_batches=2", "trainer.log_every_n_steps=1", "calibration=none"]
    few += ["checks.leakage=false", "callbacks.figures.windows=1"]
    call("train", *WITH_FIGURES, *few, f"hydra.run.dir={tmp_path}")
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"images": 0})
    events.Reload()
    tags = events.Tags()
    assert {"train/mse_scaled", "val/mse_scaled", "val/mae_scaled", "test/mse_scaled"} <= set(tags["scalars"])
    active = {"active_rows/encoder", "active_rows/decoder"}  # the Informer's cross-attention is full
    assert active == set(tags["histograms"])
    maps = {f"attention/{slot}" for slot in ("encoder", "decoder", "cross")}
    assert {"forecast/val"} | active | maps == set(tags["images"])
    assert [image.step for image in events.Images("forecast/val")] == [4], "once, at the end: it takes a GPU's epoch"
    plugin = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert b"model.d_model" in plugin and b"attention" in plugin


def test_without_validation_the_last_checkpoint_is_evaluated_and_no_earlier_best_and_the_table_says_so(
    tmp_path, tiny_run, capsys
):
    run = shutil.copytree(tiny_run, tmp_path / "run")
    few = ["trainer.limit_val_batches=0", "trainer.limit_train_batches=2"]
    call("train", *BRIEF, *few, f"hydra.run.dir={run}")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["best_epoch"] is None
    assert metrics["test"]["windows"] == WINDOWS  # whatever trainer.limit_* says
    assert not (run / "checkpoints/best.ckpt").exists()
    assert "No validation ran" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes",
    [
        [
            *("attention=prob_informer2020", "data.features=S", "trainer.precision=bf16-mixed"),
            *("schedule=constant", "callbacks.early_stopping=null"),
        ],
        ["model=informer2020", "data.features=MS", "data.target=LULL", "trainer.precision=bf16-true"],
        [
            *("model=informer2020", "attention=full", "protocol=informer2021", "model.embedding=fixed"),
            "trainer.accumulate_grad_batches=2",
        ],
    ],
    ids=" ".join,
)
def test_every_choice_trains_and_is_recorded(tmp_path, changes):
    call("train", *BRIEF, "trainer.limit_train_batches=2", *changes, f"hydra.run.dir={tmp_path}")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    chosen = dict(change.split("=") for change in changes)
    default = "prob_informer2020" if chosen.get("model") == "informer2020" else "prob"
    recorded = {"model": "informer", "attention": default, "protocol": "all_windows", "features": "M"}
    recorded |= {name: chosen[key] for name in recorded for key in (name, f"data.{name}") if key in chosen}
    assert {key: metrics[key] for key in recorded} == recorded
    assert metrics["test"]["windows"] == (128 if "protocol" in chosen else WINDOWS)
    with np.load(tmp_path / "errors_by_window.npz") as errors:
        expected = {"S": ["OT"], "MS": ["LULL"]}.get(metrics["features"])
        assert expected is None or errors["columns"].tolist() == expected


@pytest.mark.parametrize(
    "changes, parts",
    [
        (["trainer.max_epochs=0"], ["nothing was trained", "trainer.max_epochs=0"]),
        (["trainer.limit_train_batches=0"], ["nothing was trained", "trainer.limit_train_batches=0"]),
        (["trainer.val_check_interval=100000"], ["val_check_interval"]),
        (["protocol=informer2021", "data.rows=300"], ["the protocol counts none"]),
    ],
    ids=str,
)
def test_a_training_that_cannot_be_is_refused_in_words(tmp_path, capsys, changes, parts):
    message = refusal(capsys, "train", *BRIEF, *changes, f"hydra.run.dir={tmp_path}")
    assert all(part in message for part in parts), message
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "failed"
    assert not (tmp_path / "metrics.json").exists()
