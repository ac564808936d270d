"""Which runs are a row, which rows a table, and what two rows are compared on."""

import os

import numpy as np
import pytest
from comparison.folders import N_WINDOWS, edit_json, make_run, make_runs, wave

from forecast.comparison.rows import (
    comparisons,
    mse_difference,
    read_folder,
    series_errors,
    shared_windows,
    window_errors,
)
from forecast.comparison.tables import report
from forecast.errors import UserError
from forecast.run_folder import read_run


@pytest.fixture
def sweep(tmp_path):
    """Two attentions, two seeds: lsh errs by 0.02 more than full in every window."""
    jobs = [("full", 1, 0.5), ("full", 2, 0.6), ("lsh", 1, 0.52), ("lsh", 2, 0.62)]
    for number, (name, seed, level) in enumerate(jobs):
        overrides = {"attention": name, "model__d_model": 8}
        make_run(tmp_path / f"id{9 - number}", errors=wave(level, seed=seed), seed=seed, number=number, **overrides)
    return tmp_path


def test_runs_that_differ_in_their_seed_are_one_row(sweep):
    (comparison,) = comparisons(read_folder(sweep))
    assert [row.name for row in comparison.rows] == ["full", "lsh"]  # in the order of the jobs, not of the folders
    full = comparison.rows[0]
    assert [run.metrics["seed"] for run in full.finished] == [1, 2]
    values = [wave(0.5, seed=1).mean(), wave(0.6, seed=2).mean()]
    spread = full.spread("test", "scaled", "mse")
    assert spread == pytest.approx((np.mean(values), np.std(values, ddof=1), 2))


def test_the_difference_is_taken_window_by_window(sweep):
    (comparison,) = comparisons(read_folder(sweep))
    interval = mse_difference(*reversed(comparison.rows))
    assert interval.difference == pytest.approx(0.02)
    assert interval.blocks == N_WINDOWS // 10


def test_rows_of_another_look_back_are_compared_where_their_forecasts_begin_alike(tmp_path):
    make_run(tmp_path / "short", errors=wave(0.5), number=0)
    errors = np.concatenate([np.full(5, 99.0), wave(0.4)[:-5]])  # begins five rows earlier
    make_run(tmp_path / "long", errors=errors, seq_len=13, first=6, number=1, model="informer")
    (comparison,) = comparisons(read_folder(tmp_path))
    assert shared_windows(comparison.rows) == N_WINDOWS - 5
    interval = mse_difference(*reversed(comparison.rows))
    assert (interval.difference, interval.blocks) == (pytest.approx(-0.1), (N_WINDOWS - 5) // (13 + 3))


def test_no_shared_window_no_comparison(tmp_path):
    make_run(tmp_path / "a", errors=wave(0.5), attention="full")
    make_run(tmp_path / "b", errors=wave(0.5), attention="lsh", first=9000)
    (comparison,) = comparisons(read_folder(tmp_path))
    assert mse_difference(*comparison.rows) is None


def test_other_data_are_another_table(tmp_path):
    for seed, data in enumerate(("ETTh1", "ETTh2")):
        make_runs(tmp_path, {"full": wave(0.5), "lsh": wave(0.5)}, seed=seed, data=data, data__name=data)
    tables = [(table.data, [row.name for row in table.rows]) for table in comparisons(read_folder(tmp_path))]
    assert sorted(tables) == [("ETTh1", ["full", "lsh"]), ("ETTh2", ["full", "lsh"])]


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        ([{"model__distil": "true"}, {"model__distil": "false"}], ["model.distil=true", "model.distil=false"]),
        ([{"attention": "full"}, {}], ["full", "attention as it is"]),
        (
            [{"attention": name, "seq_len": n} for name, n in (("full", 5), ("lsh", 5), ("lsh", 3))],
            ["attention=full, seq_len=5", "attention=lsh, seq_len=5", "attention=lsh, seq_len=3"],
        ),
        (
            [{"callbacks__early_stopping__patience": n} for n in (1, 3)],
            [f"callbacks.early_stopping.patience={n}" for n in (1, 3)],
        ),
        ([{"callbacks__progress": "null"}, {"data__root": "/x", "checks__leakage": "false"}], ["all runs"]),
    ],
)
def test_a_row_is_named_by_what_sets_it_apart(tmp_path, overrides, names):
    for number, keys in enumerate(overrides):
        folder = make_run(tmp_path / str(number), errors=wave(0.5), number=number)
        lines = [f"- {key.replace('__', '.')}={value}\n" for key, value in keys.items()]
        (folder / ".hydra" / "overrides.yaml").write_text("".join(lines) or "[]\n")
    (comparison,) = comparisons(read_folder(tmp_path))
    assert [row.name for row in comparison.rows] == names


def test_other_target_columns_or_splits_are_another_table(tmp_path):
    for number, (key, value) in enumerate({"targets": ["OT"], "splits": {"test": [3, 9]}, "gaps": {}}.items()):
        folder = make_run(tmp_path / key, errors=wave(0.5), number=number, data__target=key)
        edit_json(folder / "run.json", lambda info, new={key: value}: info["data"].update(new))
    tables = comparisons(read_folder(tmp_path))
    assert [(table.targets, len(table.rows)) for table in tables] == [(("OT",), 1), ((), 1), ((), 1)]


def failed(folder):
    (folder / "run.json").write_text('{"status": "failed", "error": "no"}')


def test_what_has_not_finished_names_a_row_of_its_own_file_alone_and_stands_in_the_list(tmp_path):
    for number, (value, name) in enumerate((v, n) for v in ("a", "b") for n in ("full", "prob")):
        options = {"number": number, "data": f"{value}.csv", "data__path": value, "attention": name}
        folder = make_run(tmp_path / f"{value}_{name}", errors=wave(0.5), **options)
    failed(folder)
    failed(make_run(tmp_path / "c", errors=wave(0.5), data__path="c", number=5))
    runs = read_folder(tmp_path)
    assert [[row.name for row in table.rows] for table in comparisons(runs)] == [["full", "prob"], ["full"]]
    assert "- b_prob (data.path=b attention=prob seed=1): failed: no" in report("sweep", comparisons(runs), runs, None)


def test_what_run_json_has_of_the_command_counts_since_hydra_writes_its_files_anew(tmp_path):
    for number, name in enumerate(("full", "lsh")):
        folder = make_run(tmp_path / name, errors=wave(0.5), number=1 - number, attention="typed anew")
        command = {"overrides": [f"attention={name}", "seed=1"], "job": number}
        edit_json(folder / "run.json", lambda info, command=command: info | command)
    (comparison,) = comparisons(read_folder(tmp_path))
    assert [row.name for row in comparison.rows] == ["full", "lsh"]


def test_of_two_runs_of_a_seed_the_newer_one_counts(tmp_path):
    for age, level in ((100, 0.5), (50, 0.3)):
        folder = make_run(tmp_path / str(level), errors=wave(level), attention="full")
        os.utime(folder, (1e9 - age, 1e9 - age))
    (comparison,) = comparisons(read_folder(tmp_path))
    assert comparison.rows[0].spread("test", "scaled", "mse")[::2] == pytest.approx((wave(0.3).mean(), 1))


# a file of the run, and its text, the keys that change, or None where it is not there; then state and reason
NOT_FINITE = "its test error is not a finite number"
BROKEN = {
    "failed": ("run.json", {"status": "failed", "error": "the loss is not finite"}, "failed", "the loss is not finite"),
    "interrupted": ("run.json", {"status": "interrupted", "error": ""}, "interrupted", "Ctrl-C, or a signal"),
    "killed": ("run.json", {"status": "running"}, "unfinished", "it is running, or was killed"),
    "no run info": ("run.json", None, "unfinished", "there is no run.json"),
    "no metrics": ("metrics.json", None, "unfinished", "there is no metrics.json"),
    "no window errors": ("errors_by_window.npz", None, "unfinished", "there is no errors_by_window.npz"),
    "cut metrics": (
        "metrics.json",
        '{"model": "inf',
        "foreign",
        "metrics.json is damaged or was written by another version: EOF while parsing a string at line 1 column 14",
    ),
    "another version's": ("metrics.json", '{"accuracy": 1.0}', "foreign", "another version: model: Field required"),
    "no overrides": (
        ".hydra/overrides.yaml",
        None,
        "foreign",
        "there is no .hydra/overrides.yaml: no run of forecast train",
    ),
    "MSE None": ("metrics.json", {"test": {"windows": 3, "scaled": {"mse": None, "mae": 0.5}}}, "failed", NOT_FINITE),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_run_that_is_not_whole_is_known_as_such(tmp_path, case):
    name, change, state, reason = BROKEN[case]
    folder = make_run(tmp_path / "run", errors=wave(0.5))
    assert read_run(folder).state == "finished"
    if change is None:
        (folder / name).unlink()
    elif isinstance(change, str):
        (folder / name).write_text(change)
    else:
        edit_json(folder / name, lambda content: content | change)
    run = read_run(folder)
    assert run.state == state
    assert reason in run.reason


def arrays(path, **changed):
    """Writes the window errors of a run anew, without those that are None."""
    with np.load(path) as before:
        after = {**before, **changed}
    np.savez(path, **{name: values for name, values in after.items() if values is not None})


def test_windows_of_which_nothing_was_measured_are_compared_by_the_others(tmp_path):
    path = make_run(tmp_path / "run", errors=wave(0.5)) / "errors_by_window.npz"
    with np.load(path) as before:
        errors, starts = before["squared_scaled"].copy(), before["start"]
    errors[2], errors[5, 0] = np.nan, np.nan
    arrays(path, squared_scaled=errors)
    (run,) = read_folder(tmp_path)
    kept = window_errors(run)
    assert len(kept) == N_WINDOWS - 1 and np.isfinite([*kept.values()]).all()
    first = int(run.metrics["seq_len"]) + starts
    assert first[2] not in kept and kept[int(first[5])] == errors[5, 1:].mean()


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"nothing: there is no such folder\. It is multirun/NAME"):
        read_folder(tmp_path / "nothing")
    for name in (".", "notes"):  # a folder that is no run does not make this one a sweep's, where a report is written
        (tmp_path / name).mkdir(exist_ok=True)
        with pytest.raises(UserError, match=r"holds no runs\. A sweep writes them"):
            read_folder(tmp_path)
    make_run(tmp_path / "run", errors=wave(0.5))
    with pytest.raises(UserError, match=r"run is a single run: say the folder that holds the runs"):
        read_folder(tmp_path / "run")


def test_of_several_series_each_weighs_as_many_windows_as_it_has(tmp_path):
    path = tmp_path / "errors_by_series.csv"
    path.write_text('id,windows,mse_scaled\n"a\u2028b",1,4.0\n"c\nd",3,0.8\nnone,2,\n', encoding="utf-8")
    errors = series_errors(path)
    assert errors == {"a\u2028b": 2.0, "c\nd": pytest.approx(1.2)}
    assert np.mean(list(errors.values())) == pytest.approx((1 * 4.0 + 3 * 0.8) / 4)
