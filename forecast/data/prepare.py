"""From a frame to scaled windows: everything a training, an evaluation or a forecast reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import CalendarEncoding
from forecast.data.cells import FloatArray, IntArray
from forecast.data.frame import SeriesFrame
from forecast.data.panel.prepare import PanelData
from forecast.data.scaling import TOO_FAR, How, Scaler, Scales
from forecast.data.split import window_rows
from forecast.data.time_features import feature_names, time_features
from forecast.data.window_gaps import usable_windows
from forecast.data.windows import WindowDataset, check_look_back, moved_if_it_fits, stack_series
from forecast.errors import UserError

FARTHEST = 1e18  # standard deviations: errors are squared in float32
_ROWS = 10_000  # made at a time


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """A frame, scaled, with its calendar, cut into splits.

    splits: the target rows of each split. targets: the numbers of the T target columns. encoding: of the calendar.
    series (N, C + F) float32: scaled values, then known features. device: where batches are wanted, None: where the
    series lives. season: steps in a season of the targets, None where they have none that is known. covariates: the
    names of the last of the frame's columns, which are known in advance: the last known features, none of the C.
    hidden: the last of these, which are observed: at the steps to come a model finds 0 there.
    """

    frame: SeriesFrame
    splits: dict[str, range]
    scaler: Scaler
    targets: tuple[int, ...]
    seq_len: int
    pred_len: int
    encoding: CalendarEncoding
    series: Tensor
    device: torch.device | None = None
    season: int | None = None
    covariates: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def n_columns(self) -> int:
        """C."""
        return len(self.frame.columns) - len(self.covariates)

    @property
    def covariate_sizes(self) -> tuple[int, ...]:
        """What the covariates are, see `WindowShape.covariates`."""
        return tuple(map(self.frame.size_of, self.covariates))

    @property
    def n_known(self) -> int:
        """F."""
        return self.series.shape[1] - self.n_columns

    @property
    def target_names(self) -> list[str]:
        """The names of the T target columns."""
        return [self.frame.columns[i] for i in self.targets]

    @property
    def target_std(self) -> np.ndarray:
        """(T,): scaled errors times this are errors in original units."""
        std: np.ndarray = self.scaler.std[list(self.targets)]
        return std

    @property
    def target_mean(self) -> np.ndarray:
        """(T,): what a scaled 0 is in original units."""
        mean: np.ndarray = self.scaler.mean[list(self.targets)]
        return mean

    @property
    def target_scale(self) -> tuple[FloatArray, FloatArray]:
        """Mean and std (S, T) of the targets, original units."""
        return self.target_mean[None], self.target_std[None]

    def naive_rows(self, split: str) -> tuple[IntArray, IntArray]:
        """The rows (S,) from and to which the errors on a split are scaled by: the train rows."""
        del split
        return np.array([self.splits["train"].start]), np.array([self.splits["train"].stop])

    def windows(self, split: str, *, look_back: int | None = None) -> WindowDataset:
        """All windows whose targets lie in the rows of a split, less those that the gaps forbid.

        look_back: rows in the past of a batch where they are more than seq_len; the windows are the same.
        UserError when the gaps leave none.
        """
        windows = self.windows_at(split, 0, look_back=look_back)
        if windows.left_out and not len(windows):
            raise UserError(
                f"{self.frame.name}: with data.gaps={self.frame.repair.policy} the gaps leave {split} no window: all "
                f"{windows.left_out} of seq_len {self.seq_len} + pred_len {self.pred_len} rows are lost. Choose "
                "shorter lengths, data.gaps=forward_fill, or another data.split, or drop the columns with most gaps."
            )
        return windows

    def windows_at(self, split: str, offset: int, *, look_back: int | None = None) -> WindowDataset:
        """`windows` with `offset` rows between past and targets, which stay in the rows of the split; perhaps none."""
        check_look_back(look_back, self.frame.name)
        first = self.splits["train"].start if "train" in self.splits else 0
        rows = window_rows(self.splits[split], seq_len=self.seq_len, first=first)
        lengths = {"seq_len": self.seq_len, "pred_len": self.pred_len, "offset": offset}
        return WindowDataset(
            self.series,
            n_columns=self.n_columns,
            rows=rows,
            targets=self.targets,
            chosen=usable_windows(self.frame, rows, **lengths),
            look_back=look_back,
            device=self.device,
            hidden=len(self.hidden),
            since=self.frame.since[:, self.n_columns :] if self.covariates and self.frame.since is not None else None,
            **lengths,
        )

    def on(self, device: torch.device) -> "PreparedData":
        """The same data with batches on a device. The series is moved there once, when it fits."""
        return replace(self, series=moved_if_it_fits(self.series, device), device=device)

    def original(self, scaled: np.ndarray, series: np.ndarray | None = None) -> np.ndarray:
        """Target values (..., T) in original units. series: there is one."""
        del series
        return self.scaler.inverse(scaled, self.targets)

    def shown(self, split: str, windows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Target values (W, L + P, T), original units, and timestamps (W, L + P) of windows of a split."""
        return window_values(self, self.windows(split).starts[list(windows)])

    def origin_times(self, split: str, windows: Sequence[int]) -> pd.DatetimeIndex:
        """The last known timestamps of windows of a split, sorted."""
        rows = self.windows(split).starts[sorted(windows)] + self.seq_len - 1
        times: pd.DatetimeIndex = self.frame.timestamps[rows]
        return times


def fitted_scaler(
    frame: SeriesFrame,
    train: range,
    *,
    context: int,
    how: How = "series",
    period: int | None = None,
    together: int = 0,
) -> Scaler:
    """The scaler of the train rows; options and UserError as `Scales.fit`."""
    first, stop = np.array([train.start]), np.array([train.stop])
    scales = Scales.fit(frame, how, first, stop, context=context, period=period, together=together)
    constant = tuple(name for name, flag in zip(frame.columns, scales.constant[0], strict=True) if flag)
    return Scaler(scales.mean[0], scales.std[0], frame.columns, constant, how)


def prepare(
    frame: SeriesFrame,
    *,
    splits: dict[str, range],
    targets: tuple[int, ...],
    seq_len: int,
    pred_len: int,
    encoding: CalendarEncoding,
    scaler: Scaler | None = None,
    scaling: How = "series",
    season: int | None = None,
    covariates: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
) -> PreparedData:
    """Fills the gaps of a frame within its splits, scales it and adds its calendar.

    scaler: None fits one on the train rows, by the rule `scaling`, which is to be told a `season` where that is
    "season"; a checkpoint's scaler is used as it is, whatever the frame.
    encoding: how the calendar is given, see `time_features`. covariates: the names of the frame's last columns, where
    these are known in advance, or `hidden`. UserError for values with which no model can compute.
    """
    frame = frame.filled_within(splits)
    if scaler is None:
        try:
            train, together = splits["train"], len(covariates)
            scaler = fitted_scaler(frame, train, how=scaling, context=seq_len, period=season, together=together)
        except UserError as error:
            raise UserError(f"{frame.name}: {error}") from error
    # Some rows at a time: whole, the steps between would take several times the memory of the series.
    assert not covariates or frame.columns[-len(covariates) :] == covariates
    n_columns = len(frame.columns) - len(covariates)
    series = torch.empty((len(frame), len(frame.columns) + len(feature_names(frame.freq, encoding))))
    for start in range(0, len(frame), _ROWS):
        rows = slice(start, start + _ROWS)
        known = time_features(frame.timestamps[rows], frame.freq, encoding=encoding)
        scaled = scaled_rows(frame, scaler, rows)
        known = np.concatenate([known, scaled[:, n_columns:]], axis=1)
        series[rows] = stack_series(scaled[:, :n_columns], known)
    return PreparedData(
        frame=frame,
        splits=splits,
        scaler=scaler,
        targets=targets,
        seq_len=seq_len,
        pred_len=pred_len,
        encoding=encoding,
        series=series,
        season=season,
        covariates=covariates,
        hidden=hidden,
    )


def scaled_rows(frame: SeriesFrame, scaler: Scaler, rows: slice) -> npt.NDArray[np.float64]:
    """The values of some rows, scaled (n, C). UserError for one that lies too far from the train rows for any model."""
    with np.errstate(over="ignore"):
        scaled = scaler.transform(frame.values[rows])
        far = np.abs(scaled) > FARTHEST
    if far.any():
        row, column = np.argwhere(far)[0]
        raise UserError(
            f"{frame.name}: column '{frame.columns[column]}' is {frame.values[rows][row, column]:g} at "
            f"{frame.timestamps[rows][row]}, {abs(scaled[row, column]):.3g} standard deviations from the mean of the "
            f"train rows: no model computes with that in float32. {TOO_FAR}"
        )
    return scaled


def window_values(data: PreparedData, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Target values (W, L + P, T), original units, and timestamps (W, L + P) of windows that start at these rows."""
    rows = starts[:, None] + np.arange(data.seq_len + data.pred_len)
    timestamps: np.ndarray = data.frame.timestamps.to_numpy().astype("datetime64[ns]")[rows]
    return data.frame.values[:, list(data.targets)][rows], timestamps


Prepared = PreparedData | PanelData
