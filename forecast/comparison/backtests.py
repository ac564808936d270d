"""What a backtest says: errors by fold, how sure the differences to the baselines are, and a verdict in plain words.

The input is its table, a row for each forecast step: fold, cutoff, id of a panel, time, target, y, forecast, the ends
of intervals (lo-80, hi-80, ...), then a column for each baseline.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.text import Text

from forecast.comparison.bootstrap import LEAST_BLOCKS, LEVEL, paired_interval
from forecast.report.forecasters import baseline_name, is_itself
from forecast.report.tables import short_number, table_lines, titled_table
from forecast.report.verdict import percent
from forecast.run_folder.shapes import Backtest, Block
from forecast.text.terminal import label

MODEL, FORECAST = "model", "forecast"
METRICS: tuple[str, ...] = ("mse", "mae", "mase")
Cells = dict[tuple[str, str], np.ndarray]  # forecaster and metric, or `coverage` and level -> (N,)
# Points of coverage below a level from which on that is said.
NARROW = 5.0
SHOWN_FOLDS = 30  # lines of the printed table; backtest.json has all
Floats = npt.NDArray[np.float64]


def forecast_columns(table: pd.DataFrame) -> tuple[dict[str, str], list[str]]:
    """The forecasters of a table, each with its column, the model first; the levels of its intervals."""
    columns = list(table.columns[list(table.columns).index(FORECAST) :])
    levels = [name.removeprefix("lo-") for name in columns if name.startswith("lo-")]
    ends = {f"{end}-{level}" for level in levels for end in ("lo", "hi")}
    return {MODEL: FORECAST, **{name: name for name in columns[1:] if name not in ends}}, levels


def scale_places(table: pd.DataFrame, scales: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The row of `scales` for each row of a table, by id, of a panel, and target."""
    keys = [name for name in ("id", "target") if name in scales]
    places: npt.NDArray[np.int64]
    places = pd.MultiIndex.from_frame(scales[keys]).get_indexer(pd.MultiIndex.from_frame(table[keys]))
    return places


def cell_errors(table: pd.DataFrame, scales: pd.DataFrame) -> Cells:
    """Of each row of a table MSE, MAE and MASE of each forecaster, and whether each interval held the truth.

    scales: std and naive of each target, of a panel of each id and target: errors are in units of `std`, and MASE is
    the mean absolute error by `naive`, where there is one. NaN where there is no truth, which does not count.
    """
    place = scale_places(table, scales)
    std, naive = (scales[name].to_numpy()[place] for name in ("std", "naive"))
    known = np.isfinite(table["y"].to_numpy())
    forecasters, levels = forecast_columns(table)
    cells: Cells = {}
    for name, column in forecasters.items():
        error = table[column].to_numpy() - table["y"].to_numpy()
        cells[name, "mse"] = np.square(error / std)
        cells[name, "mae"] = np.abs(error / std)
        cells[name, "mase"] = np.abs(error) / np.where(naive > 0, naive, np.nan)
    for level in levels:
        low, high = (table[f"{end}-{level}"].to_numpy() for end in ("lo", "hi"))
        inside = (low <= table["y"].to_numpy()) & (table["y"].to_numpy() <= high)
        cells["coverage", level] = np.where(known & np.isfinite(low), inside, np.nan)
    return cells


def fold_errors(table: pd.DataFrame, cells: Cells) -> list[Block]:
    """Each fold of a table: its first cutoff, its forecasts, MSE, MAE, MASE of each forecaster, coverage by level.

    cells: of each row of the table, as `cell_errors` gives them. A figure is None where no cell of a fold has a truth.
    """
    fold = pd.Series(table["fold"].to_numpy())
    forecasters, levels = forecast_columns(table)
    means = pd.DataFrame(cells).groupby(fold).mean()  # NaN do not count
    first = table.groupby("fold").agg(cutoff=("cutoff", "min"), known=("y", "count"))
    entries = []
    for number, row in means.iterrows():
        entry: Block = {"fold": int(number), "cutoff": str(first.cutoff[number])}
        entry |= {"values": int(first.known[number])}
        entry |= {name: {key: _number(row[name, key]) for key in METRICS} for name in forecasters}
        entry["coverage"] = {level: _number(row["coverage", level]) for level in levels}
        entries.append(entry)
    return entries


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def summary(folds: Sequence[Block], *, pred_len: int, step: int) -> Backtest:
    """Means over the folds, each counting alike, and the model's MSE less that of each baseline with its interval.

    The interval is that of `paired_interval` over the folds in order. Forecasts overlap where step is less than
    pred_len: folds hang together over less than pred_len rows (Diebold and Mariano 1995), which makes the block.
    """
    names = [name for name, value in folds[0].items() if isinstance(value, Mapping) and name != "coverage"]
    each = {name: [fold[name] for fold in folds] for name in names}
    overall: dict[str, Block] = {
        name: {
            "mse": _mean([fold["mse"] for fold in errors]),
            "mae": _mean([fold["mae"] for fold in errors]),
            "mase": _mean([fold["mase"] for fold in errors]),
        }
        for name, errors in each.items()
    }
    coverage = {level: _mean([fold["coverage"][level] for fold in folds]) for level in folds[0]["coverage"]}
    differences: dict[str, Block] = {}
    for name in names:
        both = [(ours["mse"], theirs["mse"]) for ours, theirs in zip(each[MODEL], each[name], strict=True)]
        pairs = np.array([pair for pair in both if None not in pair], dtype=float).reshape(-1, 2)
        if name == MODEL or not len(pairs):
            continue
        difference = paired_interval(pairs[None, :, 0], pairs[None, :, 1], block=-(-pred_len // step))
        better = int((pairs[:, 0] < pairs[:, 1]).sum())
        differences[name] = {**difference.figures(), "better_in": better, "folds": len(pairs)}
    return {"overall": overall, "coverage": coverage, "differences": differences}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def rivals(document: Backtest) -> list[str]:
    """The baselines by MSE, the best first, without the model itself."""
    overall, model = document["overall"], document["model"]
    mse = {name: errors["mse"] or 0.0 for name, errors in overall.items()}
    names = [name for name in document["differences"] if not is_itself(model, mse[MODEL], name, mse[name])]
    return sorted(names, key=mse.__getitem__)


def forecaster_names(document: Backtest) -> dict[str, str]:
    """The model, then the baselines by their MSE, by what a reader sees of them."""
    model = str(document["model"])
    return {MODEL: f"{label(model)} (the model)"} | {key: baseline_name(key, {model}) for key in rivals(document)}


def sentences(document: Backtest) -> list[str]:
    """Whether it would have worked, how sure that is, and what to make of the intervals. document: backtest.json."""
    overall, (first, last) = document["overall"], (document["by_fold"][0]["cutoff"], document["by_fold"][-1]["cutoff"])
    count = len(document["by_fold"])
    where = f"Over {count} forecasts of {document['pred_len']} steps, made from {first} to {last},"
    if not (names := rivals(document)):
        return [f"{where} the MSE was {short_number(overall[MODEL]['mse'])}; no baseline stands beside it."]
    best = names[0]
    ours, theirs = overall[MODEL]["mse"] or 0.0, overall[best]["mse"] or 0.0
    name, difference = baseline_name(best, {str(document["model"])}), document["differences"][best]
    gap = percent(ours, theirs) if theirs else "far"
    low, high = difference["low"], difference["high"]
    sure = low is not None and high is not None and not low <= 0.0 <= high
    if ours == theirs:
        lines = [f"{where} {name} would have done as well: the MSE of both is the same."]
    elif sure and ours < theirs:
        lines = [f"{where} the model would have worked: its MSE is {gap} below the best baseline, {name}."]
    elif sure:
        lines = [f"{where} {name} would have been the better choice: the model's MSE is {gap} above it."]
    else:
        side = "below" if ours < theirs else "above"
        lines = [f"{where} the model's MSE is {gap} {side} the best baseline, {name}."]
    lines.append(_sureness(difference, name))
    for level, share in document["coverage"].items():
        if share is not None and 100 * share < float(level) - NARROW:
            lines.append(f"The {level} % intervals held {100 * share:.0f} % of the truths: too narrow.")
    return lines


def _sureness(difference: Block, name: str) -> str:
    often = f"It had the lower MSE in {difference['better_in']} of {difference['folds']} forecasts"
    low, high = difference["low"], difference["high"]
    if low is None or high is None:
        return f"{often}; {difference['blocks']} apart say nothing of how sure that is, it takes {LEAST_BLOCKS}."
    interval = f"{100 * LEVEL:.0f} % interval of the difference in MSE {low:+.4f} to {high:+.4f}"
    if low <= 0.0 <= high:
        return f"{often}; which of them is better is not sure: {interval}. More backtest.folds would tell."
    return f"{often}, and the difference to {name} is sure: {interval}."


def printed(document: Backtest) -> str:
    """The table by fold and the overall one as lines of text."""
    overall = document["overall"]
    heads = forecaster_names(document)
    names = list(heads)
    folds, half = document["by_fold"], SHOWN_FOLDS // 2
    shown = list(folds) if len(folds) <= SHOWN_FOLDS else [*folds[:half], *folds[-half:]]
    worst = [heads[name] for name in sorted(names[1:], key=lambda name: -(overall[name]["mse"] or 0.0))]
    title = f"MSE by fold, in standard deviations of the train rows of the first model; {len(folds)} folds"
    by_fold = titled_table(title, spare=worst)
    for heading in ("made from", *heads.values()):
        by_fold.add_column(Text(heading), justify="left" if heading == "made from" else "right", no_wrap=True)
    for fold in shown:
        by_fold.add_row(fold["cutoff"], *(short_number(fold[name]["mse"]) for name in names))
    levels = [level for level, share in document["coverage"].items() if share is not None]
    interval = f"{100 * LEVEL:.0f} % interval"
    whole = titled_table("Over all folds", spare=("MAE", "MASE", interval))
    for heading in ("", "MSE", "MAE", "MASE", "model less it", interval, *(f"in {level} %" for level in levels)):
        whole.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, heading in heads.items():
        errors, difference, cells = overall[name], document["differences"].get(name), ["", ""]
        if difference is not None:
            low, high = difference["low"], difference["high"]
            cells = [f"{difference['mse']:+.4f}", "-" if low is None else f"{low:+.4f} to {high:+.4f}"]
        if name == MODEL:
            cells += [f"{100 * (document['coverage'][level] or 0.0):.1f}" for level in levels]
        whole.add_row(Text(heading), *(short_number(errors[key]) for key in METRICS), *cells)
    return f"{table_lines(by_fold)}\n{table_lines(whole)}"


class FoldSums:
    """Means over the folds. scales: std and naive of each target, of a panel of each id and target."""

    def __init__(self, scales: pd.DataFrame, *, pred_len: int) -> None:
        self.scales, self.pred_len = scales, pred_len
        self.levels: list[str] = []
        self.apart = False  # whether the series of a panel end at different times, so that a fold is no one day
        self._steps: dict[tuple[str, str], Floats] = {}  # (2, P): sums and counts
        self._series: dict[str, Floats] = {}  # (2, S)

    def add(self, table: pd.DataFrame, cells: Cells) -> None:
        """A part of the table, windows of pred_len rows one below another; cells: the errors of its rows."""
        _, self.levels = forecast_columns(table)
        for key, values in cells.items():
            windows = values.reshape(-1, self.pred_len)
            known = np.isfinite(windows)
            totals = np.stack([np.where(known, windows, 0.0).sum(0), known.sum(0)])
            self._steps[key] = self._steps[key] + totals if key in self._steps else totals
        self.apart = self.apart or bool((table.groupby("fold")["cutoff"].nunique() > 1).any())
        place = scale_places(table, self.scales)
        for metric in ("mase", "mse", "mae"):
            values = cells[MODEL, metric]
            known = np.isfinite(values)
            sums = [np.bincount(place[known], weights, len(self.scales)) for weights in (values[known], None)]
            totals = np.stack(sums)
            self._series[metric] = self._series[metric] + totals if metric in self._series else totals

    def by_step(self, baselines: Sequence[str]) -> dict[str, list[float]]:
        """As metrics_by_step.csv has them: MSE and MAE, scaled, of the model and baselines, and coverage by level."""
        columns = {}
        for name in (MODEL, *baselines):
            for metric in ("mse", "mae"):
                columns[f"{'' if name == MODEL else name + '_'}{metric}_scaled"] = self._mean(name, metric)
        for level in self.levels:
            if np.isfinite(coverage := self._mean("coverage", level)).any():
                columns[f"coverage_{level}"] = coverage
        return columns

    def by_series(self) -> dict[str, Floats]:
        """The model's MASE, MSE and MAE of each row of `scales`; NaN where none is known."""
        return {metric: _divided(sums) for metric, sums in self._series.items()}

    def original_mae(self, target: str) -> float:
        """The model's mean absolute error of a target in the file's units; NaN where no truth is known."""
        of = (self.scales["target"] == target).to_numpy()
        sums, counts = self._series["mae"][:, of]
        return float((sums * self.scales["std"].to_numpy()[of]).sum() / counts.sum()) if counts.sum() else float("nan")

    def _mean(self, name: str, metric: str) -> list[float]:
        return _divided(self._steps[name, metric]).tolist()


def _divided(sums: Floats) -> Floats:
    return np.divide(sums[0], sums[1], out=np.full(sums.shape[1], np.nan), where=sums[1] > 0)
