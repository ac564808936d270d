"""What a small model without gradients is fitted to."""

import numpy as np
import torch

from forecast.models.base import FittingRows, Gathered, WholeWindows


def fitting_rows(series, origins, pred_len, *, known=None, made_up=(), **more):
    """Of one series (N, T) float64, whose known features are (N, F); made_up: rows that no whole window has."""
    known = torch.zeros(len(series), 0) if known is None else known

    def windows(split, look_back):
        begins = origins(split, look_back)
        whole = [not any(b - look_back <= row < b + pred_len for row in made_up) for b in begins]

        def gather(some):
            of = begins[some]
            past, future = (of[:, None] + np.arange(*ends) for ends in ((-look_back, 0), (0, pred_len)))
            return Gathered(series[past].float(), known[past], known[future], series[future].float())

        return WholeWindows(np.flatnonzero(whole), gather)

    return FittingRows(series=series, origins=origins, windows=windows, train_mean=lambda: series.mean(0), **more)
