"""A folder that looks like the authors' checkout: our own model and windows behind their interfaces."""

import numpy as np
import pandas as pd

ATTN = """
from torch import nn
class ProbAttention(nn.Module):
    def __init__(self, mask_flag=True, factor=5, scale=None, attention_dropout=0.1, output_attention=False):
        super().__init__()
        assert attention_dropout == 0.0
        self.mask_flag = mask_flag
    def forward(self, queries, keys, values, attn_mask):
        q, k, v = (x.transpose(1, 2) for x in (queries, keys, values))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.mask_flag)
        return out.transpose(1, 2).contiguous(), None
"""
MODEL = """
from torch import nn
from benchmarks import ours
from benchmarks.setting import Sizes
from forecast.apps.import_informer2020.command import in_their_names
class Informer(nn.Module):
    def __init__(self, enc_in, dec_in, c_out, seq_len, label_len, out_len, factor=5, d_model=512, n_heads=8,
                 e_layers=3, d_layers=2, d_ff=512, dropout=0.0, attn="prob", embed="fixed", freq="h",
                 activation="gelu", output_attention=False, distil=True, mix=True, device=None):
        super().__init__()
        assert (attn, embed, freq, distil, mix) == ("prob", "timeF", "h", True, True)
        sizes = Sizes(seq_len=seq_len, label_len=label_len, pred_len=out_len, factor=factor, d_model=d_model,
                      n_heads=n_heads, d_ff=d_ff, encoder_layers=e_layers, decoder_layers=d_layers, dropout=dropout)
        self.label_len, self.pred_len, self.scale = label_len, out_len, SCALE
        self.inner = ours.model_of("informer2020", sizes)
    def state_dict(self):
        return in_their_names(self.inner, self.inner.state_dict())
    def forward(self, x, x_mark, decoder_input, y_mark):
        assert decoder_input.shape[1] == y_mark.shape[1] == self.label_len + self.pred_len
        assert not decoder_input[:, -self.pred_len:].any()
        return self.inner(x, x_mark, y_mark[:, -self.pred_len:]) * self.scale
"""
LOADER = """
from pathlib import Path
import torch
from benchmarks import ours
from benchmarks.setting import Sizes
class Dataset_ETT_hour:
    def __init__(self, root_path, flag, size, features, data_path, timeenc, freq):
        assert (features, timeenc, freq) == ("M", 1, "h")
        seq_len, self.label_len, pred_len = size
        sizes = Sizes(seq_len=seq_len, label_len=self.label_len, pred_len=pred_len)
        self.windows = ours.prepared(Path(root_path) / data_path, sizes).windows(flag)
    def __len__(self):
        return len(self.windows)
    def __getitem__(self, index):
        w = self.windows.__getitems__([index])
        y = torch.cat([w.past[:, -self.label_len:], w.future], 1)
        marks = torch.cat([w.past_known[:, -self.label_len:], w.future_known], 1)
        return [x[0].double().numpy() for x in (w.past, y, w.past_known, marks)]
"""


def write_peer(folder, *, scale=1.0):
    """scale: 1 computes what ours does, another does not."""
    for name, text in {"models/attn": ATTN, "models/model": MODEL, "data/data_loader": LOADER}.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text.replace("SCALE", str(scale)))
    return folder


def write_series(path):
    """An hourly file that the split of ETTh1 fits: 20 months of 30 days, seven columns."""
    rows = 20 * 30 * 24
    values = np.random.default_rng(5).normal(size=(rows, 7)).cumsum(0).round(3)
    table = pd.DataFrame(values, columns=["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"])
    table.insert(0, "date", pd.date_range("2016-07-01", periods=rows, freq="h"))
    table.to_csv(path, index=False)
    return path
