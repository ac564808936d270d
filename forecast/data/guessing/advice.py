"""What fits a file: whether its level drifts, and an Informer that its rows can train in minutes on two cores."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from forecast.data.reading.layout import Layout
from forecast.data.reading.table import Table
from forecast.data.reading.time_formats import MONTH_NUMBERS
from forecast.data.seasonality import Lengths
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import Findings, counted, quoted
from forecast.text.overrides import can_be_key

LOOKED_AT = 1_000_000  # values, evenly spaced, that tell what a column holds
INTERMITTENT = 0.5  # share of zeros; of fewer the median is a count
DRIFT = 0.5  # standard deviations: around the mean of the train rows a forecast then errs by a quarter of the variance
FEW_WINDOWS, HARDLY_ANY_WINDOWS = 2_000, 500
FEWEST_WINDOWS = 10  # to train a network on
# Steps of windows that an Informer of the widths below is trained on in two to three minutes on one core; one that is
# only evaluated costs a third.
STEPS_TO_TRAIN = 6_000_000
EVALUATED = 1 / 3
MOST_EPOCHS, FEWEST_EPOCHS, FEWEST_BATCHES = 20, 2, 50
# Forecasts without overlap that the val rows hold: fewer cannot say of trees whether they help (docs/experiments.md,
# "What check-data advises").
ENOUGH_FORECASTS = 10
MOST_FORECAST_STEPS = 5_000_000  # of all columns of val and test windows: with trees a minute and a half on one core
UPDATES = 1_000  # of the weights: where the windows are few, more epochs than MOST_EPOCHS


class Drift(NamedTuple):
    """A column, and how far the val rows lie above (below: negative) the train rows in standard deviations of those."""

    column: str
    deviations: float


def find_drift(values: FloatArray, columns: Sequence[str], *, train: range, val: range) -> Drift | None:
    """The column whose level has moved most from the train to the val rows; None when none has, by DRIFT at least.

    values (N, C). The test rows are not read: they judge a model and choose nothing.
    """
    before, after = values[train.start : train.stop], values[val.start : val.stop]
    deviation = before.std(axis=0)
    moves = deviation > 0
    if not moves.any() or not len(after):
        return None
    shift = np.zeros(len(columns))
    shift[moves] = (after.mean(axis=0) - before.mean(axis=0))[moves] / deviation[moves]
    farthest = int(abs(shift).argmax())
    return Drift(columns[farthest], float(shift[farthest])) if abs(shift[farthest]) >= DRIFT else None


def has_floor(values: FloatArray) -> bool:
    """Whether values (N,) end at 0, as counts, sales and power do: none is below, and a forecast could be.

    A 0 among them, or that all are whole numbers, tells them from what has just not been below yet. NaN is not looked
    at.
    """
    least, some = np.fmin.reduce(values), sampled(values)
    if not least >= 0 or not len(some) or least > some.std() or some.max() == 0:
        return False
    return bool(least == 0 or (some % 1 == 0).all())


def mostly_zero(values: FloatArray) -> bool:
    """Whether values (N,) are intermittent: most are 0, none is below, and the others differ. NaN is not looked at."""
    some = sampled(values)
    if not np.fmin.reduce(values) >= 0 or not len(some) or (some == 0).mean() <= INTERMITTENT:
        return False
    above = some[some > 0]
    return bool(len(above) and above.min() < above.max())


def sampled(values: FloatArray) -> FloatArray:
    """At most LOOKED_AT of values (N,), evenly spaced, without NaN."""
    some = np.asarray(values[:: -(-len(values) // LOOKED_AT) or 1])
    return some[np.isfinite(some)]


def floor_setting(columns: Mapping[str, FloatArray]) -> dict[str, object]:
    """data.floor of the targets, their values (N,) by name: 0, {name: 0} of those that end at 0, or nothing.

    A name that cannot be typed as a key is left out.
    """
    ended = [name for name, values in columns.items() if has_floor(values)]
    floor = 0 if len(ended) == len(columns) else dict.fromkeys(filter(can_be_key, ended), 0)
    return {"data.floor": floor} if ended and floor != {} else {}


def fitted_model(
    windows: Mapping[str, int], lengths: Lengths, *, columns: int, intermittent: bool = False
) -> tuple[str, dict[str, object]]:
    """The model without gradient steps that fits so many val and test windows of `columns`, and its keys of train.

    intermittent: most values are 0, which then has the least absolute error. Boosted trees stand on a ridge; the val
    windows choose how many there are, none among the choices.
    """
    forecasts = (windows["val"] + lengths.pred_len - 1) // lengths.pred_len
    steps = (windows["val"] + windows["test"]) * lengths.pred_len * columns
    if forecasts < ENOUGH_FORECASTS or steps > MOST_FORECAST_STEPS:
        return "ridge", {}
    return "boosted_trees", {} if intermittent else {"model.error": "absolute"}


def informer_settings(windows: Mapping[str, int], lengths: Lengths, *, drifts: bool) -> dict[str, object]:
    """Keys of train for an Informer of a size that the train windows can fit, and a training of some minutes.

    windows: how many train, val and test hold. drifts: whether the level does. The fewer train windows, the narrower
    the model and the smaller the batches. Each is seen MOST_EPOCHS times, more often where that makes less than UPDATES
    steps, and less where it is more work than STEPS_TO_TRAIN; of a file too long for FEWEST_EPOCHS an epoch is a part.
    """
    train, val, test = windows["train"], windows["val"], windows["test"]
    width = 32 if train < HARDLY_ANY_WINDOWS else 64
    batch_size = 8 if train < HARDLY_ANY_WINDOWS else 16 if train < FEW_WINDOWS else 32
    most_epochs = max(MOST_EPOCHS, UPDATES * batch_size // train)
    affordable = STEPS_TO_TRAIN / sum(lengths) - EVALUATED * (val + test)
    affordable_epochs = int(affordable / (train + EVALUATED * val))
    settings: dict[str, object] = {
        "model.d_model": width,
        "model.n_heads": 4,
        "model.d_ff": 2 * width,
        **({"model.instance_norm": True} if drifts or train < FEW_WINDOWS else {}),
        "data.batch_size": batch_size,
        "optim.lr": 1e-3,
        "schedule": "cosine",
        "trainer.max_epochs": (epochs := min(max(affordable_epochs, FEWEST_EPOCHS), most_epochs)),
    }
    if epochs >= MOST_EPOCHS:  # the val rows are few, too: the best of their errors is known late
        settings["callbacks.early_stopping.patience"] = epochs // 5
    if affordable_epochs < FEWEST_EPOCHS:
        batches = int((affordable / FEWEST_EPOCHS - EVALUATED * val) / batch_size)
        settings["trainer.limit_train_batches"] = max(batches, FEWEST_BATCHES)
    return settings


FAR = 10.0  # robust standard deviations from the median
JUMP = 20.0  # robust standard deviations of the steps, there and back again
RARE = 0.01  # share of the values: what is far oftener than this is a second level of the column
_TO_SIGMA = 1.4826  # of a normal distribution: standard deviation / median absolute deviation


def note_columns(table: Table, layout: Layout, findings: Findings) -> list[int]:
    """Notes on the columns of a table that a layout reads; the number of outliers of each of them (C)."""
    months = [name for name in table.columns if name.strip().lower() in MONTH_NUMBERS]
    if len({MONTH_NUMBERS[name.strip().lower()] for name in months}) == 12 and isinstance(layout.time_column, str):
        path, year = str(table.text.path), json.dumps(layout.time_column)
        kind = "" if table.text.table is None else table.text.table.kind.split()[1].lower()
        written = f", sep={json.dumps(table.text.separator)}, decimal={json.dumps(layout.decimal)}" if not kind else ""
        code = (
            f'(__import__("pandas").read_{kind or "csv"}({json.dumps(path)}{written})'
            f'.melt({year}, {json.dumps(months)}, "month").pipe(lambda m: '
            f'm.assign(date=m[{year}].astype(str).str[:4] + "-" + m["month"].str.strip().str[:3])'
            f'[["date", "value"]].to_csv({json.dumps(path + ".months.csv")}, index=False)))'
        )
        findings.add(
            "note",
            "Twelve columns are named as months: they may be one series, a row a year. To forecast that, write a row "
            f"for each month, and name the file that this makes:\npython -c {shlex.quote(code)}",
        )
    outliers = [find_outliers(column) for column in table.values.T]
    worst = [
        int(rows[abs(column[rows] - np.median(column[np.isfinite(column)])).argmax()]) if rows.size else -1
        for rows, column in zip(outliers, table.values.T, strict=True)
    ]
    records = table.records([row for row in worst if row >= 0])
    for name, column, rows, row in zip(table.columns, table.values.T, outliers, worst, strict=True):
        known = column[np.isfinite(column)]
        if len(known) and (known == known[0]).all():
            findings.add("note", f"Column {quoted(name)} is always {known[0]:g}. It says nothing: better drop it.")
        if rows.size:
            median, scale = float(np.median(known)), _scale(known)
            away = abs(column[row] - median) / scale if scale else 0.0
            where = f"{away:.0f} robust standard deviations from the median ({median:g})"
            jump = "a jump away from both of its neighbours and back"
            findings.add(
                "note",
                f"Column {quoted(name)}: {counted(rows.size, 'outlier')}; the farthest, {column[row]:g} in line "
                f"{records[row][0]}, {where if away > FAR else jump}. Faults of a sensor are better left empty and "
                "filled by data.gaps; peaks that were there, as of rain or sun, stay.",
            )
    return [rows.size for rows in outliers]


def find_outliers(values: FloatArray) -> npt.NDArray[np.int64]:
    """The rows (W,) of finite values (n,) that are far from all others, or jump away from both neighbours and back.

    Far: more than FAR robust standard deviations (from the median absolute deviation) from the median; a jump: more
    than JUMP of those of the steps. A column that hardly moves has no such measure, and no outliers.
    """
    known = np.flatnonzero(np.isfinite(values))
    x = values[known]
    if len(x) < 3:
        return np.empty(0, dtype=np.int64)
    scale = _scale(x)
    far = abs(x - np.median(x)) / scale > FAR if scale > 0 else np.zeros(len(x), dtype=bool)
    if far.mean() > RARE and len(np.unique(x[far])) > 1:  # another level; one value again and again is a code of faults
        far[:] = False
    steps = np.diff(x)
    scale = _scale(steps)
    if scale > 0:
        before, after = steps[:-1] / scale, steps[1:] / scale
        far[1:-1] |= (np.minimum(abs(before), abs(after)) > JUMP) & ((before < 0) != (after < 0))
    return known[far].astype(np.int64)


def _scale(x: FloatArray) -> float:
    return float(np.median(abs(x - np.median(x)))) * _TO_SIGMA
