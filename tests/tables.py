"""Windows of a table that is scaled already, one series: what models and the gathering itself are tried on."""

import numpy as np
import pandas as pd
import torch
from scales import given_scales

from forecast.data.panel import PanelFrame
from forecast.data.split import WindowOrigins
from forecast.data.windows import Windows


def stacked(values, known):
    """values (N, C) and known (N, F) -> (N, C + F) float32, contiguous."""
    return torch.from_numpy(np.ascontiguousarray(np.concatenate([values, known], axis=1, dtype=np.float32)))


def windows_of(table, *, n_columns, rows, seq_len, pred_len, offset=0, **options):
    """The windows of a table (N, C + F) that lie in `rows`, one beginning at each of them. options: of `Windows`."""
    values = table[:, :n_columns].double().numpy()
    frame = PanelFrame(
        values=np.ascontiguousarray(values),
        offsets=np.array([0, len(table)]),
        steps=np.array([0]),
        ids=np.array([""]),
        first=pd.Timestamp("2021-03-01"),
        freq="h",
        columns=tuple(f"c{i}" for i in range(n_columns)),
        name="f.csv",
        id_column=None,
    )
    count = np.array([max(0, len(rows) - seq_len - offset - pred_len + 1)])
    return Windows(
        frame,
        WindowOrigins(np.array([rows.start + seq_len]), count, np.cumsum(count)),
        scaler=given_scales(np.zeros(n_columns), np.ones(n_columns)),
        calendar=table[:, n_columns:],
        kept=table,
        n_columns=n_columns,
        seq_len=seq_len,
        pred_len=pred_len,
        offset=offset,
        **options,
    )
