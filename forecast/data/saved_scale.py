"""The scale of the series of a training as a checkpoint keeps it, and what it gives for those of another file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from forecast.data.panel import PanelFrame
from forecast.data.scaling import How, Scales, SeasonalDifferences, cell_means, seasonal_spread, spread
from forecast.data.values.cells import FloatArray, IntArray

EACH = ("series", "season")  # of these each series has a scale of its own
_ESCAPED = {"\\": r"\\", "\n": r"\n"}  # in ids: a line end parts them


State = dict[str, Any]  # plain values and tensors; the ids as bytes


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
        text = ids_text(self.ids)
        absolute, squared = (torch.from_numpy(part.copy()) for part in (self.naive.absolute, self.naive.squared))
        state: State = {
            "how": self.how,
            "ids": torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0, dtype=torch.uint8),
            "mean": torch.from_numpy(self.mean.copy()),
            "std": torch.from_numpy(self.std.copy()),
            "period": self.period,
            "naive": {"period": self.naive.period, "absolute": absolute, "squared": squared},
        }
        return state if self.floor is None else {**state, "floor": torch.from_numpy(self.floor.copy())}

    @classmethod
    def from_state(cls, state: State, *, n_columns: int, n_targets: int) -> "SavedScale":
        """From what `state` gave. ValueError where it is not of so many columns and targets."""
        ids, mean, std = ids_of(state["ids"].numpy().tobytes()), state["mean"].numpy(), state["std"].numpy()
        if mean.shape != std.shape or mean.shape != (len(ids) if state["how"] in EACH else 1, n_columns):
            raise ValueError(f"has the shapes {mean.shape} and {std.shape} for {len(ids)} ids and {n_columns} columns")
        floor = state["floor"].numpy() if "floor" in state else None
        absolute, squared = state["naive"]["absolute"].numpy(), state["naive"]["squared"].numpy()
        if {absolute.shape, squared.shape} != {(len(ids), n_targets)}:
            raise ValueError(f"has the shapes {absolute.shape} and {squared.shape} instead of {(len(ids), n_targets)}")
        naive = SeasonalDifferences(period=state["naive"]["period"], absolute=absolute, squared=squared)
        return cls(state["how"], ids, mean, std, naive, state["period"], floor)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.ids.astype(object))

    def places(self, ids: npt.NDArray[np.str_]) -> IntArray:
        """The numbers here of series; -1: it was not trained on."""
        return self._index.get_indexer(pd.Index(ids.astype(object)))

    def unseen(self, ids: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
        """Which of the series were not trained on."""
        return np.asarray(self.places(ids) < 0)

    def naive_errors(self, other: SeasonalDifferences, ids: npt.NDArray[np.str_]) -> SeasonalDifferences:
        """Those of series `ids` over their train rows; of one that was not trained on what `other` has."""
        places = self.places(ids)
        seen = (places >= 0)[:, None]
        absolute = np.where(seen, self.naive.absolute[places], other.absolute)
        squared = np.where(seen, self.naive.squared[places], other.squared)
        return SeasonalDifferences(period=self.naive.period, absolute=absolute, squared=squared)

    def scaler(self, frame: PanelFrame, *, context: int | None = None, together: int = 0) -> Scales:
        """The scale of each series of a frame.

        Where each series has its own, one that was not trained on has that of its measured cells: in its first
        `context` rows; None: in all, where all lie before the forecast. together: so many of the last columns have one
        scale for all series.
        """
        places = self.places(frame.ids) if self.how in EACH else np.zeros(len(frame), dtype=np.int64)
        mean, std, own = self.mean[places], self.std[places], np.asarray(places < 0)
        if own.any():
            begin, end = frame.offsets[:-1], frame.offsets[1:]
            stop = end if context is None else np.minimum(begin + context, end)
            stop = np.where(own, stop, begin)
            counts, means, variances = cell_means(frame, begin, stop)
            deviations = spread(variances, means, counts)
            if self.period is not None:
                deviations = seasonal_spread(frame, stop, self.period, deviations)
            mean[own], std[own] = means[own], deviations[own]
            if together:
                mean[:, -together:], std[:, -together:] = self.mean[0, -together:], self.std[0, -together:]
        return Scales(self.how, mean, std, own, self.period, self.floor)


def ids_text(ids: Iterable[str]) -> bytes:
    """Ids as one text, a line each."""
    return "\n".join(_escaped(str(name)) for name in ids).encode()


def ids_of(text: bytes) -> npt.NDArray[np.str_]:
    """The ids (S,) of which this is the text. ValueError, with the second half of a sentence, where it is none."""
    try:
        return np.array([_unescaped(name) for name in text.decode().split("\n")], dtype=np.str_)
    except UnicodeDecodeError:
        raise ValueError("holds ids that are no UTF-8") from None


def _escaped(name: str) -> str:
    return re.sub(r"[\\\n]", lambda match: _ESCAPED[match[0]], name)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)
