"""The scale of a panel as a checkpoint keeps it, and what it gives for the series of another panel."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.scaling import FloatArray, How, PanelScaler, cell_means, spread

_ESCAPED = {"\\": r"\\", "\n": r"\n"}  # in ids: a line end parts them


@dataclass(frozen=True, eq=False)
class SavedScale:
    """What a training scaled its series `ids` (S,) by; mean, std (S, C) float64, or (1, C): the same for all."""

    how: How
    ids: npt.NDArray[np.str_]
    mean: FloatArray
    std: FloatArray

    @classmethod
    def of(cls, scaler: PanelScaler, ids: npt.NDArray[np.str_]) -> "SavedScale":
        """Of a scaler of the series `ids` (S,)."""
        rows = slice(None) if scaler.how == "series" else slice(1)
        return cls(scaler.how, ids, scaler.mean[rows], scaler.std[rows])

    def state(self) -> dict[str, Any]:
        """Plain values and tensors, for a checkpoint: a million ids are one tensor of bytes."""
        text = "\n".join(_escaped(str(name)) for name in self.ids).encode()
        return {
            "how": self.how,
            "ids": torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0, dtype=torch.uint8),
            "mean": torch.from_numpy(self.mean.copy()),
            "std": torch.from_numpy(self.std.copy()),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "SavedScale":
        """From what `state` gave."""
        mean, std = state["mean"].numpy(), state["std"].numpy()
        text = state["ids"].numpy().tobytes().decode()
        ids = np.array([_unescaped(name) for name in text.split("\n")], dtype=np.str_)
        assert len(mean) == len(std) == (len(ids) if state["how"] == "series" else 1)
        return cls(state["how"], ids, mean, std)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.ids.astype(object))

    def scale(
        self, ids: npt.NDArray[np.str_], frame: PanelFrame, context: int | None = None
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Mean and standard deviation (S, C) of the series of a frame, and which of them (S,) were not trained on.

        Where each series has its own scale, those have that of their measured cells: in their first `context` rows;
        None: in all, where all lie before the forecast.
        """
        places = self._index.get_indexer(pd.Index(ids.astype(object)))
        unseen = places < 0
        if self.how != "series":
            shape = len(ids), self.mean.shape[1]
            return np.broadcast_to(self.mean, shape), np.broadcast_to(self.std, shape), unseen
        mean, std = self.mean[places], self.std[places]
        if unseen.any():
            begin, end = frame.offsets[:-1], frame.offsets[1:]
            stop = end if context is None else np.minimum(begin + context, end)
            _, means, variances = cell_means(frame, begin, np.where(unseen, stop, begin))
            mean[unseen], std[unseen] = means[unseen], spread(variances, means)[unseen]
        return mean, std, unseen


def _escaped(name: str) -> str:
    return re.sub(r"[\\\n]", lambda found: _ESCAPED[found[0]], name)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)
