"""One pass over the windows of a split of a panel: which windows, how many of them at a time, who forecasts them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from forecast.data.prepare import Prepared
from forecast.data.windows import Batch, Windows
from forecast.evaluation.baselines import make_baselines
from forecast.evaluation.evaluate import (
    CHUNK,
    CHUNK_COLUMNS,
    MODEL,
    Protocol,
    counted_windows,
    longest_look_back,
    look_back_of,
)
from forecast.models.base import FittedModel


@dataclass(frozen=True, kw_only=True)
class PanelPass:
    """The first `count` windows of a split, in order. chunk: so many are forecast at once.

    The last digits of a forecast depend on chunk, and on which windows it lies among: all that forecast the same
    windows take whole chunks, counted from the first window.
    """

    data: Prepared
    forecasters: Mapping[str, nn.Module]
    look_backs: Mapping[str, int]
    windows: Windows
    count: int
    chunk: int

    def batches(self, batch_size: int, first: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """The windows from first to stop, `chunk` at a time; about `batch_size` are gathered at once.

        first must be a multiple of chunk. stop: None stands for the end.
        """
        gathered, end = max(1, round(batch_size / self.chunk)) * self.chunk, self.count if stop is None else stop
        for start in range(first, end, gathered):
            yield from self.windows.in_batches(torch.arange(start, min(end, start + gathered)), self.chunk)


def panel_pass(
    model: nn.Module,
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    fitted: Mapping[str, Tensor] | None,
    device: torch.device,
) -> PanelPass:
    """A pass of a model and its baselines, on a device; see `evaluate_panel`. UserError when no window counts."""
    data = data.on(device)
    forecasters = {MODEL: model}
    if fitted is not None:
        forecasters |= make_baselines(data, fitted={name: weight.to(device) for name, weight in fitted.items()})
    return PanelPass(
        data=data,
        forecasters=forecasters,
        look_backs={name: look_back_of(one, data) for name, one in forecasters.items()},
        windows=data.windows(split, look_back=longest_look_back(forecasters.values(), data)),
        count=counted_windows(data, split, protocol),
        chunk=max(CHUNK, CHUNK_COLUMNS // data.n_columns) if isinstance(model, FittedModel) else CHUNK,
    )
