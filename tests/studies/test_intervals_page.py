"""docs/intervals.md: what it says of the records."""

import pytest
from script import SCRIPTS, call_script

from forecast.errors import UserError
from studies.intervals import goals as interval_goals
from studies.intervals import page as interval_page
from studies.intervals import rows as interval_rows
from studies.intervals import runs as interval_runs

RESULTS = SCRIPTS.parent / "results"


def block(at_80=0.8, at_95=0.95, *, worst=0.8, msis=7.0, sql=1.0, margin=1.0):
    return {
        "coverage": {"80": at_80, "95": at_95},
        "width": {"80": 1.5, "95": 2.5},
        "msis": {"80": 5.0, "95": msis},
        "sql": sql,
        "worst": {"80": {"step": 2, "coverage": worst}, "95": {"step": 1, "coverage": 0.95}},
        "margin": {"80": margin, "95": 2.0},
    }


def result(val, *, made_by="2026-01-02, commit 1a2b3c4", **blocks):
    forms = {"static": block(), "adaptive": block(), **blocks}
    return {
        "made_by": made_by,
        "val": {"mase": val},
        "test": {"windows": 1234, "mase": 0.5},
        "calibration": {"windows": 567, "blocks": 23, "crossed": "uncrossed" in blocks},
        "intervals": forms,
    }


def goals(results):
    return {line.split(" | ")[0].removeprefix("| "): line for line in interval_goals.goal_lines(results)[2:]}


def test_the_page_is_what_the_records_give(capsys):
    status, _, error = call_script(capsys, "intervals", "--check")
    assert not status, error


def test_the_validation_rows_choose_the_model_that_is_judged():
    results = {"etth1": {"ridge": result(0.9), "informer": result(0.8, static=block(0.7))}}
    assert "| 1 of 2 | `etth1` 80 %: -10.0 |" in goals(results)["coverage, static: within 5 points"]
    results["etth1"]["informer"]["val"]["mase"] = 1.0
    assert "| 2 of 2 | - |" in goals(results)["coverage, static: within 5 points"]


def test_a_miss_is_named_with_its_points_and_its_step():
    results = {"nyc_taxi": {"ridge": result(0.9, adaptive=block(0.83, 0.965, worst=0.86))}}
    found = goals(results)
    assert "| 1 of 2 | `nyc_taxi` 80 %: +3.0 |" in found["coverage, adaptive: within 2 points"]
    assert "| 1 of 2 | `nyc_taxi` 80 %: +6.0 (step 2) |" in found["coverage by step, adaptive: within 5 points"]


def test_scores_stand_beside_their_goals():
    prices = {"seasonal naive": result(1.5, static=block(sql=2.0)), "ridge": result(0.9, static=block(sql=1.5))}
    found = goals({"epf_np": prices, "m4_hourly": {"ridge": result(0.9, static=block(msis=7.75))}})
    assert any("SQL 30 % below" in goal and "| 25.0 % | 5.0 points |" in line for goal, line in found.items())
    assert any("MSIS" in goal and "| 7.75 | 0.25 |" in line for goal, line in found.items())


def test_cross_fitting_is_shown_where_there_is_any():
    crossed = result(0.9, uncrossed=block(0.75, margin=0.875))
    page = "\n".join(interval_page.lines({"etth1": {"ridge": result(0.9), "informer": crossed}}, {}, {}))
    assert (
        "| ETTh1, 96 -> 96 | informer | best.ckpt, on the windows that chose it | 0.875 | 2.000 | 75.0 (-5.0) |" in page
    )
    assert "Coverage moves by +0.0 to +5.0 points, +2.50 on average." in page
    assert "Not run yet: `python scripts/intervals.py --root FOLDER --rows etth2`" in page
    assert "cross-fitting" not in "\n".join(interval_page.lines({"etth1": {"ridge": result(0.9)}}, {}, {}))


def test_rows_that_there_are_not_are_refused(tmp_path):
    for rows, models, words in (
        (["ett1"], [], r"--rows ett1: choose of etth1; .*Did you mean"),
        ([], ["rigde"], r"--models rigde: choose of .*Did you mean 'ridge'"),
        (["nyc_taxi"], [], r"nab_nyc_taxi\.csv: there is no such file\. Say where the panels lie: --root FOLDER"),
    ):
        with pytest.raises(UserError, match=words):
            list(interval_runs.jobs(tmp_path, tmp_path, rows=rows, models=models))


def test_the_price_rows_of_all_windows_have_no_days_of_the_panel(tmp_path):
    keys = interval_rows.models_of(interval_rows.interval_rows()["epf_np_fifth"])["ridge"]
    assert keys["data/split"] == "shares" and keys["protocol"] == "all_windows"
    assert not any(key.startswith("data.split.") for key in keys) and keys["data.known"]


def test_a_mean_weighs_the_runs_of_models_of_its_row_on_their_data(tmp_path):
    (tmp_path / "panels").mkdir()
    (tmp_path / "panels" / "epf_PJM.csv").touch()
    found = {job.model: job for job in interval_runs.jobs(tmp_path, tmp_path / "runs", rows=["epf_pjm"], models=[])}
    mean, row = found[interval_rows.MEAN], interval_rows.interval_rows()["epf_pjm"]
    words = dict(word.split("=", 1) for word in mean.overrides)
    assert words["model"] == "weighted_ensemble"
    assert [found[name].identity in words["model.runs"] for name in row["mean"]] == [True, True, True]
    ridge = dict(word.split("=", 1) for word in found["ridge"].overrides)
    assert {key: words[key] for key in ridge if key != "model"} == {k: v for k, v in ridge.items() if k != "model"}


def test_the_worst_step_is_the_farthest_from_the_level_either_way():
    assert interval_runs.worst_step([0.79, 0.86, 0.75], 0.8) == {"step": 2, "coverage": 0.86}
    assert interval_runs.worst_step([0.79, 0.84, 0.75], 0.8) == {"step": 3, "coverage": 0.75}
