"""Each logger writes into the run folder what it can show; without one there is nothing to show."""

import csv
import os
import sqlite3
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import yaml
from config.composed import run_config
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from program import TINY, WITH_FIGURES, call, refusal

from forecast.apps.common.training_data import plan_of
from forecast.errors import UserError
from forecast.text.overrides import install
from forecast.training.fit import make_logger
from forecast.training.lightning_errors import errors_for_users
from forecast.training.loggers import finished_wandb_run, log_figure, log_histogram

FINAL = {"test/mse_scaled", "test/mae_scaled", "test/mase", "test/rmsse", "test/smape"}
SCALARS = {"train/mse_scaled", "val/mse_scaled", "val/mae_scaled", *FINAL}
ACTIVE = {"active_rows/encoder", "active_rows/decoder"}
PICTURES = {"forecast/val", *ACTIVE, *(f"attention/{slot}" for slot in ("encoder", "decoder", "cross"))}


OFF = ["logger=none", "~logger", "trainer.logger=false", "+trainer.logger=false", "logger=csv trainer.logger=false"]


def logger_of(config, folder):
    return make_logger(plan_of(config, {}, folder))


@pytest.mark.parametrize("overrides", OFF)
def test_a_logger_that_is_turned_off_is_none(overrides, tmp_path):
    assert logger_of(run_config(*overrides.split()), tmp_path) is False


@pytest.mark.parametrize(("choice", "kind"), [("tensorboard", TensorBoardLogger), ("csv", CSVLogger)])
def test_a_logger_writes_into_the_run_folder(choice, kind, tmp_path):
    logger = logger_of(run_config(f"logger={choice}", "trainer.logger=true"), tmp_path)
    assert type(logger) is kind
    assert Path(logger.log_dir).is_relative_to(tmp_path / choice)


def test_a_checkpoint_from_before_the_trainer_had_the_key_keeps_its_logger(tmp_path):
    older = dict(run_config().trainer.node)
    del older["logger"]
    assert type(logger_of(run_config().with_(trainer=older), tmp_path)) is TensorBoardLogger


def test_a_logger_that_shows_no_pictures_is_left_in_peace(tmp_path):
    logger = CSVLogger(tmp_path)
    log_figure(logger, "a", object(), 3)
    log_histogram(logger, "a", torch.ones(3), 3)
    assert not list(tmp_path.iterdir())


def test_csv_has_every_scalar_and_a_run_that_goes_on_keeps_the_first_file(tmp_path):
    few = ["trainer.limit_train_batches=2", "trainer.log_every_n_steps=1", "checks.leakage=false", "calibration=none"]
    call("train", *WITH_FIGURES, *few, "logger=csv", f"hydra.run.dir={tmp_path}")
    first = tmp_path / "csv/version_0"
    with (first / "metrics.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert {key for row in rows for key, value in row.items() if value} >= SCALARS
    values = yaml.safe_load((first / "hparams.yaml").read_text())
    assert (values["optim"], values["schedule"], values["loss"]) == ("Adam", "halve_each_epoch", "MSELoss")
    assert values["model.d_model"] == 14
    before = (first / "metrics.csv").read_bytes()
    call("train", f"ckpt_path={tmp_path}/checkpoints/last.ckpt", "trainer.max_epochs=2")
    assert (first / "metrics.csv").read_bytes() == before
    assert (tmp_path / "csv/version_1/metrics.csv").is_file()


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # the packages' own
def test_mlflow_has_scalars_pictures_and_hyperparameters_in_a_database_of_the_run(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason='needs mlflow: pip install -e ".[mlflow]"')
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    call("train", *WITH_FIGURES, "logger=mlflow", "tags=[night]", f"hydra.run.dir={run}")
    with sqlite3.connect(run / "mlflow/mlflow.db") as database:
        assert {key for (key,) in database.execute("select key from metrics")} >= SCALARS
        assert ("model.d_model", "14") in set(database.execute("select key, value from params"))
        assert ("night", "true") in set(database.execute("select key, value from tags"))
        assert list(database.execute("select status from runs")) == [("FINISHED",)]
    pictures = {Path(file) for file in files_below(run / "mlflow") if file.endswith(".png")}
    assert {Path(*file.parent.parts[3:]).as_posix() for file in pictures} == PICTURES
    assert files_below(tmp_path) == {f"run/{file}" for file in files_below(run)}  # nothing beside the run folder
    (logged,) = (run / "mlflow").rglob("artifacts/model/best.ckpt")
    assert logged.read_bytes() == (run / "checkpoints/best.ckpt").read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # the packages' own
def test_wandb_offline_has_scalars_pictures_and_hyperparameters_and_its_run_ends_with_ours(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason='needs wandb: pip install -e ".[wandb]"')
    monkeypatch.setenv("WANDB_MODE", "offline")  # Lightning sets it too, and does not put it back
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    logged, config = set(), {}
    seen = wandb.Run.log

    def log(run, values, *arguments, **options):
        logged.update(values)
        config.update(run.config)
        return seen(run, values, *arguments, **options)

    with mock.patch.object(wandb.Run, "log", log):
        for job, changes in (("first", WITH_FIGURES), ("second", TINY)):
            call("train", *changes, "logger=wandb", "logger.offline=true", f"hydra.run.dir={tmp_path / job}")
            assert wandb.run is None
    histograms = {f"{name}/histogram" for name in ACTIVE}
    assert logged >= {*SCALARS, *PICTURES, *histograms}
    assert config["model.d_model"] == 14
    for job, pictures in (("first", PICTURES), ("second", set())):
        (record,) = (tmp_path / job / "wandb").glob("offline-run-*/run-*.wandb")  # a run of its own for each
        assert record.stat().st_size > 1_000
        images = record.parent / "files/media/images"
        assert {file.rsplit("_", 2)[0] for file in files_below(images)} == pictures
    outside = {file.split("/")[0] for file in files_below(tmp_path)} - {"first", "second", "cache"}
    assert not outside


@pytest.mark.parametrize("ended", [None, KeyboardInterrupt])
def test_a_run_of_wandb_that_began_in_a_training_ends_with_its_success(ended, monkeypatch):
    module, codes = SimpleNamespace(run=None), []
    monkeypatch.setitem(sys.modules, "wandb", module)
    try:
        with finished_wandb_run():
            module.run = SimpleNamespace(finish=lambda *, exit_code: codes.append(exit_code))
            if ended:
                raise ended
    except KeyboardInterrupt:
        assert ended
    assert codes == [1 if ended else 0]
    with finished_wandb_run():
        pass
    assert len(codes) == 1  # the caller's own goes on


def test_what_the_package_of_a_logger_raises_is_said_below_a_line_with_what_to_do(tmp_path):
    code = compile("raise Strange('no account')", os.fspath(tmp_path / "wandb" / "init.py"), "exec")
    with pytest.raises(UserError, match=r"logger=wandb failed\. .*logger=csv\nno account"), errors_for_users(tmp_path):
        exec(code, {"Strange": type("Strange", (Exception,), {})})


def test_a_package_that_is_missing_is_refused_before_the_data_are_read(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("forecast.data.sources.DemoSource.frame", lambda *_: pytest.fail("the data were read"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refusal(capsys, "train", *TINY, "logger=wandb", f"hydra.run.dir={tmp_path}")
    assert said.count("\n") == 1 and install("wandb") in said
