"""A training on a series, and one on the same rows with an id column, leave the same but for the id column.

As `test_one_series_is_a_panel_of_one`, of what only a whole command makes: weights, metrics.json, intervals, files.
"""

import functools
import json

import numpy as np
import pandas as pd
import pytest
import torch
from laws.test_one_series_is_a_panel_of_one import CELL, FLOAT32, POLICIES
from laws.twins import File, long_file, same, series_file
from program import call

from forecast import Forecaster

WHOLE = File(rows=113)
ROUNDED = 2e-5  # what float32 leaves of the digits that files have
BRIEF = ("label_len=3", "seq_len=7", "pred_len=3", "trainer.accelerator=cpu", "trainer.max_epochs=1", "logger=none")
BRIEF += ("callbacks.figures=null", "trainer.enable_progress_bar=false", "checks.leakage=false")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A file, a model and options -> the run folders of the series and of the panel."""

    @functools.cache
    def folders(file, model="ridge", *options):
        made = []
        for write in (series_file, long_file):
            home = tmp_path_factory.mktemp("run")
            keys = {**dict(file.keys), **write(file, home / "rows.csv"), "path": home / "rows.csv"}
            of_data = [f"data.{key}={value}" for key, value in keys.items()]
            call("train", f"model={model}", "data=csv", *of_data, f"hydra.run.dir={home}/run", *BRIEF, *options)
            made.append(home / "run")
        return made

    return folders


def checkpoint(folder):
    return torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)


def weights(folder):
    saved = checkpoint(folder)
    fits = {key: value for key, value in saved["forecast"].items() if isinstance(value, torch.Tensor)}
    return {**saved["state_dict"], **fits}


def margins(folder):
    saved = checkpoint(folder)["forecast"]["calibration"]
    return {key: value for key, value in saved.items() if key != "targets"}


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def leaves(block, path=""):
    """The numbers and words of metrics.json, by their places."""
    if isinstance(block, dict):
        return {key: value for name, part in block.items() for key, value in leaves(part, f"{path}/{name}").items()}
    return {path: block}


def errors(folder, *without):
    """The numbers of metrics.json about windows, of the model and of the baselines, but for keys with such a part."""
    blocks = {key: block for key, block in metrics(folder).items() if key in ("test", "val", "baselines")}
    numbers = {key: value for key, value in leaves(blocks).items() if isinstance(value, int | float)}
    return {key: value for key, value in numbers.items() if not any(part in key for part in without)}


def cells(path):
    """A CSV: its columns, but for the id's, and the numbers or words of each."""
    table = pd.read_csv(path).drop(columns=["id", "shop"], errors="ignore")
    return {name: (column if column.dtype.kind in "if" else pd.factorize(column)[0]) for name, column in table.items()}


def arrays(path):
    """A NumPy archive: the numbers in it, but for the id's."""
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files if archive[name].dtype.kind in "if" and name != "series"}


def serves_both(trained, *options):
    try:
        trained(WHOLE, "last_value", "calibration=none", *options)
    except SystemExit:
        raise AssertionError(f"{options} is refused of one kind") from None


# Weights.


def test_weights_without_gaps(trained):
    same(*map(weights, trained(WHOLE)), within=FLOAT32)


def test_weights_that_a_gradient_found_without_gaps(trained):
    same(*map(weights, trained(WHOLE, "dlinear", "calibration=none")), within=FLOAT32)


def test_weights_to_the_last_bit(trained):
    same(*map(weights, trained(WHOLE)))


@pytest.mark.parametrize("policy", POLICIES)
def test_weights_with_a_gap(policy, trained):
    same(*map(weights, trained(CELL.with_keys(gaps=policy))), within=FLOAT32)


# Metrics.


def test_errors_without_gaps(trained):
    # the panel has some more keys
    first, second = (errors(folder, "mase", "rmsse", "msis", "sql", "difference") for folder in trained(WHOLE))
    same(first, {key: second[key] for key in first}, within=ROUNDED)


def test_scaled_errors_without_gaps(trained):
    first, second = (errors(folder, "difference") for folder in trained(WHOLE))
    same(first, {key: second[key] for key in first}, within=ROUNDED)


def test_differences_from_baselines_without_gaps(trained):
    first, second = (
        {name: block["difference"]["blocks"] for name, block in metrics(folder)["baselines"].items()}
        for folder in trained(WHOLE)
    )
    same(first, second)


def test_metrics_have_the_same_keys(trained):
    same(*(dict.fromkeys(leaves(metrics(folder)), 0) for folder in trained(WHOLE)))


def test_mase_scaled_by_the_rows_before_each_window(trained):
    serves_both(trained, "protocol.mase_scale=window")


def test_horizon_offsets(trained):
    serves_both(trained, "protocol.horizon_offsets=[2]")


def test_windows_per_epoch(trained):
    serves_both(trained, "data.windows_per_epoch=20")


@pytest.mark.parametrize("model", ["ridge", "dlinear"])
def test_recent_rows_train_the_model_and_not_what_it_is_judged_by(model, trained):
    every, recent = (trained(WHOLE, model, "calibration=none", *words) for words in ((), ("data.recent=40",)))
    same(*map(weights, recent), within=FLOAT32)
    for before, after in zip(every, recent, strict=True):
        first, second = metrics(before), metrics(after)
        assert first["test"]["scaled"] != second["test"]["scaled"]
        for name, block in first["baselines"].items():
            same(*(leaves(one["scaled"]) for one in (block, second["baselines"][name])))


def test_padding(trained):
    folders = trained(WHOLE, "dlinear", "data.short=pad")
    same(*map(weights, folders), within=FLOAT32)
    rows = [f"data.path={folder.parent}/few.csv" for folder in folders]
    for folder, path in zip(folders, rows, strict=True):
        lines = (folder.parent / "rows.csv").read_text().splitlines(keepends=True)
        (folder.parent / "few.csv").write_text("".join(lines[:1] + lines[-4:]))  # fewer than a window has
        options = [path, f"output={folder.parent}/few_next.csv", "level=[80]"]
        call("predict", f"ckpt_path={folder}/checkpoints/best.ckpt", *options)
        call("evaluate", f"ckpt_path={folder}/checkpoints/best.ckpt", f"hydra.run.dir={folder.parent}/again")
    same(*(cells(folder.parent / "few_next.csv") for folder in folders), within=ROUNDED)
    same(*(errors(folder.parent / "again", "difference") for folder in folders), within=ROUNDED)


# Intervals.


def test_margins_without_gaps(trained):
    same(*map(margins, trained(WHOLE)), within=FLOAT32)


def test_margins_to_the_last_bit(trained):
    same(*map(margins, trained(WHOLE)))


@pytest.mark.parametrize("policy", POLICIES)
def test_margins_with_a_gap(policy, trained):
    same(*map(margins, trained(CELL.with_keys(gaps=policy))), within=FLOAT32)


# Files.


def test_tables_without_gaps(trained):
    same(*(cells(folder / "metrics_by_step.csv") for folder in trained(WHOLE)), within=ROUNDED)


@pytest.mark.parametrize("level", [(), ("level=[80]",)], ids=["forecast", "intervals"])
def test_forecasts_without_gaps(level, trained):
    for folder in trained(WHOLE):
        call("predict", f"ckpt_path={folder}/checkpoints/best.ckpt", f"output={folder.parent}/next.csv", *level)
    same(*(cells(folder.parent / "next.csv") for folder in trained(WHOLE)), within=ROUNDED)


def test_forecasts_to_the_last_digit(trained):
    made = []
    for folder in trained(WHOLE, "last_value", "calibration=none"):
        call("predict", f"ckpt_path={folder}/checkpoints/best.ckpt", f"output={folder.parent}/exact.csv")
        made.append(cells(folder.parent / "exact.csv"))
    same(*made)


def test_predict_leaves_the_same_files(trained):
    for folder in trained(WHOLE):
        output = folder.parent / "next" / "next.csv"
        output.parent.mkdir(exist_ok=True)
        call("predict", f"ckpt_path={folder}/checkpoints/best.ckpt", f"output={output}")
    same(*({path.name: 0 for path in (folder.parent / "next").iterdir()} for folder in trained(WHOLE)))


def test_run_folders_hold_the_same_files(trained):
    same(*({str(path.relative_to(folder)): 0 for path in folder.rglob("*")} for folder in trained(WHOLE)))


def test_errors_by_window_are_the_same(trained):
    same(*(arrays(folder / "errors_by_window.npz") for folder in trained(WHOLE)), within=ROUNDED)


def test_forecasts_that_are_shown_are_the_same(trained):
    same(*(arrays(folder / "forecasts.npz") for folder in trained(WHOLE)), within=ROUNDED)


def test_records_have_the_same_keys(trained):
    same(*(dict.fromkeys(checkpoint(folder)["forecast"], 0) for folder in trained(WHOLE)))


def backtest(folder):
    """The table of a backtest from three origins, but for the id."""
    table = Forecaster.load(folder / "checkpoints" / "best.ckpt").backtest(folds=3)
    table = table.drop(columns="id", errors="ignore")
    return {name: (column if column.dtype.kind in "if" else pd.factorize(column)[0]) for name, column in table.items()}


def test_backtests_without_gaps(trained):
    same(*map(backtest, trained(WHOLE)), within=ROUNDED)


@pytest.mark.parametrize("policy", POLICIES)
def test_backtests_with_a_gap(policy, trained):
    same(*map(backtest, trained(CELL.with_keys(gaps=policy))), within=ROUNDED)


def refused(command, folder, *options):
    """Whether a command refuses a checkpoint."""
    try:
        call(command, f"ckpt_path={folder}/checkpoints/best.ckpt", *options)
    except SystemExit:
        return True
    return False


def test_evaluations_of_a_checkpoint(trained):
    made = []
    for folder in trained(WHOLE):
        assert not refused("evaluate", folder, f"hydra.run.dir={folder.parent}/again")
        made.append(errors(folder.parent / "again", "mase", "rmsse", "msis", "sql", "difference"))
    same(made[0], {key: made[1][key] for key in made[0]}, within=ROUNDED)


def test_evaluations_of_a_whole_file(trained):
    answers = []
    for folder in trained(WHOLE):
        other = [f"data.path={folder.parent}/rows.csv", "split=all", f"hydra.run.dir={folder.parent}/all"]
        answers.append(refused("evaluate", folder, *other))
    assert answers == [False, False]


def grown(path, rows):
    """A copy of a file with so many more rows, each like the first ones."""
    table = pd.read_csv(path, parse_dates=["date"])
    more = table.head(rows).assign(date=pd.date_range(table["date"].iloc[-1], periods=rows + 1, freq="D")[1:])
    pd.concat([table, more]).to_csv(path.with_name("more.csv"), index=False)
    return path.with_name("more.csv")


def test_updates(trained):
    made = []
    for folder in trained(WHOLE):
        home = folder.parent
        for path in (home / "rows.csv", grown(home / "rows.csv", 4)):
            call("update", f"ckpt_path={folder}/checkpoints/best.ckpt", f"data.path={path}", f"hydra.run.dir={home}/u")
        made.append((cells(home / "u/latest.csv"), cells(home / "u/log.csv")))
    of_file, of_ids = ([{key: part[key] for key in made[0][i]} for i, part in enumerate(one)] for one in made)
    same(of_file, of_ids, within=1e-3)  # as many digits as a log has


def test_evaluations_of_new_rows(trained):
    made = []
    for folder in trained(WHOLE):
        home = folder.parent
        path = [f"data.path={grown(home / 'rows.csv', 9)}", f"hydra.run.dir={home}/new"]
        call("evaluate", f"ckpt_path={folder}/checkpoints/best.ckpt", "split=new", *path)
        blocks = metrics(home / "new")
        made.append({key: value for key, value in leaves(blocks["new"]).items() if isinstance(value, int | float)})
    same(made[0], {key: made[1][key] for key in made[0]}, within=ROUNDED)
