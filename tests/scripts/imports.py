"""The authors' state dicts, and scripts/import_informer2020.py run on them."""

import importlib.util
import json
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from informer2020 import hand_in, samples, tensors

from forecast.checkpoint.load import load_checkpoint

SCRIPT = Path(__file__).parents[2] / "scripts" / "import_informer2020.py"
_spec = importlib.util.spec_from_file_location("import_informer2020", SCRIPT)
script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)

close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
COLUMNS = ("sun", "OT", "wind", "rain")


def config_of(case):
    """The sizes of a reference file."""
    return json.loads(str(case["config"]))


def columns_of(case):
    """As many columns as the model of a reference file reads; the second is the target."""
    return (*COLUMNS, *(f"more{i}" for i in range(len(COLUMNS), config_of(case)["enc_in"])))[
        : config_of(case)["enc_in"]
    ]


def their_order(case):
    """The numbers of the columns as their loader reads a custom file, the target last: sun, wind, rain, OT."""
    columns = columns_of(case)
    return sorted(range(len(columns)), key=lambda i: columns[i] == "OT")


def imported(folder, content, *arguments):
    """Where the script wrote what it made of a state dict; content None: of the checkpoint.pth in the folder."""
    if content is not None:
        torch.save(content, folder / "checkpoint.pth")
    places = [folder / "checkpoint.pth", folder / "out.ckpt"]
    with mock.patch.object(sys, "argv", [str(SCRIPT), *map(str, [*places, *arguments])]):
        script.main()
    return folder / "out.ckpt"


def refused(folder, content, *arguments):
    """What the script says of a state dict that it does not take; nothing may be written."""
    with pytest.raises(SystemExit) as stop:
        imported(folder, content, *arguments)
    assert not list(folder.glob("out.ckpt*"))
    return str(stop.value)


def write_csv(path, case=None, *, more=(), freq="h", rows=211):
    """A custom file with the columns of a reference file and `more`; returns the options that name it."""
    columns = (*(COLUMNS if case is None else columns_of(case)), *more)
    values = 50 + 10 * np.random.default_rng(3).normal(size=(rows, len(columns))).cumsum(0)
    table = pd.DataFrame(values.round(3), columns=list(columns))
    table.insert(0, "date", pd.date_range("2021-03-01", periods=rows, freq=freq))
    table.to_csv(path, index=False)
    return ["--data", "custom", "--root_path", path.parent, "--data_path", path.name]


def options(case, *but):
    """The command of a reference file, less the options named."""
    c = config_of(case)
    said = {
        **{name: c[name] for name in ("seq_len", "label_len", "factor", "d_model", "n_heads", "d_ff", "d_layers")},
        **{name: c[name] for name in ("dropout", "activation", "attn", "embed", "enc_in", "dec_in", "c_out", "freq")},
        "pred_len": c["out_len"],
        "model": c.get("model", "Informer").lower(),
    }
    layers = c["e_layers"]
    said |= {"s_layers": ",".join(map(str, layers))} if isinstance(layers, list) else {"e_layers": layers}
    flags = [f"--{name}" for name in ("distil", "mix") if not c[name]]
    return [word for name, value in said.items() if name not in but for word in (f"--{name}", value)] + flags


def weights(case):
    return tensors(case, "params/")


def batch(case):
    """What the model is called with, columns in the order of the file."""
    c, inputs = config_of(case), tensors(case, "inputs/")
    past = torch.empty_like(inputs["x_enc"])
    past[..., their_order(case)] = inputs["x_enc"]
    return past, inputs["x_mark_enc"], inputs["x_mark_dec"][:, c["label_len"] :]


def forecast(path, case, *inputs):
    """The forecast of an imported checkpoint on the keys of the reference file, columns in the authors' order."""
    model = load_checkpoint(path).model()
    hand_in(model, samples(case)[: config_of(case)["eval_draws"]])
    with torch.inference_mode():
        return model(*inputs)[..., their_order(case)]


def golden_case(golden, name):
    with np.load(golden / f"{name}.npz") as arrays:
        return dict(arrays)
