"""The scale and the rows of a training as a checkpoint keeps them, and what they give for another file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.data.panel import PanelFrame
from forecast.data.scaling import How, Scales, SeasonalDifferences
from forecast.data.split import TargetRows
from forecast.data.values.cells import Flags, FloatArray, IntArray

EACH = ("series", "season")  # of these each series has a scale of its own
State = dict[str, Any]  # plain values and tensors; the ids as bytes
FIRST, MD5 = "first", "md5"  # entries of `RecordedRows` beside its splits


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
    has_md5: bool = True

    @classmethod
    def of(cls, frame: PanelFrame, splits: Mapping[str, TargetRows]) -> "RecordedRows":
        """Of a frame that is cut."""
        begin = frame.offsets[:-1]
        recorded = {
            name: np.stack([rows.first - begin, rows.stop - begin, row_hashes(frame, begin, rows.stop)], axis=1)
            for name, rows in splits.items()
        }
        return cls(frame.times()[frame.steps], recorded)

    def state(self) -> dict[str, Tensor]:
        """Tensors, for a checkpoint."""
        splits = {name: torch.from_numpy(rows) for name, rows in self.splits.items()}
        return {FIRST: torch.from_numpy(self.first), **splits, MD5: torch.tensor(self.has_md5)}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> "RecordedRows":
        """From what `state` gave."""
        splits = {name: part.numpy() for name, part in state.items()}
        return cls(splits.pop(FIRST), splits, bool(splits.pop(MD5, False)))

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
        return held & (np.array(not self.has_md5) | (row_hashes(frame, begin, stop) == recorded[:, 2]))

    def placed(self, frame: PanelFrame, places: IntArray) -> dict[str, TargetRows]:
        """The recorded splits in the rows of a frame that has them; none of a series that was not recorded."""
        begin, known = self.begins(frame, places), places >= 0
        placed = {}
        for name, rows in self.splits.items():
            first, stop = (np.where(known, begin + rows[places, i], frame.offsets[:-1]) for i in (0, 1))
            placed[name] = TargetRows(first, stop)
        return placed


def row_hashes(frame: PanelFrame, first: IntArray, stop: IntArray) -> IntArray:
    """A number (S,) of the measured values in rows first[s] to stop[s] of each series."""
    values, numbers = np.asarray(frame.values), []
    for begin, end in zip(first.tolist(), stop.tolist(), strict=True):
        cells = values[begin:end] + 0.0  # no -0.0
        if frame.measured is not None:
            cells[~frame.measured[begin:end]] = np.nan
        numbers.append(md5(cells.tobytes(), usedforsecurity=False).digest()[:8])
    return np.frombuffer(b"".join(numbers), dtype="<i8")
