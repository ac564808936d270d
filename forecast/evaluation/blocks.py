"""The blocks of metrics.json that an evaluation gives; those of forecasts that begin some steps after their window too.

Zhou et al. 2021, Table 6: the model is trained as always, on the steps right after its window, and then forecasts later
ones. The decoder reads their calendar; its start token stays the end of the window.
"""

import logging
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from forecast.data.prepare import Prepared
from forecast.data.scaling import SeasonalDifferences
from forecast.data.values.cells import IntArray
from forecast.errors import UserError
from forecast.evaluation.baselines import make_baselines, season
from forecast.evaluation.evaluate import MODEL, Evaluation, Protocol, score, window_pass
from forecast.evaluation.metrics import UNIT_FREE, BeforeEachWindow, ErrorSums
from forecast.evaluation.scored_intervals import interval_metrics
from forecast.models.base import ForecastModel

log = logging.getLogger(__name__)


def check_offsets(data: Prepared, split: str, protocol: Protocol) -> None:
    """Raises UserError when a split is too short for one of the protocol's offsets; it names the largest possible."""
    longest = int(data.origins(split).counts.max()) - 1  # one window, gaps or not

    def counts(offset: int) -> bool:
        return offset <= longest and len(protocol.counted(data.windows(split, offset=offset))) > 0

    refused = [offset for offset in protocol.horizon_offsets if not counts(offset)]
    if refused:
        # one by one: with gaps a larger offset may leave windows where a smaller one leaves none
        rows = int((data.splits[split].stop - data.splits[split].first).sum())
        largest = next((offset for offset in range(longest, 0, -1) if counts(offset)), None)
        possible = "no offset is possible" if largest is None else f"the largest possible is {largest}"
        raise UserError(
            f"{data.frame.name}: protocol.horizon_offsets={list(protocol.horizon_offsets)}: at "
            f"{' and '.join(map(str, refused))} steps from its window no forecast of pred_len {data.pred_len} "
            f"counts in the {rows} rows of the split {split}: {possible}. "
            f"Leave the larger ones out, or choose a shorter pred_len or a longer split."
        )


def offset_metrics(
    model: nn.Module,
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    batch_size: int,
    device: torch.device,
    naive: SeasonalDifferences | None = None,
) -> dict[str, object]:
    """What metrics.json gains by the protocol's offsets: the key `offsets`; nothing when there are none.

    At offset o the model reads the rows [t, t + L) and is given the calendar of its targets, the rows
    [t + L + o, t + L + o + P), all in the rows that the split's windows may touch: o windows fewer than without offset.
    The baselines are the last value and the season that goes on. The fitted ones are left out: their weights in the
    checkpoint are for the steps right after the window. A model without `supports_horizon_offset` gets null.

    naive: by what MASE and RMSSE are scaled, unless each window is by its own.

    The model must be in evaluation mode and on the device, and `check_offsets` must have passed. Raises UserError when
    a forecast is not finite.
    """
    offsets = protocol.horizon_offsets
    if not offsets:
        return {}
    if not isinstance(model, ForecastModel) or not model.supports_horizon_offset():
        log.info(
            "protocol.horizon_offsets=%s: no figures, as this model forecasts the steps right after its window, "
            "whatever the calendar says. The one-shot decoders of informer, informer_stack and transformer support it.",
            list(offsets),
        )
        return {"offsets": {str(offset): None for offset in offsets}}
    each, blocks = BeforeEachWindow(data) if protocol.mase_scale == "window" else None, {}
    for offset in offsets:
        forecasters = {MODEL: model, **make_baselines(data.on(device), offset=offset)}
        one_pass = window_pass(forecasters, data, split=split, protocol=protocol, device=device, offset=offset)
        scored = score(one_pass, batch_size=batch_size, each=each)
        errors = {name: entry.errors for name, entry in scored.items()}
        own = errors.pop(MODEL)
        blocks[str(offset)] = {
            "windows": own.n_windows,
            **own.overall(naive),
            "baselines": baseline_metrics(errors, data, naive),
        }
    return {"offsets": blocks}


def split_metrics(evaluation: Evaluation, data: Prepared, split: str) -> dict[str, object]:
    """The block of metrics.json for the evaluated split."""
    errors, naive = evaluation.errors, evaluation.naive
    table, evaluated = errors.table(naive), errors.evaluated()
    mse, reference = errors.mse(), evaluation.baselines["seasonal_naive"].mse()

    def named(series: IntArray) -> list[dict[str, object]]:
        return [{"id": str(data.frame.ids[s]), **{key: float(table[key][s]) for key in UNIT_FREE}} for s in series]

    of_intervals = {}
    if evaluation.intervals is not None:
        scale = None if naive is None else naive.absolute * errors.std.numpy()
        of_intervals = interval_metrics(evaluation.intervals, data.target_names, scale)
    return {
        "windows": errors.n_windows,
        **errors.overall(naive),
        "skill": 1.0 - mse / reference if reference and mse is not None else None,
        "flat": errors.flat(data.target_names),
        "columns": errors.columns(data.target_names, naive),
        "series": {
            "count": len(data.frame),
            "evaluated": int(evaluated.sum()),
            "without_mase": int(np.isnan(table["mase"][evaluated]).sum()),
            "worst": named(evaluation.worst),
            "best": named(evaluation.best),
        },
        **of_intervals,
    }


def baseline_metrics(
    baselines: Mapping[str, ErrorSums], data: Prepared, naive: SeasonalDifferences | None
) -> dict[str, dict[str, object]]:
    """The block `baselines` of metrics.json, from the errors of each. naive: by what MASE and RMSSE are scaled."""
    blocks = {
        name: {**errors.overall(naive), "columns": errors.columns(data.target_names, naive)}
        for name, errors in baselines.items()
    }
    blocks["seasonal_naive"] = {"period": season(data), **blocks["seasonal_naive"]}
    return blocks
