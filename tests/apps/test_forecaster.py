"""Forecaster: what the commands do, from Python, with DataFrames in and out; kinds: test_kinds_of_frames.py."""

import json
import logging
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from apps.files import OWN, write_csv
from config.composed import composed
from omegaconf import OmegaConf
from program import TINY, call

import forecast
from forecast import Forecaster, UserError
from forecast.evaluation.metrics import UNIT_FREE


@pytest.fixture(scope="module")
def table():
    """401 hours of two columns."""
    hours = np.arange(401)
    noise = np.random.default_rng(5).normal(size=(401, 2))
    values = np.sin(2 * np.pi * hours / 24)[:, None] + noise
    times = pd.date_range("2021-03-01", periods=401, freq="h", name="when")
    return pd.DataFrame(values, columns=["load", "wind"], index=times)


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    own = [word for word in OWN if not word.startswith("pred_len")]
    return Forecaster("informer", pred_len=7, overrides=[*own, f"hydra.run.dir={folder}/run"]).fit(table)


def test_fit_leaves_the_run_folder_of_the_command_with_the_same_bits(table, fitted, tmp_path):
    table.to_csv(tmp_path / "own.csv")
    own = [f"data.path={tmp_path}/own.csv", "data=csv", "data.time_column=when"]
    call("train", "model=informer", *own, *OWN, "pred_len=7", f"hydra.run.dir={tmp_path}/run")
    by_command = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert fitted.checkpoint.path == fitted.folder / "checkpoints" / "best.ckpt"
    for part in ("test", "val", "baselines"):
        assert fitted.metrics[part] == by_command[part]
    runs = (fitted.folder, tmp_path / "run")
    left, expected = ({str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} for run in runs)
    assert {name for name in left - expected if "events" not in name} == {"data.parquet"}
    configs = [OmegaConf.load(folder / ".hydra" / "config.yaml") for folder in runs]
    for config in configs:
        config.data.path = None
    assert configs[0] == configs[1]


def test_a_forecast_is_a_table_of_the_steps_after_the_last_row(table, fitted):
    after = fitted.predict()
    assert list(after.columns) == ["load", "wind"] and len(after) == 7
    pd.testing.assert_index_equal(after.index, pd.date_range(table.index[-1], periods=8, freq="h", name="when")[1:])
    pd.testing.assert_frame_equal(fitted.predict(table), after)
    pd.testing.assert_frame_equal(fitted.predict(table.reset_index()), after.reset_index())
    texts = fitted.predict(table.reset_index().astype({"when": str}))
    pd.testing.assert_frame_equal(texts.astype({"when": table.index.dtype}), after.reset_index())
    earlier = fitted.predict(table.iloc[:-3])
    assert earlier.index[0] == table.index[-3] and not np.allclose(earlier["load"], after["load"])


def test_a_loaded_forecaster_gives_what_the_fitted_one_gives(fitted):
    loaded = Forecaster.load(fitted.folder / "checkpoints" / "best.ckpt", device="cpu")
    pd.testing.assert_frame_equal(loaded.predict(), fitted.predict())
    pd.testing.assert_frame_equal(loaded.evaluate(), fitted.evaluate())


def test_a_loaded_forecaster_runs_where_it_is_told_and_reads_where_the_files_lie_now(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    best, of_etth1 = fitted.folder / "checkpoints" / "best.ckpt", tmp_path / "best.ckpt"
    devices = [Forecaster.load(best, device=device)._loaded.device.type for device in ("auto", "cuda", "cpu")]
    assert devices == ["cuda", "cuda", "cpu"]
    content = torch.load(best, weights_only=True)
    published = OmegaConf.to_container(composed("data=ETTh1", "data.root=/then"), resolve=True)
    content["forecast"]["config"]["data"] = published["data"]
    torch.save(content, of_etth1)
    then, now = (Forecaster.load(of_etth1, root=root)._loaded.source() for root in (None, "/now"))
    assert (str(then.path), now.root) == ("/then/ETTh1.csv", "/now")


def test_the_forecast_is_that_of_the_command(fitted, tmp_path):
    path = fitted.folder / "checkpoints" / "best.ckpt"
    call("predict", f"ckpt_path={path}", f"output={tmp_path}/out.csv", f"hydra.run.dir={tmp_path}/run")
    fitted.predict().to_csv(tmp_path / "python.csv")
    assert (tmp_path / "python.csv").read_text() == (tmp_path / "out.csv").read_text()


def test_an_evaluation_is_a_row_for_the_model_and_each_baseline(table, fitted):
    errors = fitted.evaluate()
    assert list(errors.columns) == ["mse_scaled", "mae_scaled", *UNIT_FREE]  # two targets, two units
    assert list(errors.index) == [
        "informer",
        "last_value",
        "seasonal_naive",
        "train_mean",
        "closed_form_nlinear",
        "ridge",
        "smoothing",
    ]
    test = fitted.metrics["test"]
    assert errors.loc["informer"].tolist() == [
        *(test["scaled"]["mse"], test["scaled"]["mae"], *(test[name] for name in UNIT_FREE))
    ]
    assert fitted.evaluate(split="val").loc["informer", "mse_scaled"] == pytest.approx(
        fitted.metrics["val"]["scaled"]["mse"], abs=1e-6
    )


def test_another_table_is_evaluated_whole(table, fitted):
    """Its windows are predicted one by one: the mean of their percentages is the table's sMAPE."""
    other = table.iloc[-(19 + 7 + 2) :]  # three windows
    forecasts = [fitted.predict(other.iloc[k : k + 19])[["load", "wind"]].to_numpy() for k in range(3)]
    truth = [other.iloc[k + 19 : k + 26].to_numpy() for k in range(3)]
    made, true = np.stack(forecasts), np.stack(truth)
    expected = np.mean(200 * np.abs(made - true) / (np.abs(made) + np.abs(true)))
    assert fitted.evaluate(other).loc["informer", "smape"] == pytest.approx(expected, rel=1e-5)
    assert fitted.evaluate(other).loc["informer", "mase"] > 0  # the checkpoint knows the train rows' season


def test_a_published_or_made_up_series_needs_no_table(tmp_path):
    own = [word for word in TINY if not word.startswith("model.")]
    forecaster = Forecaster("dlinear", overrides=[*own, f"hydra.run.dir={tmp_path}/run"])
    assert forecaster.fit() is forecaster
    assert len(forecaster.predict()) == 5 and forecaster.checkpoint.data["name"] == "demo"


def test_each_fit_gets_a_folder_of_its_own(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forecaster = Forecaster("dlinear", overrides=[word for word in OWN if "model." not in word])
    assert forecaster.fit(table).folder != forecaster.fit(table).folder


def test_any_name_may_be_the_times(table, tmp_path):
    named = table.rename_axis("time (UTC), it's")
    own = [word for word in OWN if "model." not in word]
    after = Forecaster("dlinear", overrides=[*own, f"hydra.run.dir={tmp_path}/run"]).fit(named).predict()
    assert after.index.name == named.index.name


def test_logging_is_left_as_it_was(table, fitted, tmp_path):
    root = logging.getLogger()
    before = list(root.handlers), root.level
    with pytest.raises(UserError):
        Forecaster("dlinear", overrides=[f"hydra.run.dir={tmp_path}/run", "data.target=none"]).fit(table)
    assert (list(root.handlers), root.level) == before


REFUSED = {
    "no time": (
        lambda t: t.reset_index(drop=True),
        "the DataFrame has no time: neither its index nor one of the columns load, wind holds timestamps. Give",
    ),
    "two times": (
        lambda t: t.reset_index(names="a").assign(b=t.index + pd.Timedelta("1h")),
        "the DataFrame: 'a' and 'b' may both be the time. Say which: df = df.rename(columns={'a': 'when'})",
    ),
    "another frequency": (lambda t: t.iloc[::2], "the DataFrame has the frequency '2h'; the model was trained on 'h'."),
    "a column less": (lambda t: t[["load"]], "the DataFrame: there is no column 'wind' among load."),
    "too short": (lambda t: t.iloc[:11], "the DataFrame has 11 rows; the model reads the last 19."),
    "a hole": (lambda t: t.drop(t.index[399]), "the DataFrame: "),
    "text": (lambda t: t.assign(load="high"), "the DataFrame: df.iloc[0], column 'load': 'high'"),
}


@pytest.mark.parametrize("change, message", REFUSED.values(), ids=REFUSED)
def test_a_table_that_cannot_be_continued_is_refused_in_one_sentence(table, fitted, change, message):
    with pytest.raises(UserError) as error:
        fitted.predict(change(table))
    assert str(error.value).startswith(message) and "/tmp" not in str(error.value)


def test_wrong_words_are_refused_as_on_the_command_line(table):
    with pytest.raises(UserError, match=r"model=infromer: there is no such choice\. Did you mean 'informer'\?"):
        Forecaster("infromer").fit(table)
    with pytest.raises(UserError, match=r"'optm\.lr' is no key of the config\. Did you mean 'optim\.lr'\?"):
        Forecaster(overrides=["optm.lr=1"]).fit(table)
    with pytest.raises(UserError, match=r"has no trained model: call fit\(df\), or Forecaster\.load"):
        Forecaster().predict()
    with pytest.raises(UserError, match="device=gpu: choose one of auto, cpu, cuda"):
        Forecaster.load("best.ckpt", device="gpu")
    with pytest.raises(UserError, match=r"ckpt_path=none\.ckpt: no such file"):
        Forecaster.load("none.ckpt")


def test_what_is_no_table_and_no_path_is_refused_in_our_words(table, fitted):
    with pytest.raises(UserError, match=r"the DataFrame: there is no column 'wind' among load"):
        fitted.predict(table["load"])
    with pytest.raises(UserError, match=r"a str was given in place of a DataFrame or the path of a CSV file"):
        Forecaster().fit("load.csv")
    with pytest.raises(UserError, match=r"columns of 2 levels, the first is \('x', 'load'\)\. Give each one name"):
        fitted.predict(pd.concat({"x": table}, axis=1))
    with pytest.raises(UserError, match=r"a list was given in place of a DataFrame or the path of a CSV file"):
        fitted.evaluate([1, 2])


def test_another_horizon_is_answered_with_the_training_for_it(fitted):
    assert len(fitted.predict(pred_len=7)) == 7
    with pytest.raises(
        UserError, match=r"^pred_len=12: .*best\.ckpt was trained to forecast pred_len = 7 steps\."
    ) as error:
        fitted.predict(pred_len=12)
    words = shlex.split(str(error.value).split("train a model of its own: ")[1])
    assert words[:2] == ["forecast", "train"] and words[-1] == "pred_len=12"
    assert f"data.path={fitted.folder}/data.parquet" in words and "data.time_column=when" in words
    with pytest.raises(UserError, match=r"'horizon' is no key of the config\. Did you mean 'pred_len'\?"):
        Forecaster(overrides=["data=demo", "horizon=12"]).fit()


def test_a_table_of_the_users_in_the_run_folder_stays(table, tmp_path):
    (tmp_path / "data.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"holds another data\.parquet\. Choose another folder, or move the file away"):
        Forecaster(overrides=[*OWN, f"hydra.run.dir={tmp_path}"]).fit(table)
    assert (tmp_path / "data.parquet").read_text() == "mine"


def test_extra_columns_are_not_read_and_their_order_does_not_matter(table, fitted):
    shuffled = table.assign(more=1.0)[["wind", "more", "load"]]
    pd.testing.assert_frame_equal(fitted.predict(shuffled), fitted.predict(table))


def test_a_files_own_layout_holds_for_its_tables(best):
    """Trained on a file with semicolons and decimal commas, it takes a DataFrame as well as such a file."""
    forecaster = Forecaster.load(best)
    path = best.parents[2] / "own.csv"
    table = write_csv(path.with_name("again.csv")).set_index("when")
    found = forecaster.predict(table).reset_index()
    pd.testing.assert_frame_equal(found, forecaster.predict(path).astype(found.dtypes))


def test_what_begins_without_a_model_does_not_import_torch():
    modules = ["forecast.apps.forecaster", "forecast.apps.check_data", "forecast.apps.auto.command"]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert forecast.Forecaster is Forecaster and forecast.UserError is UserError
    with pytest.raises(AttributeError, match="module 'forecast' has no attribute 'Forcaster'"):
        _ = forecast.Forcaster


def test_a_forecaster_shows_its_model_its_lengths_its_folder_and_how_it_did(fitted):
    untrained = Forecaster("dlinear", pred_len=7, target="load")
    assert repr(untrained) == "Forecaster, not trained: model=dlinear pred_len=7 data.target=load"
    name, folder, judged = repr(fitted).splitlines()
    assert name == "Forecaster: informer, seq_len=19, pred_len=7" and folder == str(fitted.folder)
    assert judged.startswith("Forecasts of load are off by ") and "MSE" in judged
    assert repr(Forecaster.load(fitted.folder)) == repr(fitted)


def test_without_verbose_nothing_is_shown_and_the_log_is_as_before(table, tmp_path, capfd):
    own = [word for word in OWN if "model." not in word]
    quiet = Forecaster("dlinear", calibration="none", overrides=[*own, f"hydra.run.dir={tmp_path}/run"], verbose=False)
    quiet.fit(table)
    quiet.predict(table)
    quiet.evaluate()
    assert capfd.readouterr() == ("", "") and logging.root.manager.disable < logging.INFO


def test_no_table_is_refused_unless_the_overrides_name_the_data():
    with pytest.raises(UserError, match=r"There is no table\. Give one, fit\(df\), or name the data: Forecaster\("):
        Forecaster("dlinear").fit()


def test_errors_speak_of_rows_and_leave_commands_as_they_are(table, tmp_path):
    own = [*(word for word in OWN if "model." not in word), f"hydra.run.dir={tmp_path}/run"]
    known = Forecaster("ridge", target="load", known=["wind"], overrides=own).fit(table)
    with pytest.raises(UserError, match=r"future=FILE$"):
        known.predict()
    ahead = table.iloc[-7:].set_axis(table.index[-7:] + pd.Timedelta("7h"))[["wind"]]
    assert len(known.predict(future=ahead)) == 5
    ahead.iloc[2] = np.nan
    with pytest.raises(UserError, match=r"^future: the column 'wind' has no value at"):
        known.predict(future=ahead)
    with pytest.raises(
        UserError, match=r"forecast train data=csv .* data\.target=load 'data\.known=\[wind\]' .*pred_len=9"
    ):
        known.predict(pred_len=9)
