"""From a frame to scaled windows: everything a training, an evaluation or a forecast reads."""

import mmap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import CalendarEncoding
from forecast.data.panel import Facts, PanelFrame
from forecast.data.scaling import TOO_FAR, How, Scales
from forecast.data.seasonality import suggest
from forecast.data.split import PARTS, TAIL, ShareSplit, TargetRows, WindowOrigins, usable_windows
from forecast.data.values.cells import FloatArray, IntArray
from forecast.data.values.time_features import time_features
from forecast.data.windows import Windows
from forecast.errors import UserError
from forecast.text.overrides import typed

FARTHEST = 1e18  # standard deviations: errors are squared in float32
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
    windows of "train" forecast, None: all. device: where batches are wanted, None: where the rows are.
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
        facts = () if self.frame.facts is None else map(self.frame.facts.size_of, self.frame.facts.names)
        return (*map(self.frame.size_of, self.covariates), *facts)

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
        val, test = self.splits.get("val"), self.splits.get("test")
        if val is None or test is None:
            return False
        return np.array_equal(val.first, test.first) and np.array_equal(val.stop, test.stop)

    @property
    def context(self) -> int:
        """The rows of its series that must lie before a forecast."""
        return 1 if self.pad else self.seq_len

    @cached_property
    def kept(self) -> Tensor | None:
        """All rows of `scaled_table` (N, C + F + K); None of a mapped file, and beyond MOST_KEPT."""
        width = len(self.frame.columns) + self.calendar.shape[1]
        large = 4 * len(self.frame.values) * width > MOST_KEPT
        if large or isinstance(self.frame.values, np.memmap):
            return None
        return scaled_table(self.frame, self.scaler, self.calendar, self.n_columns)

    def but(self, *, kept: Tensor | None = None, **changes: object) -> "Prepared":
        """The same rows in the same scale with other sizes, splits or another device; kept: in place of its own."""
        assert not changes.keys() & {"frame", "scaler", "calendar", "covariates"}, "these make the rows that are kept"
        changed = replace(self, **changes)  # type: ignore[arg-type]
        if (kept := self.kept if kept is None else kept) is not None:
            changed.__dict__["kept"] = kept
        return changed

    def on(self, device: torch.device) -> "Prepared":
        """The same data with batches on a device. The rows that are kept are moved there once."""
        return self.but(kept=None if self.kept is None else self.kept.to(device), device=device)

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
        """All windows whose targets lie in the rows of a split, less those that the gaps forbid; of an offset perhaps
        none.

        look_back: rows in the past of a batch where they are more than seq_len; the windows are the same. masked:
        whether their batches also say which cells of the past were measured. offset: rows between past and targets.
        UserError when the gaps leave none.
        """
        origins = self.origins(split, offset=offset)
        windows = self.windows_of(origins, look_back=look_back, masked=masked, offset=offset)
        if len(origins) and not len(windows) and not offset:
            raise UserError(
                f"{self.frame.name}: with data.gaps={self.frame.repair.policy} the gaps leave {split} no window: all "
                f"{len(origins)} of seq_len {self.seq_len} + pred_len {self.pred_len} rows are lost. Choose "
                "shorter lengths, data.gaps=forward_fill, or another data.split, or drop the columns with most gaps."
            )
        return windows

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

    def original(self, scaled: npt.NDArray[np.floating], series: IntArray) -> FloatArray:
        """Target values (W, P, T) of windows of these series (W,) in original units."""
        mean, std = (part[series][:, None] for part in self.target_scale)
        original: FloatArray = scaled * std + mean
        floor = self.scaler.floor  # the last digit of float32 may be below it
        return original if floor is None else np.maximum(original, floor[list(self.targets)])

    def times_of(self, rows: IntArray, series: IntArray) -> pd.DatetimeIndex:
        """The timestamps (W,) of rows of these series."""
        return self.frame.calendar()[rows - self.frame.offsets[series] + self.frame.steps[series]]

    def check_enough(self, *splits: str) -> None:
        """UserError where one of these, or, without any, a split other than the tail, holds no window of any series."""
        frame, pred_len = self.frame, self.pred_len
        needed = self.context + pred_len
        fit = "" if splits or "train" not in self.splits else self._fitting_words()
        before = "1 row before them, since data.short=pad, + " if self.pad else f"seq_len {self.seq_len} + "
        for name, rows in self.splits.items():
            if name == TAIL or (splits and name not in splits) or len(self.origins(name)):
                continue
            part, longest = PARTS.get(name, name), int(frame.lengths.argmax())
            times, count = frame.timestamps(longest), int((rows.stop - rows.first)[longest])
            if len(frame) > 1:
                raise UserError(
                    f"{frame.name}: no series has a window for {part}: one needs {needed} rows ({before}pred_len "
                    f"{pred_len}), and the longest of the {len(frame)} series, '{frame.ids[longest]}', has "
                    f"{frame.lengths[longest]} in all. Set "
                    f"{'a shorter' if self.pad else 'data.short=pad, a shorter seq_len or'} pred_len, or another "
                    f"data/split.{fit}"
                )
            if name != "train" and count < pred_len:  # what lies before them is in other splits
                needed, before = pred_len, ""
            raise UserError(
                f"{frame.name}: of its {frame.lengths[0]} rows ({times[0]} to {times[-1]}) {count} are for {part}, but "
                f"one window needs {needed} ({before}pred_len {pred_len}). Choose a shorter "
                f"{'seq_len or ' * bool(before)}pred_len, another data.split, or evaluate with split=all.{fit}"
            )

    def _fitting_words(self) -> str:
        """Words of train with which each split holds a window; "" where there are none for this horizon."""
        fit = suggest(self.frame, ShareSplit(), targets=self.targets, pred_len=self.pred_len, is_free=True)
        if fit.cut is not None and not fit.cut.val:
            return ""
        words = (typed(key, value) for key, value in {**fit.settings(), "seq_len": fit.lengths.seq_len}.items())
        return f" For these rows: {' '.join(words)}"

    def left_out(self) -> dict[str, list[str]]:
        """The ids of series without a window, by the reason; those that the reader left out among them."""
        counts = sum(self.origins(split).counts for split in self.splits)
        short = self.frame.ids[np.asarray(counts == 0)]
        reasons = {reason: list(names) for reason, names in self.frame.left_out.items()}
        if len(short):
            reasons[f"fewer rows than a window needs, {self.context + self.pred_len}"] = [str(name) for name in short]
        return reasons


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
    `Scales` has it. covariates: the names of the frame's last columns; the others as `Prepared` has them. UserError for
    values with which no model can compute.
    """
    rows = {name: split if isinstance(split, TargetRows) else TargetRows.of(split) for name, split in splits.items()}
    assert not covariates or frame.columns[-len(covariates) :] == covariates
    panel = filled_within(frame, rows.values())
    if scaler is None:
        sizes, train = {"context": seq_len, "period": season or 1, "together": len(covariates)}, rows["train"]
        scaler = Scales.fit(panel, scaling, train.first, train.stop, **sizes)
        scaler = replace(scaler, floor=floor)
    data = Prepared(
        frame=panel,
        splits=rows,
        scaler=scaler,
        targets=targets,
        seq_len=seq_len,
        pred_len=pred_len,
        encoding=encoding,
        calendar=frame_calendar(panel, encoding),
        pad=pad,
        season=season,
        covariates=covariates,
        hidden=hidden,
        fact_scale=fact_scale,
    )
    _ = data.kept  # made now, so that a value with which no model computes is refused now
    return data


def filled_within(frame: PanelFrame, splits: Iterable[TargetRows]) -> PanelFrame:
    """The frame with the cells of a gap that reaches over the end of a split at the value before the gap.

    data.gaps=interpolate has put them on a line to a row of the next split; so they are as if the file ended there.
    """
    if frame.measured is None or frame.repair.policy != "interpolate":
        return frame
    begin, end = frame.offsets[:-1], frame.offsets[1:]
    cells = []
    for rows in splits:
        inside = (rows.stop > begin) & (rows.stop < end)
        last = rows.stop[inside] - 1
        cells += [(int(last[place]), int(column)) for place, column in np.argwhere(~frame.measured[last])]
    if not cells:
        return frame
    values = private(frame.values)
    for last_row, column in cells:
        row = last_row
        begin_row = int(begin[np.searchsorted(begin, row, side="right") - 1])
        while not frame.measured[row, column] and row > begin_row:
            row -= 1
        values[row + 1 : last_row + 1, column] = values[row, column]
    return replace(frame, values=values)


def private(values: FloatArray) -> FloatArray:
    """The same numbers in memory of one's own; of a file that is mapped its pages, which are copied when written to."""
    if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap):
        where = {"dtype": values.dtype, "offset": values.offset, "shape": values.shape}
        return np.memmap(values.filename, mode="c", **where)
    return values.copy()


def frame_calendar(frame: PanelFrame, encoding: CalendarEncoding, *, more: int = 0) -> Tensor:
    """The known features (steps, F) of each step of a frame, and of `more` after its last, float32."""
    times = frame.calendar(more)
    parts = [
        time_features(times[start : start + _ROWS], frame.freq, encoding=encoding).astype(np.float32)
        for start in range(0, len(times), _ROWS)
    ]
    return torch.from_numpy(np.concatenate(parts))


def scaled_table(frame: PanelFrame, scaler: Scales, calendar: Tensor, n_columns: int) -> Tensor:
    """All rows (N, C + F + K) float32, contiguous: the C columns, scaled, the calendar, what is known in advance.

    UserError for a value that lies too far from the train rows for any model.
    """
    table = torch.empty((len(frame.values), calendar.shape[1] + len(frame.columns)))
    for start in range(0, len(table), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(table)))
        table[start : start + _ROWS] = scaled_rows(frame, scaler, calendar, n_columns, rows)
    return table


def scaled_rows(frame: PanelFrame, scaler: Scales, calendar: Tensor, n_columns: int, rows: IntArray) -> Tensor:
    """Some rows (n, C + F + K) of `scaled_table`; UserError as there."""
    scaled = scaled_values(frame, scaler, rows)
    series = np.searchsorted(frame.offsets, rows, side="right") - 1
    known = calendar[torch.from_numpy(rows - frame.offsets[series] + frame.steps[series])]
    parts = [torch.from_numpy(part.astype(np.float32)) for part in (scaled[:, :n_columns], scaled[:, n_columns:])]
    return torch.cat([parts[0], known, parts[1]], dim=1)


def scaled_values(frame: PanelFrame, scaler: Scales, rows: IntArray) -> FloatArray:
    """The values (n, C) of some rows, scaled. UserError for one that lies too far from the train rows for any model."""
    series = np.searchsorted(frame.offsets, rows, side="right") - 1
    with np.errstate(over="ignore"):
        scaled = (frame.values[rows] - scaler.mean[series]) / scaler.std[series]
        far = np.abs(scaled) > FARTHEST
    if far.any():
        row, column = np.argwhere(far)[0]
        s, value = int(series[row]), frame.values[rows[row], column]
        raise UserError(
            f"{frame.name}: column '{frame.columns[column]}'{frame.of_series(s)} is {value:g} at "
            f"{frame.timestamps(s)[rows[row] - int(frame.offsets[s])]}, {abs(scaled[row, column]):.3g} standard "
            f"deviations from the mean of the train rows: no model computes with that in float32. {TOO_FAR}"
        )
    return scaled


def series_windows(data: Prepared, series: IntArray, origins: IntArray) -> tuple[FloatArray, np.ndarray]:
    """Target values (W, L + P, T), original units, and timestamps (W, L + P) of windows, to be looked at.

    series, origins (W,): as `Windows` has them. NaN before a series begins, and where no file held a value.
    """
    frame, columns = data.frame, list(data.targets)
    values = np.full((len(series), data.seq_len + data.pred_len, len(columns)), np.nan)
    stamps = []
    for window, s, origin in zip(values, series, origins, strict=True):
        begin = int(frame.offsets[s])
        first = max(begin, int(origin) - data.seq_len)
        rows = slice(first, int(origin) + data.pred_len)
        held = frame.values[rows, columns]
        if frame.measured is not None:
            held[~frame.measured[rows, columns]] = np.nan
        missing = len(window) - len(held)
        window[missing:] = held
        step = int(first - begin + frame.steps[s])
        known = frame.calendar()[step : step + len(held)]
        before = pd.date_range(end=known[0], periods=missing + 1, freq=frame.freq)[:missing]
        stamps.append(before.append(known).to_numpy().astype("datetime64[ns]"))
    return values, np.array(stamps)


def scaled_facts(facts: Facts | None, scale: npt.NDArray[np.float64] | None) -> Tensor | None:
    """The facts (S, G) of a panel as a model takes them; None where it has none."""
    if facts is None or scale is None:
        return None
    return torch.from_numpy(((facts.values - scale[0]) / scale[1]).astype(np.float32))
