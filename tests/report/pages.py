"""What a page of a run is made of, by hand: plain dicts and arrays of any size, with any names."""

import numpy as np
import pandas as pd

from forecast.report.page.run import run_page

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "__proto__",
    "<!--<script>",
    "${alert(1)}",
    "a\x00\x1b[2J",
)
LEVELS = (80.0, 95.0)


def scores(mse, columns):
    scaled = {"mse": mse, "mae": mse**0.5, "rmse": mse**0.5, "bias": 0.0}
    block = {"scaled": scaled, "mase": 0.9, "rmsse": 0.8, "smape": 20.0}
    original = {"mse": 4 * mse, "mae": 2.0, "rmse": 2.5, "bias": -0.1}
    of_columns = {name: {**block, "original": original, "wape": 0.2} for name in columns}
    return {**block, "wape": 0.2, "columns": of_columns}


def made_metrics(columns, *, series=None, covariates=()):
    test = {"windows": 1000, **scores(0.3, columns), "skill": 0.4, "flat": []}
    level = {"width": 2.0, "score": 3.0, "pinball": 0.1, "msis": 4.0, "narrow_from": None}
    levels = {"80": {"coverage": 0.81, **level}, "95": {"coverage": 0.95, **level}}
    shares = {str(share): share / 100 - 0.02 for share in range(10, 100, 10)}
    test["coverage"] = {"80": 0.81, "95": 0.95}
    test["intervals"] = {"calibration": "static", "windows": 500, "blocks": 40, "crossed": True, "levels": levels}
    test["intervals"] |= {"wql": 0.1, "sql": 0.2, "reliability": shares, "columns": {}}
    if covariates:
        row = {"role": "known", "change": 0.2, "importance": 0.1, "error": 0.02, "use": "useful"}
        test["covariates"] = dict.fromkeys(covariates, row)
    if series:
        row = {"mase": 1.5, "rmsse": 1.1, "smape": 30.0, "wape": 0.3}
        named = [{"id": name, **row} for name in series]
        test["series"] = {"count": len(series), "evaluated": len(series), "without_mase": 0}
        test["series"] |= {"worst": named[:5], "best": named[5:10]}
    errors = {"last_value": 0.9, "seasonal_naive": 0.5, "ridge": 0.4}
    baselines = {name: scores(mse, columns) for name, mse in errors.items()}
    baselines["seasonal_naive"]["period"] = 24
    head = {"model": "informer", "data": "my.csv", "features": "M", "protocol": "all_windows", "target": columns[0]}
    lengths = {"seq_len": 96, "label_len": 48, "pred_len": 24, "seed": 1}
    return {"status": "finished", **head, **lengths, "test": test, "baselines": baselines, "mase_scale": {"period": 24}}


def made_windows(columns, *, count=5, past=96, pred_len=24, freq="h", series=None, size=1.0):
    draws = np.random.default_rng(0)
    values = 20 + size * draws.normal(size=(count, past + pred_len, len(columns))).cumsum(1)
    truth = values[:, past:]
    forecast = truth + draws.normal(size=truth.shape)
    width = np.arange(1, len(LEVELS) + 1)
    first = pd.date_range("2020-01-30", periods=count, freq="D")
    times = np.stack([pd.date_range(at, periods=past + pred_len, freq=freq).to_numpy() for at in first])
    windows = {"past": values[:, :past], "truth": truth, "forecast": forecast, "ridge": truth + 0.5}
    windows |= {"levels": np.array(LEVELS), "lower": forecast[..., None] - width, "upper": forecast[..., None] + width}
    windows |= {"timestamps": times, "columns": np.array(columns)}
    return windows | ({"series": np.array(series)} if series else {})


def made_steps(pred_len):
    curve, steps = np.linspace(0.1, 0.5, pred_len), {}
    for name, times in {"": 1.0, "last_value_": 3.0, "ridge_": 1.2}.items():
        steps |= {f"{name}{key}_scaled": (curve * times).tolist() for key in ("mse", "mae")}
    coverage = {"coverage_80": [0.8] * pred_len, "coverage_95": [0.95] * pred_len}
    return steps | {**coverage, "width_80_scaled": curve.tolist()}


def made_record(columns):
    scaler = {"columns": list(columns), "mean": [20.0] * len(columns), "std": [3.0] * len(columns)}
    gaps = {"policy": "interpolate", "rows_added": 7, "cells_filled": 3, "longest_run": 4}
    gaps["windows_left_out"] = {"train": 2}
    splits = {"train": [0, 700], "val": [700, 800], "test": [800, 1000]}
    data = {"name": "csv", "checksum": "abc", "columns": list(columns), "targets": list(columns), "freq": "h"}
    read = {"count": 1, "rows": 1000, "shortest": 1000, "longest": 1000, "cells_made_up": 0, "left_out": {}}
    data |= {"splits": splits, "trained_until": "2020-01-29 00:00:00", "gaps": gaps, "series": read}
    data |= {"windows": {"train": 690, "val": 90, "test": 190}}
    config = {"data": {"path": "/home/somebody/secret/my.csv"}, "optim": {"lr": 1e-4}, "seed": 1}
    return {
        "config": config,
        "choices": {"model": "informer"},
        "versions": {"torch": "2.9"},
        "data": data,
        "scale": scaler,
    }


def made_attention(places=("encoder/0", "cross/0"), *, heads=3, queries=7, keys=11, columns=1, word="test", prob=True):
    """attention.npz: a weight for each place, of ProbSparse with its first two queries active."""
    arrays = {"places": np.array(places), "known_until": np.array(["2020-01-31T04"], dtype="datetime64[ns]")}
    arrays |= {"split": np.array([word]), "window": np.array([5]), "checkpoint": np.array(["best.ckpt"])}
    hours = pd.date_range("2020-01-30 18:00", periods=max(queries, 2 * keys), freq="h").to_numpy()
    for place in places:
        weights = np.random.default_rng(0).dirichlet(np.ones(keys), size=(columns, heads, queries))
        arrays[place] = weights.astype(np.float32)
        arrays[f"{place}/queries"] = hours[:queries, None].repeat(2, 1)
        arrays[f"{place}/keys"] = np.stack([hours[: 2 * keys : 2], hours[1 : 2 * keys : 2]], axis=1)
        if prob:
            arrays[f"{place}/active"] = np.broadcast_to(np.arange(queries) < 2, weights.shape[:3])
            measures = np.where(np.arange(queries) == 0, -np.inf, np.arange(queries) / 4)
            arrays[f"{place}/measures"] = np.broadcast_to(measures, weights.shape[:3]).astype(np.float32)
    return arrays


def made_page(columns=("load", "wind"), *, series=None, covariates=(), attention=None, **windows):
    """The page of a run on these target columns; series: the ids of a panel, of which 12 have stored forecasts."""
    stored = list(series[:12]) if series else None
    made = made_windows(columns, series=stored, **({"count": len(stored)} if stored else {}), **windows)
    errors = None
    if series:
        keys = ("mse", "mae", "mase", "rmsse", "smape", "wape")
        figures = {key: np.linspace(2, 0.5, len(series)) for key in keys}
        errors = pd.DataFrame({"id": list(series), "windows": 3, **figures})
    return run_page(
        made_metrics(list(columns), series=series, covariates=covariates),
        "test",
        by_step=made_steps(made["truth"].shape[1]),
        windows=made,
        attention=attention,
        series=errors,
        origin=made_record(columns),
    )
