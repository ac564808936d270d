"""From a frame to scaled windows: everything a training, an evaluation or a forecast reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import CalendarEncoding
from forecast.data.panel import Facts, PanelFrame
from forecast.data.scaling import How, Scales
from forecast.data.split import TAIL, TargetRows, WindowOrigins, usable_windows
from forecast.data.values.calendar import time_features
from forecast.data.values.cells import FloatArray, IntArray
from forecast.data.windows import Windows
from forecast.errors import UserError

MOST_KEPT = 2**30  # bytes of scaled rows that are kept beside those of the file
_ROWS = 10_000  # made at a time: whole, the steps between would take several times the memory of the rows


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The rows of S series, their scale and their calendar, cut into splits.

    splits: the target rows of each. targets: the numbers of the T target columns. encoding: of the calendar. pad:
    whether a window may begin before its series, whose first row is then repeated. calendar (steps, F) float32. season:
    steps in a season of the targets, None where they have none that is known. covariates: the names of the last of the
    frame's columns, which are known in advance: the last of the known features but for the facts of the series, none of
    the C. hidden: the last of these, which are observed: at the steps to come a model finds 0 there. fact_scale (2, G):
    mean and deviation of the frame's facts. recent: so many of the last train rows of each series, in which alone the
    windows of "train" forecast, None: all. device: where batches are wanted, None: where the rows are. kept
    (N, C + F + K): all rows of `scaled_table`; None of a mapped file, and beyond MOST_KEPT.
    """

    frame: PanelFrame
    splits: dict[str, TargetRows]
    scaler: Scales
    targets: tuple[int, ...]
    seq_len: int
    pred_len: int
    encoding: CalendarEncoding
    calendar: Tensor
    pad: bool = False
    season: int | None = None
    covariates: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    fact_scale: FloatArray | None = None
    recent: int | None = None
    device: torch.device | None = None
    kept: Tensor | None = None

    @property
    def n_columns(self) -> int:
        """C."""
        return len(self.frame.columns) - len(self.covariates)

    @property
    def n_known(self) -> int:
        """F, the flag of padded rows, the covariates and the facts included."""
        return self.calendar.shape[1] + self.pad + len(self.covariate_sizes)

    @property
    def covariate_sizes(self) -> tuple[int, ...]:
        """What the covariates and the facts (K + G,) are: 0 for a number, n for one of n categories."""
        frame, facts = self.frame, self.frame.facts
        words = dict(frame.categories) if facts is None else {**frame.categories, **facts.categories}
        names = self.covariates if facts is None else (*self.covariates, *facts.names)
        return tuple(len(words[name]) + 1 if name in words else 0 for name in names)

    @property
    def target_names(self) -> list[str]:
        """The names of the T target columns."""
        return [self.frame.columns[i] for i in self.targets]

    @property
    def target_scale(self) -> tuple[FloatArray, FloatArray]:
        """Mean and std (S, T) of the targets, original units: scaled errors times std are errors in these."""
        columns = list(self.targets)
        return self.scaler.mean[:, columns], self.scaler.std[:, columns]

    @property
    def validation_judges(self) -> bool:
        """Whether the rows of the test are those of validation, as there are too few for both."""
        judged = [np.stack([part.first, part.stop]) for name, part in self.splits.items() if name in ("val", "test")]
        return len(judged) == 2 and np.array_equal(judged[0], judged[1])

    @property
    def context(self) -> int:
        """The rows of its series that must lie before a forecast."""
        return 1 if self.pad else self.seq_len

    def on(self, device: torch.device) -> "Prepared":
        """The same data with batches on a device. The rows that are kept are moved there once."""
        return replace(self, kept=None if self.kept is None else self.kept.to(device), device=device)

    def target_rows(self, split: str) -> TargetRows:
        """The rows of a split; of train the `recent` ones."""
        rows = self.splits[split]
        if split == "train" and self.recent is not None:
            rows = TargetRows(np.maximum(rows.first, rows.stop - self.recent), rows.stop)
        return rows

    def origins(self, split: str, *, context: int | None = None, offset: int = 0) -> WindowOrigins:
        """Where the forecasts of a split begin. context: rows that must lie before them, None: as these data's.

        Without padding no past reaches before the train rows, which a fold that slides begins with. offset: rows
        between a past and its targets, which lie in the rows of the split.
        """
        train = None if self.pad else self.splits.get("train")
        begin = self.frame.offsets[:-1] if train is None else train.first
        rows = self.target_rows(split)
        return WindowOrigins.of(rows, begin, context=context or self.context, pred_len=self.pred_len + offset)

    def windows(self, split: str, *, look_back: int | None = None, masked: bool = False, offset: int = 0) -> Windows:
        """All windows whose targets lie in the rows of a split, less those that the gaps forbid.

        look_back: rows in the past of a batch where they are more than seq_len; the windows are the same. masked:
        whether their batches also say which cells of the past were measured. offset: rows between past and targets.
        """
        return self.windows_of(self.origins(split, offset=offset), look_back=look_back, masked=masked, offset=offset)

    def windows_of(
        self, origins: WindowOrigins, *, look_back: int | None = None, masked: bool = False, offset: int = 0
    ) -> Windows:
        """The windows whose forecasts begin there, less those that the gaps forbid."""
        sizes = {"seq_len": self.seq_len, "pred_len": self.pred_len, "offset": offset}
        return Windows(
            self.frame,
            origins,
            scaler=self.scaler,
            calendar=self.calendar,
            kept=self.kept,
            chosen=usable_windows(self.frame, origins, ahead=len(self.covariates), **sizes),
            targets=self.targets,
            n_columns=self.n_columns,
            look_back=look_back,
            padded=self.pad,
            hidden=len(self.hidden),
            facts=scaled_facts(self.frame.facts, self.fact_scale),
            masked=masked,
            device=self.device,
            **sizes,
        )

    def original(self, scaled: np.ndarray, series: IntArray) -> FloatArray:
        """Target values (W, P, T) of windows of these series (W,) in original units."""
        mean, std = (part[series][:, None] for part in self.target_scale)
        original: FloatArray = scaled * std + mean
        floor = self.scaler.floor  # the last digit of float32 may be below it
        return original if floor is None else np.maximum(original, floor[list(self.targets)])

    def times_of(self, rows: IntArray, series: IntArray) -> pd.DatetimeIndex:
        """The timestamps (W,) of rows of these series."""
        return self.frame.shown(self.frame.calendar()[rows - self.frame.offsets[series] + self.frame.steps[series]])

    def check_enough(self, *splits: str) -> None:
        """UserError where one of these, or, without any, a split other than the tail, holds no window of any series."""
        for name in splits or [name for name in self.splits if name != TAIL]:
            rows, origins, gaps = self.splits[name], self.origins(name), ""
            if len(origins):
                gaps = f", and with data.gaps=mask all {len(origins)} windows are left out beside gaps"
            if not len(self.windows_of(origins)):
                raise UserError(
                    f"{self.frame.name}: no series has a window for {name}: one window needs {self.context} rows of "
                    f"past and {self.pred_len} of {name}; the longest series has {self.frame.lengths.max()} rows, "
                    f"{(rows.stop - rows.first).max()} of them for it{gaps}. Set a shorter seq_len or pred_len, "
                    "data.short=pad or another data.split, as forecast check-data proposes, or evaluate with split=all."
                )

    def left_out(self) -> dict[str, list[str]]:
        """The ids of series without a window, by the reason; those that the reader left out among them."""
        counts = sum(self.origins(split).counts for split in self.splits)
        short = self.frame.ids[np.asarray(counts == 0)].tolist()
        few = {f"fewer rows than a window needs, {self.context + self.pred_len}": short} if short else {}
        return {**self.frame.left_out, **few}


def prepare(
    frame: PanelFrame,
    *,
    splits: Mapping[str, range | TargetRows],
    targets: tuple[int, ...],
    seq_len: int,
    pred_len: int,
    encoding: CalendarEncoding,
    scaler: Scales | None = None,
    scaling: How = "series",
    season: int | None = None,
    covariates: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    pad: bool = False,
    fact_scale: FloatArray | None = None,
    floor: FloatArray | None = None,
) -> Prepared:
    """Scales a frame whose gaps are filled and adds its calendar.

    No filled cell is drawn towards a row of a later split.

    scaler: None fits one on the train rows, by the rule `scaling`, which is to be told a `season` where that is
    "season"; a checkpoint's scaler is used as it is, whatever the frame. floor: of the scaler that is fitted, as
    `Scales` has it. covariates: the names of the frame's last columns; the others as `Prepared` has them. UserError
    where the train rows have no scale.
    """
    rows = {name: split if isinstance(split, TargetRows) else TargetRows.of(split) for name, split in splits.items()}
    panel = filled_within(frame, rows.values())
    if scaler is None:
        sizes, train = {"context": seq_len, "period": season or 1, "together": len(covariates)}, rows["train"]
        scaler = replace(Scales.fit(panel, scaling, train.first, train.stop, **sizes), floor=floor)
    calendar = frame_calendar(panel, encoding)
    size = calendar.element_size() * len(panel.values) * (calendar.shape[1] + len(panel.columns))
    is_small = size <= MOST_KEPT and not isinstance(panel.values, np.memmap)
    kept = scaled_table(panel, scaler, calendar, len(panel.columns) - len(covariates)) if is_small else None
    return Prepared(
        frame=panel,
        splits=rows,
        scaler=scaler,
        targets=targets,
        seq_len=seq_len,
        pred_len=pred_len,
        encoding=encoding,
        calendar=calendar,
        pad=pad,
        season=season,
        covariates=covariates,
        hidden=hidden,
        fact_scale=fact_scale,
        kept=kept,
    )


def filled_within(frame: PanelFrame, splits: Iterable[TargetRows]) -> PanelFrame:
    """The frame with the cells of a gap that reaches over the end of a split at the value before the gap.

    data.gaps=interpolate has put them on a line to a row of the next split; so they are as if the file ended there.
    """
    begin, end = frame.offsets[:-1], frame.offsets[1:]
    last = np.concatenate([rows.stop[(rows.stop > begin) & (rows.stop < end)] - 1 for rows in splits])
    if frame.since is None or not frame.since[last].any():
        return frame
    values = private(frame.values)
    for place, column in np.argwhere(frame.since[last]):
        row = last[place]
        first = row - frame.since[row, column]
        values[first + 1 : row + 1, column] = values[first, column]
    return replace(frame, values=values)


def private(values: FloatArray) -> FloatArray:
    """The same numbers in memory of one's own; of a file that is mapped its pages, which are copied when written to."""
    if isinstance(values, np.memmap) and not isinstance(values.base, np.ndarray):
        return np.memmap(str(values.filename), np.float64, mode="c", offset=values.offset, shape=values.shape)
    return values.copy()


def frame_calendar(frame: PanelFrame, encoding: CalendarEncoding, *, more: int = 0) -> Tensor:
    """The known features (steps, F) of each step of a frame, and of `more` after its last, float32."""
    features = time_features(frame.shown(frame.calendar(more)), frame.freq, encoding=encoding)
    return torch.from_numpy(features.astype(np.float32))


def scaled_table(frame: PanelFrame, scaler: Scales, calendar: Tensor, n_columns: int) -> Tensor:
    """All rows (N, C + F + K) float32, contiguous: the C columns, scaled, the calendar, what is known in advance."""
    table = torch.empty((len(frame.values), calendar.shape[1] + len(frame.columns)))
    for rows in np.split(np.arange(len(table)), range(_ROWS, len(table), _ROWS)):
        table[rows[0] : rows[-1] + 1] = scaled_rows(frame, scaler, calendar, n_columns, rows)
    return table


def scaled_rows(frame: PanelFrame, scaler: Scales, calendar: Tensor, n_columns: int, rows: IntArray) -> Tensor:
    """Some rows (n, C + F + K) of `scaled_table`."""
    series = np.searchsorted(frame.offsets, rows, side="right") - 1
    with np.errstate(over="ignore"):  # beyond float32 is infinite: whoever forecasts with it says so
        scaled = torch.from_numpy(((frame.values[rows] - scaler.mean[series]) / scaler.std[series]).astype(np.float32))
    known = calendar[torch.from_numpy(rows - frame.offsets[series] + frame.steps[series])]
    return torch.cat([scaled[:, :n_columns], known, scaled[:, n_columns:]], dim=1)


def series_windows(data: Prepared, series: IntArray, origins: IntArray) -> tuple[FloatArray, np.ndarray]:
    """Target values (W, L + P, T), original units, and timestamps (W, L + P) of windows, to be looked at.

    series, origins (W,): as `Windows` has them. NaN before a series begins, and where no file held a value.
    """
    frame, columns, begin = data.frame, list(data.targets), data.frame.offsets[:-1][series][:, None]
    rows = origins[:, None] + np.arange(-data.seq_len, data.pred_len)
    inside = np.maximum(rows, begin)
    values = frame.values[inside][..., columns]
    if frame.measured is not None:
        values[~frame.measured[inside][..., columns]] = np.nan
    values[rows < begin] = np.nan
    steps, calendar = rows - begin + frame.steps[series][:, None], frame.calendar()
    more = max(0, -int(steps.min(initial=0)))  # steps before the first of the calendar
    times = pd.date_range(end=calendar[0], periods=more + 1, freq=frame.freq)[:more].append(calendar)
    return values, frame.shown(times).to_numpy().astype("datetime64[ns]")[steps + more]


def scaled_facts(facts: Facts | None, scale: FloatArray | None) -> Tensor | None:
    """The facts (S, G) of a panel as a model takes them; None where it has none."""
    if facts is None or scale is None:
        return None
    return torch.from_numpy(((facts.values - scale[0]) / scale[1]).astype(np.float32))


# Of columns that are a target under another name
