"""Backtests made by hand, of any size and with any names, and their pages."""

import numpy as np
import pandas as pd
from report.pages import made_record

from forecast.comparison.backtest_page import backtest_page
from forecast.comparison.backtests import cell_errors, fold_errors, summary
from forecast.comparison.fold_sums import FoldSums

LEVELS = ("80", "95")


def made_table(folds=6, *, pred_len=4, step=None, ids=None, targets=("load",), start="2024-01-01 23:00", freq="h"):
    """The table of a backtest: the truth is the number of the hour and that of the series, every forecast 0.5 above.

    start: of the first cutoff; a dictionary of id -> start where series end at different times.
    """
    step, parts = step or pred_len, []
    for fold in range(folds):
        for place, name in enumerate(ids or [None]):
            begin = start[name] if isinstance(start, dict) else start
            times = pd.date_range(begin, periods=folds * step + pred_len + 1, freq=freq)[fold * step :]
            for number, target in enumerate(targets):
                known = {"fold": fold, "cutoff": times[0]} | ({} if name is None else {"id": name})
                hours = fold * step + np.arange(1.0, pred_len + 1)
                y = hours + 100 * place + 1000 * number
                ends = {f"{end}-{level}": y + far for level, far in zip(LEVELS, (1, 2), strict=True)
                        for end, far in (("lo", -far), ("hi", far))}  # fmt: skip
                made = {"time": times[1 : pred_len + 1], "target": target, "y": y, "forecast": y + 0.5}
                baselines = {"last_value": y + 9.0, "ridge": y - 1.0 + 0.1 * fold}
                parts.append(pd.DataFrame({**known, **made, **ends, **baselines}))
    return pd.concat(parts, ignore_index=True)


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
