"""The season of a series: what a naive forecast repeats, how clearly a file repeats it, and what goes with it.

That are lengths of windows, a split, padding and models that fit the rows of a file, however few they are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from forecast.data.panel import PanelFrame
from forecast.data.split import ANYWHERE, LastSplit, ShareSplit, Split, WindowOrigins, panel_cuts
from forecast.data.values.calendar import base_frequency
from forecast.data.values.cells import FloatArray

# Of each unit of a frequency: how many make the season that people expect of it, and the seasons that a file may show.
SEASONS: dict[str, tuple[int, dict[int, str]]] = {
    "second": (86_400, {60: "a minute", 3_600: "an hour", 86_400: "a day"}),
    "minute": (1_440, {60: "an hour", 1_440: "a day", 10_080: "a week"}),
    "hour": (24, {24: "a day", 168: "a week"}),
    "day": (7, {7: "a week", 365: "a year"}),
    "business day": (5, {5: "a week"}),
    "week": (52, {52: "a year"}),
    "month": (12, {12: "a year"}),
    "quarter": (4, {4: "a year"}),
}
_NO_SEASON: tuple[int, dict[int, str]] = (0, {})
_ROUNDING = 1e-9
STANDARD_ERRORS = 3  # of an MSE: the share 1 / sqrt(rows) of it
INTERMITTENT = 0.5  # share of zeros: with fewer the median is none
CLEAR = 0.3  # autocorrelation from which a season is worth repeating
ROWS = 20_000  # the last rows are enough to see a season
USUAL_SEQ_LEN, LONGEST_SEQ_LEN, USUAL_LABEL_LEN = 96, 720, 48
USUAL_PRED_LEN, LONGEST_PRED_LEN = 24, 360


def seasonal_period(freq: str) -> int | None:
    """Steps of a frequency in its season: 24 for 'h', 96 for '15min', 12 for 'ME'; None when it has none.

    None for years and for parts of a second, and when a step does not divide the season ('7min').
    """
    units, step = SEASONS.get(base_frequency(freq), _NO_SEASON)[0], to_offset(freq).n
    return None if not units or units % step or units == step else units // step


def calendar_seasons(freq: str) -> dict[int, str]:
    """The seasons that the calendar has of a frequency, ascending: their steps and their names."""
    step, names = to_offset(freq).n, SEASONS.get(base_frequency(freq), _NO_SEASON)[1]
    return {units // step: name for units, name in names.items() if not units % step and units > step}


class Season(NamedTuple):
    """Steps in a season, its name, and what the columns say for it, their mean.

    autocorrelation: at that distance, less the trend. error: the MSE of repeating the last season, in variances.
    """

    period: int
    name: str
    autocorrelation: float
    error: float


class Lengths(NamedTuple):
    """The lengths of a window in rows."""

    seq_len: int
    label_len: int
    pred_len: int


def rank_seasons(values: FloatArray, freq: str, *, pred_len: int | None = None) -> list[Season]:
    """The seasons of the calendar of `freq` that N rows hold twice, the best first, then by their errors.

    The best has the least error; but of seasons whose errors differ by STANDARD_ERRORS at most the shorter is better:
    a week repeats whatever a day does. One longer than people expect of `freq` must be held three times.

    values (N, T): the train rows of the targets, in any units, NaN where a value is missing; at most the last ROWS of
    them are read. pred_len: the steps that are forecast, at
    most the longest season counts; None: those of the season that people expect of `freq`. All are judged on the same
    rows. Columns that never move have no say.
    """
    periods = calendar_seasons(freq)
    usual = seasonal_period(freq) or 0
    periods = {p: name for p, name in periods.items() if len(values) >= (2 if p <= usual else 3) * p}
    if not periods:
        return []
    longest = max(periods)
    last = np.asarray(values, dtype=np.float64)[-max(ROWS, 4 * longest) :]
    deviations = np.array([np.nanstd(column) if np.isfinite(column).any() else 0.0 for column in last.T])
    last = last[:, deviations > 0] / deviations[deviations > 0]
    if not last.size:
        return []
    horizon = min(pred_len or usual or longest, longest, len(last) - longest)
    start = max(-(-horizon // period) * period for period in periods)  # of the first row that all can forecast
    seasons = [
        Season(
            period,
            name,
            float(np.mean([autocorrelation(column, period) for column in last.T])),
            _repeating_error(last, period, horizon=horizon, start=start),
        )
        for period, name in periods.items()
    ]
    most = (1 + STANDARD_ERRORS / np.sqrt(len(last) - start)) * min(season.error for season in seasons)
    best = next(season for season in seasons if season.error <= most + _ROUNDING)
    return sorted(seasons, key=lambda season: (season is not best, season.error))


def _repeating_error(values: FloatArray, period: int, *, horizon: int, start: int) -> float:
    """The MSE of forecasts of `horizon` steps that repeat the last period, over the rows from `start` on.

    values (N, T). A step lies as many whole periods after the row that it repeats as are needed to reach the past.
    """
    total = 0.0
    for first in range(0, horizon, period):
        lag = first + period
        errors = np.square(values[start:] - values[start - lag : len(values) - lag])
        total += min(period, horizon - first) * (float(np.nanmean(errors)) if np.isfinite(errors).any() else np.inf)
    return total / horizon


def autocorrelation(series: FloatArray, lag: int) -> float:
    """The correlation of a series (N,), less its trend (a running mean over `lag` rows), with itself `lag` rows before.

    NaN is filled with the last value. 0 for a series that does not move.
    """
    filled = pd.Series(series).ffill().bfill()
    trend = filled.rolling(lag, center=True).mean()
    rest = (filled - trend).dropna().to_numpy()
    early, late = rest[:-lag], rest[lag:]
    if len(early) < 2 or not (early.std() > 0 and late.std() > 0):
        return 0.0
    return float(np.corrcoef(early, late)[0, 1])


def suggest_lengths(rows: int, freq: str, seasons: Sequence[Season], *, pred_len: int | None = None) -> Lengths | None:
    """Lengths that fit a file of `rows` rows cut by `ShareSplit()`; None for a file too short.

    seasons: of `rank_seasons`. seq_len: two of the longest season that is clear, whole ones, from USUAL_SEQ_LEN
    and pred_len to LONGEST_SEQ_LEN, a quarter of the train rows at most. pred_len: None for `usual_pred_len`, less
    where the val rows are few.
    """
    train, val = int(rows * ShareSplit.train), rows - int(rows * ShareSplit.train) - int(rows * ShareSplit.test)
    most = min(train // 4, LONGEST_SEQ_LEN)
    clear = [season.period for season in seasons if season.autocorrelation >= CLEAR]
    pred_len = pred_len or _fitting(calendar_unit(freq), near=usual_pred_len(freq), most=val * 4 // 5)
    seq_len = look_back(clear, pred_len=pred_len, most=most)
    lengths = Lengths(seq_len, label_len_of(seq_len=seq_len, pred_len=pred_len), pred_len)
    return lengths if seq_len >= 4 and pred_len >= 1 else None


def look_back(periods: Sequence[int], *, pred_len: int, most: int) -> int:
    """Two of the longest season that is held twice, whole ones near USUAL_SEQ_LEN and pred_len; `most` rows at most."""
    period = max((period for period in periods if 2 * period <= most), default=min(periods, default=1))
    return _fitting(period, near=max(USUAL_SEQ_LEN, 2 * period, pred_len), most=most)


def label_len_of(*, seq_len: int, pred_len: int) -> int:
    """The rows of the window that a decoder begins with: as many as it forecasts, or more; half the window at most."""
    return min(seq_len // 2, max(USUAL_LABEL_LEN, pred_len))


def usual_pred_len(freq: str) -> int:
    """The steps that one would forecast: a day of hours, four weeks of days, a year of weeks or months.

    Whole seasons of the calendar, where it has any: one, or so many that they are at least USUAL_PRED_LEN steps.
    """
    unit = calendar_unit(freq)
    return unit if 2 * unit >= USUAL_PRED_LEN else -(-USUAL_PRED_LEN // unit) * unit


def calendar_unit(freq: str) -> int:
    """The steps of the longest season that people expect of `freq` and LONGEST_PRED_LEN holds; 1 without one."""
    longest = min(seasonal_period(freq) or 0, LONGEST_PRED_LEN)
    return max((period for period in calendar_seasons(freq) if period <= longest), default=1)


def _fitting(period: int, *, near: int, most: int) -> int:
    """A multiple of `period` near a length and not above `most`; `most` itself when that holds no period."""
    if most < period:
        return min(near, most)
    return max(1, min(round(near / period), most // period)) * period


# The quantiles of the rows that series learn from, by the first of which that holds a season the look-back is chosen.
NEARLY_ALL = 0.1, 0.5, 1.0


class Suggestion(NamedTuple):
    """cut: in place of the usual shares where these leave a part of the rows, or a series, without a window; None: the
    split stays. seasons: of the train rows, the best first. pad: whether series are shorter than windows.
    """

    lengths: Lengths
    seasons: Sequence[Season]
    cut: LastSplit | None = None
    pad: bool = False

    def settings(self) -> dict[str, object]:
        """Keys of train that choose split and padding."""
        settings: dict[str, object] = {"data.short": "pad"} if self.pad else {}
        if self.cut is not None:
            settings |= {"data/split": "last", "data.split.val": self.cut.val, "data.split.test": self.cut.test}
        return settings


def suggest(
    frame: PanelFrame, split: Split, *, targets: Sequence[int], pred_len: int | None, is_free: bool
) -> Suggestion:
    """What fits the rows of each series. pred_len: None for one that fits them, too.

    is_free: whether the split may be another where it leaves one of its parts without a window of any series, or series
    without a forecast: then the last horizons are judged, as far as there are rows.
    """
    rows, freq = frame.lengths, frame.freq
    seasons = train_seasons(frame, split, targets)
    lengths = suggest_lengths(int(np.median(rows)), freq, seasons, pred_len=pred_len)
    half, longest, usual = int(np.median(rows)), int(rows.max()), usual_pred_len(freq)
    if lengths is not None:
        has_season = pred_len or lengths.seq_len >= calendar_unit(freq) or longest < 3 * usual
        if not is_free or (has_season and serves(split, frame, lengths)):
            return Suggestion(lengths, seasons, pad=bool((rows < lengths.seq_len).any()))
    if pred_len is None:
        pred_len = usual if longest >= 3 * usual else lengths.pred_len if lengths is not None else max(1, longest // 3)
    cut = None
    if is_free:  # the last horizon of each series is the test, the one before it validation; one is both, or none is
        both = half >= 4 * pred_len  # half of the series keep the rows of two horizons to learn from
        cut = LastSplit(horizon=pred_len, val=int(longest > 2 * pred_len), test=int(both))
    seasons = train_seasons(frame, cut or split, targets)
    train = panel_cuts(cut or split, frame, pred_len=pred_len)["train"]
    room = train.stop - train.first - pred_len  # for the past of one window
    periods = [season.period for season in seasons if season.autocorrelation >= CLEAR]
    periods = periods or [seasonal_period(freq) or 1]
    some = [int(most) for most in np.quantile(room, NEARLY_ALL)]
    most = next((most for most in some if most >= min(periods)), some[-1])
    seq_len = look_back(periods, pred_len=pred_len, most=max(1, most // 2, min(most, *periods)))
    lengths = Lengths(seq_len, label_len_of(seq_len=seq_len, pred_len=pred_len), pred_len)
    return Suggestion(lengths, seasons, cut, pad=bool((room < seq_len).any()))


def train_seasons(frame: PanelFrame, split: Split, targets: Sequence[int]) -> list[Season]:
    """The seasons of the train rows of the longest series."""
    cut, longest = panel_cuts(split, frame, pred_len=1)["train"], int(frame.lengths.argmax())
    rows = slice(int(cut.first[longest]), int(cut.stop[longest]))
    return rank_seasons(np.asarray(frame.values[rows], dtype=np.float64)[:, list(targets)], frame.freq)


def serves(split: Split, frame: PanelFrame, lengths: Lengths) -> bool:
    """Whether each part of a split holds a window of these lengths of nearly every series, and all the past of one."""
    parts, begin = panel_cuts(split, frame, pred_len=lengths.pred_len), frame.offsets[:-1]
    sizes = {"context": lengths.seq_len, "pred_len": lengths.pred_len}
    counts = [WindowOrigins.of(parts[name], begin, **sizes).counts for name in ANYWHERE]
    held = all((of_part > 0).mean() > 1 - NEARLY_ALL[0] for of_part in counts)
    return held and bool((frame.lengths >= lengths.seq_len).all())


def share_of_zeros(values: FloatArray) -> float:
    """How many of the values (N,) are 0; 0 where one is below, or where all others are alike. NaN is not looked at."""
    above = values[values > 0]
    differ = len(above) and above.min() < above.max()
    return float((values == 0).sum() / np.isfinite(values).sum()) if differ and not (values < 0).any() else 0.0


def mostly_zero(values: FloatArray) -> bool:
    """Whether values (N,) are intermittent."""
    return share_of_zeros(values) > INTERMITTENT


# Models that fit the windows of a file


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
    affordable = STEPS_TO_TRAIN / sum(lengths) - EVALUATED * (val + test)
    affordable_epochs = int(affordable / (train + EVALUATED * val))
    epochs = min(max(affordable_epochs, FEWEST_EPOCHS), max(MOST_EPOCHS, UPDATES * batch_size // train))
    batches = int((affordable / FEWEST_EPOCHS - EVALUATED * val) / batch_size)
    return {
        "model.d_model": width,
        "model.n_heads": 4,
        "model.d_ff": 2 * width,
        **({"model.instance_norm": True} if drifts or train < FEW_WINDOWS else {}),
        "data.batch_size": batch_size,
        "optim.lr": 1e-3,
        "schedule": "cosine",
        "trainer.max_epochs": epochs,
        # the val rows are few, too: the best of their errors is known late
        **({"callbacks.early_stopping.patience": epochs // 5} if epochs >= MOST_EPOCHS else {}),
        **({"trainer.limit_train_batches": max(batches, FEWEST_BATCHES)} if affordable_epochs < FEWEST_EPOCHS else {}),
    }
