"""The scale and the rows of a training as a checkpoint keeps them, and what they give for another file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.data.panel import PanelFrame
from forecast.data.scaling import CELLS, How, Scales, SeasonalDifferences, pieces
from forecast.data.split import TargetRows
from forecast.data.values.cells import Flags, FloatArray, IntArray

EACH = ("series", "season")  # of these each series has a scale of its own
State = dict[str, Any]  # plain values and tensors; the ids as bytes
FIRST = "first"  # of the entries of `RecordedRows`


@dataclass(frozen=True, eq=False)
class SavedScale:
    """What a training scaled its series `ids` (S,) by; mean, std (S, C) float64, or (1, C): the same for all.

    period, floor: as `Scales` has them. naive: what MASE is scaled by, of each series over its train rows.
    """

    how: How
    ids: npt.NDArray[np.str_]
    mean: FloatArray
    std: FloatArray
    naive: SeasonalDifferences
    period: int | None = None
    floor: FloatArray | None = None

    @classmethod
    def of(cls, scaler: Scales, ids: npt.NDArray[np.str_], naive: SeasonalDifferences) -> "SavedScale":
        """Of a scaler of the series `ids` (S,)."""
        rows = slice(None) if scaler.how in EACH else slice(1)
        return cls(scaler.how, ids, scaler.mean[rows], scaler.std[rows], naive, scaler.period, scaler.floor)

    def state(self) -> State:
        """For a checkpoint: a million ids are one tensor of bytes."""
        naive = {"absolute": _tensor(self.naive.absolute), "squared": _tensor(self.naive.squared)}
        return {
            "how": self.how,
            "ids": _tensor(np.frombuffer(ids_text(self.ids), np.uint8)),
            "mean": _tensor(self.mean),
            "std": _tensor(self.std),
            "period": self.period,
            "naive": {"period": self.naive.period, **naive},
            **({} if self.floor is None else {"floor": _tensor(self.floor)}),
        }

    @classmethod
    def from_state(cls, state: State) -> "SavedScale":
        """From what `state` gave."""
        arrays = {name: state[name].numpy() for name in ("mean", "std", "floor") if name in state}
        naive = {name: state["naive"][name].numpy() for name in ("absolute", "squared")}
        return cls(
            how=state["how"],
            ids=ids_of(state["ids"].numpy().tobytes()),
            naive=SeasonalDifferences(period=state["naive"]["period"], **naive),
            period=state["period"],
            **arrays,
        )

    def places(self, ids: npt.NDArray[np.str_]) -> IntArray:
        """The numbers here of series; -1: it was not trained on."""
        return pd.Index(self.ids.astype(object)).get_indexer(pd.Index(ids.astype(object)))

    def naive_errors(self, other: SeasonalDifferences, ids: npt.NDArray[np.str_]) -> SeasonalDifferences:
        """Those of series `ids` over their train rows; of one that was not trained on what `other` has."""
        places = self.places(ids)
        seen = (places >= 0)[:, None]
        return SeasonalDifferences(
            period=self.naive.period,
            absolute=np.where(seen, self.naive.absolute[places], other.absolute),
            squared=np.where(seen, self.naive.squared[places], other.squared),
        )

    def scaler(self, frame: PanelFrame, *, context: int | None = None, together: int = 0) -> Scales:
        """The scale of each series of a frame.

        Where each series has its own, one that was not trained on has that of its measured cells: in its first
        `context` rows; None: in all, where all lie before the forecast. together: so many of the last columns have one
        scale for all series.
        """
        places = self.places(frame.ids) if self.how in EACH else np.zeros(len(frame), dtype=np.int64)
        mean, std, own = self.mean[places], self.std[places], np.asarray(places < 0)
        if own.any():
            new, season = frame.take(np.flatnonzero(own)), {} if self.period is None else {"period": self.period}
            begin, end = new.offsets[:-1], new.offsets[1:]
            rows = int(new.lengths.max()) if context is None else context
            fitted = Scales.fit(new, self.how, begin, np.minimum(begin + rows, end), context=rows, **season)
            mean[own], std[own] = fitted.mean, fitted.std
            if together:
                mean[:, -together:], std[:, -together:] = self.mean[0, -together:], self.std[0, -together:]
        return Scales(self.how, mean, std, own, self.period, self.floor)


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    """An array as a tensor of its own, which a file holds without what lies around a view."""
    return torch.from_numpy(array.copy())


def ids_text(ids: Iterable[str]) -> bytes:
    """Ids as one text, a NUL after each: none stands in a table."""
    return "".join(f"{name}\0" for name in ids).encode()


def ids_of(text: bytes) -> npt.NDArray[np.str_]:
    """The ids (S,) of which this is the text, or that of 1.0, a line each."""
    lines = text.decode()
    return np.array(lines.split("\0")[:-1] if "\0" in lines else lines.replace(r"\\", "\\").split("\n"), dtype=np.str_)


@dataclass(frozen=True, eq=False)
class RecordedRows:
    """Of S series the time of the first row (S,), as `PanelFrame.times` has it, and their splits (S, 3) by name.

    Of a split the first row and the end, counted from the first row of the series, and `row_hashes` of the rows up to
    that end.
    """

    first: IntArray
    splits: Mapping[str, IntArray]

    @classmethod
    def of(cls, frame: PanelFrame, splits: Mapping[str, TargetRows]) -> "RecordedRows":
        """Of a frame that is cut."""
        begin, rows = frame.offsets[:-1], splits.values()
        hashes = row_hashes(frame, begin, np.stack([part.stop for part in rows])).view(np.int64)
        parts = [
            np.stack([part.first - begin, part.stop - begin, numbers], axis=1)
            for part, numbers in zip(rows, hashes, strict=True)
        ]
        return cls(frame.times()[frame.steps], dict(zip(splits, parts, strict=True)))

    @property
    def ends(self) -> IntArray:
        """The end of the last split (S,)."""
        return np.max([rows[:, 1] for rows in self.splits.values()], axis=0)

    def state(self) -> dict[str, Tensor]:
        """Tensors, for a checkpoint."""
        return {FIRST: torch.from_numpy(self.first), **{k: torch.from_numpy(v) for k, v in self.splits.items()}}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> "RecordedRows":
        """From what `state` gave."""
        splits = {name: part.numpy() for name, part in state.items()}
        return cls(splits.pop(FIRST), splits)

    def begins(self, frame: PanelFrame, places: IntArray) -> IntArray:
        """The row of a frame that has the first time of each of its series (S',), perhaps outside of that; -1: none.

        places (S',): the numbers of these series here, -1 of one that was not recorded.
        """
        times, first = frame.times(), self.first[places]
        steps = np.minimum(np.searchsorted(times, first), len(times) - 1)
        rows = frame.offsets[:-1] + steps - frame.steps
        return np.where((places >= 0) & (times[steps] == first) & (rows >= frame.offsets[:-1]), rows, -1)

    def same(self, frame: PanelFrame, places: IntArray, split: str | None = None) -> Flags:
        """Which series (S',) of a frame hold the recorded rows up to the end of a split, None: of the last one."""
        name = split or max(self.splits, key=lambda split: int(self.splits[split][:, 1].sum()))
        begin, recorded = self.begins(frame, places), self.splits[name][places]
        stop = begin + recorded[:, 1]
        held = (begin >= 0) & (stop <= frame.offsets[1:])
        begin, stop = (np.where(held, rows, frame.offsets[:-1]) for rows in (begin, stop))
        return held & (row_hashes(frame, begin, stop).view(np.int64) == recorded[:, 2])

    def placed(self, frame: PanelFrame, places: IntArray) -> dict[str, TargetRows]:
        """The recorded splits in the rows of a frame that has them; none of a series that was not recorded."""
        begin, known = self.begins(frame, places), places >= 0
        placed = {}
        for name, rows in self.splits.items():
            first, stop = (np.where(known, begin + rows[places, i], frame.offsets[:-1]) for i in (0, 1))
            placed[name] = TargetRows(first, stop)
        return placed


def row_hashes(frame: PanelFrame, first: IntArray, stop: IntArray) -> npt.NDArray[np.uint64]:
    """A number of the times and the measured values in rows first[s] to stop[..., s] of each series -> (..., S)."""
    times, hashes = frame.times().view(np.uint64), np.zeros(stop.shape, dtype=np.uint64)
    columns = mixed(np.arange(len(frame.columns), dtype=np.uint64))
    for some in pieces(frame, CELLS):
        low, high = int(frame.offsets[some.start]), int(frame.offsets[some.stop])
        lengths = frame.lengths[some]
        steps = np.arange(high - low) + np.repeat(frame.steps[some] - frame.offsets[:-1][some] + low, lengths)
        cells = (np.asarray(frame.values[low:high]) + 0.0).view(np.uint64)  # no -0.0
        if frame.measured is not None:
            cells = np.where(frame.measured[low:high], cells, columns)
        rows = mixed(mixed(cells ^ columns) + mixed(times[steps])[:, None]).sum(axis=1, dtype=np.uint64)
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(rows)])
        hashes[..., some] = sums[np.maximum(first, stop)[..., some] - low] - sums[first[some] - low]
    return hashes


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): each bit of a number changes half of the bits."""
    x: npt.NDArray[np.uint64] = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
