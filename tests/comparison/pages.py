"""Backtests and studies made by hand, of any size and with any names, and their pages."""

import json
import re

import numpy as np
import pandas as pd
from report.pages import made_record

from forecast.comparison.backtest_page import backtest_page
from forecast.comparison.backtests import FoldSums, cell_errors, fold_errors, summary
from forecast.comparison.study_page import study_page

LEVELS = ("80", "95")


def made_table(folds=6, *, pred_len=4, step=None, ids=None, targets=("load",), start="2024-01-01 23:00", freq="h"):
    """The table of a backtest: the truth is the number of the hour and that of the series, every forecast 0.5 above.

    start: of the first cutoff; a dictionary of id -> start where series end at different times.
    """
    step, names = step or pred_len, ids or [None]
    # columns at once: a table of 480,000 rows from a frame for each window takes twenty seconds
    fold, place, number, ahead = (i.ravel() for i in np.indices((folds, len(names), len(targets), pred_len)))
    starts = [start[name] if isinstance(start, dict) else start for name in names]
    clocks = {begin: pd.date_range(begin, periods=folds * step + pred_len + 1, freq=freq) for begin in {*starts}}
    times = np.stack([clocks[begin].to_numpy() for begin in starts])
    hours = fold * step + ahead + 1.0
    y = hours + 100 * place + 1000 * number
    known = {"fold": fold, "cutoff": times[place, fold * step]} | (
        {"id": np.array(names, dtype=object)[place]} if ids else {}
    )
    made = {"time": times[place, fold * step + ahead + 1], "target": np.array(targets, dtype=object)[number]}
    ends = {f"{end}-{level}": y + far for level, far in zip(LEVELS, (1, 2), strict=True)
            for end, far in (("lo", -far), ("hi", far))}  # fmt: skip
    baselines = {"last_value": y + 9.0, "ridge": y - 1.0 + 0.1 * fold}
    return pd.DataFrame({**known, **made, "y": y, "forecast": y + 0.5, **ends, **baselines})


def made_scales(ids=None, targets=("load",)):
    rows = [
        {**({} if name is None else {"id": name}), "target": target} for name in ids or [None] for target in targets
    ]
    return pd.DataFrame(rows).assign(std=2.0, naive=0.5)


def made_backtest(folds=6, *, pred_len=4, step=None, parts=1, **options):
    """backtest.json, the sums, the table in so many parts, and the scales."""
    scales = made_scales(options.get("ids"), options.get("targets", ("load",)))
    whole = made_table(folds, pred_len=pred_len, step=step, **options)
    tables = [whole[whole["fold"] % parts == part] for part in range(parts)]
    sums, errors = FoldSums(scales, pred_len=pred_len), []
    for table in tables:
        cells = cell_errors(table, scales)
        errors += fold_errors(table, cells)
        sums.add(table, cells)
    errors.sort(key=lambda fold: fold["fold"])
    found = {"model": "informer", "data": "my.csv", "features": "M", "target": None, "seed": 1, "seq_len": 96}
    found |= {"label_len": 48, "pred_len": pred_len, "folds": folds, "step": step or pred_len, "window": "expanding"}
    found |= {"refit": "every_fold", **summary(errors, pred_len=pred_len, step=step or pred_len), "by_fold": errors}
    return found, sums, tables, scales


def made_backtest_page(folds=6, **options):
    found, sums, tables, _ = made_backtest(folds, **options)
    return backtest_page(found, sums, lambda: iter(tables), made_record(list(options.get("targets", ("load",)))))


def made_study(count=12, *, names=("mse", "mae", None), data="my.csv", **changes):
    """trials.json: a rate between two ends by its logarithm, whole numbers, a share, and a choice of names."""
    draws = np.random.default_rng(3)
    space = {
        "optim.lr": {"low": 1e-4, "high": 1e-1, "log": True},
        "model.layers": {"low": 1, "high": 4},
        "model.dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
        "loss": list(names),
    }
    states, made = ("finished", "pruned", "finished", "failed", "cut"), []
    for number in range(count):
        state = states[number % len(states)]
        rate = float(f"{10 ** draws.uniform(-4, -1):.6g}")
        config = {"optim.lr": rate, "model.layers": int(draws.integers(1, 5)), "model.dropout": 0.3}
        config["loss"] = names[number % len(names)]
        error = None if state == "failed" else 0.4 + 0.1 * abs(float(np.log10(rate)) + 2.5) + (state == "pruned") * 0.2
        errors = [] if error is None else [error + 0.1, error]
        trial = {
            "trial": number,
            "state": state,
            "error": error,
            "seconds": 1.5 + number,
            "epochs": len(errors) or None,
        }
        reason = f"a loss of {names[0]} does not fit" if state == "failed" else None
        made.append({**trial, "config": config, "reason": reason, "by_epoch": errors})
    finished = [trial for trial in made if trial["state"] == "finished"]
    best = min(finished, key=lambda trial: trial["error"])
    command = {"command": "forecast train model=dlinear optim.lr=0.01"}
    found = {"status": "finished", "model": "dlinear", "data": data, "seed": 1, "seq_len": 96, "pred_len": 24}
    found |= {"metric": "val mse, scaled", "minutes": 10.0, "most_trials": 40, "seconds": 581.0, "space": space}
    found["states"] = {state: sum(one["state"] == state for one in made) for state in states}
    found |= {"trials": made, "best": {**best, **command}, "why": "What is left is too short for another trial."}
    return {**found, **changes}


def made_study_page(count=12, **changes):
    return study_page(made_study(count, **changes))


def charts_of(page):
    charts = json.loads(re.search(r'id="page-data">(.*?)</script>', page, re.DOTALL)[1])["charts"]
    return {chart["title"]: chart for chart in charts}


def words_of(page):
    """What is read without JavaScript."""
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL))
