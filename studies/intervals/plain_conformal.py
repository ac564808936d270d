"""A plain split-conformal interval, to stand beside the program's: absolute residuals of all validation windows."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forecast.data.prepare import Prepared
from forecast.evaluation.conformal import Calibration, Unrest
from forecast.evaluation.evaluate import CHUNK, exact_float32, forecast_of, look_back_of
from forecast.models.base import ForecastModel


@torch.inference_mode()
def plain_calibration(model: ForecastModel, data: Prepared, levels: Sequence[float]) -> Calibration:
    """One margin for each step and column: the residual of rank ceil((n + 1) level / 100) of n (Vovk et al. 2005).

    Computed by NumPy from the forecasts of best.ckpt, as textbooks have it: no factor for the past of a window, and
    the windows that chose the epoch. levels: per cent.
    """
    windows = data.windows("val", look_back=max(data.seq_len, look_back_of(model, data)))
    found: list[Tensor] = []
    with exact_float32():
        for batch in windows.in_batches(torch.arange(len(windows)), CHUNK):
            residuals = (forecast_of(model, batch, look_back_of(model, data)) - batch.target).abs()
            if batch.measured is not None:
                residuals = torch.where(batch.measured, residuals, math.nan)
            found.append(residuals)
    residuals_of_all = torch.cat(found).numpy()  # (N, P, T)
    counts = np.isfinite(residuals_of_all).sum(0)
    ordered = np.sort(residuals_of_all, axis=0)  # NaN comes last
    margins = []
    for level in levels:
        ranks = np.minimum(np.ceil(np.round((counts + 1) * level / 100, 9)).astype(int), counts)
        margins.append(np.take_along_axis(ordered, np.maximum(ranks - 1, 0)[None], axis=0)[0])
    everywhere = Unrest(rows=1, period=1, targets=tuple(data.targets), typical=torch.zeros(len(data.targets)))
    return Calibration(
        levels=tuple(levels),
        margins=torch.from_numpy(np.nan_to_num(np.stack(margins))),
        unrest=everywhere,  # a typical unrest of 0: the factor of every window is 1
        windows=len(residuals_of_all),
        blocks=len(residuals_of_all),
        crossed=False,
    )
