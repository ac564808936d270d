"""From a frame to scaled windows: everything a training, an evaluation or a forecast reads."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from forecast.data.frame import SeriesFrame
from forecast.data.scaling import Scaler
from forecast.data.split import window_rows
from forecast.data.time_features import Encoding, time_features
from forecast.data.windows import WindowDataset, stack_series


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """A frame, scaled, with its calendar, cut into splits.

    splits: the target rows of each split. targets: the numbers of the T target columns.
    series (N, C + F) float32: scaled values, then known features.
    """

    frame: SeriesFrame
    splits: dict[str, range]
    scaler: Scaler
    targets: tuple[int, ...]
    seq_len: int
    pred_len: int
    series: Tensor

    @property
    def n_columns(self) -> int:
        """C."""
        return len(self.frame.columns)

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

    def windows(self, split: str) -> WindowDataset:
        """All windows whose targets lie in the rows of a split."""
        return WindowDataset(
            self.series,
            n_columns=self.n_columns,
            rows=window_rows(self.splits[split], seq_len=self.seq_len),
            seq_len=self.seq_len,
            pred_len=self.pred_len,
            targets=self.targets,
        )

    def original(self, scaled: np.ndarray) -> np.ndarray:
        """Target values (..., T) in original units."""
        return self.scaler.inverse(scaled, self.targets)


def prepare(
    frame: SeriesFrame,
    *,
    splits: dict[str, range],
    targets: tuple[int, ...],
    seq_len: int,
    pred_len: int,
    encoding: Encoding,
    scaler: Scaler | None = None,
) -> PreparedData:
    """Scales a frame and adds its calendar.

    scaler: None fits one on the train rows; a checkpoint's scaler is used as it is, whatever the frame.
    encoding: how the calendar is given, see `time_features`.
    """
    if scaler is None:
        train = splits["train"]
        scaler = Scaler.fit(frame.values[train.start : train.stop], frame.columns)
    known = time_features(frame.timestamps, frame.freq, encoding=encoding)
    return PreparedData(
        frame=frame,
        splits=splits,
        scaler=scaler,
        targets=targets,
        seq_len=seq_len,
        pred_len=pred_len,
        series=stack_series(scaler.transform(frame.values), known),
    )
