"""The authors' state dicts, and forecast import-informer2020 run on them."""

import argparse
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from informer2020 import config_of, samples, tensors, use_samples

from forecast.apps.import_informer2020 import command as script
from forecast.apps.options import import_informer2020 as add_options
from forecast.checkpoint.load import load_checkpoint
from forecast.errors import UserError

SCRIPT = ("-m", "forecast", "import-informer2020")

close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)
COLUMNS = ("sun", "OT", "wind", "rain")


def columns_of(case):
    """As many columns as the model of a reference file reads; the second is the target."""
    n_columns = config_of(case)["enc_in"]
    return (*COLUMNS, *(f"more{i}" for i in range(len(COLUMNS), n_columns)))[:n_columns]


def their_order(case):
    """The numbers of the columns as their loader reads a custom file, the target last: sun, wind, rain, OT."""
    columns = columns_of(case)
    return sorted(range(len(columns)), key=lambda i: columns[i] == "OT")


def make_parser():
    """The command's parser."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser


def imported(folder, content, *arguments):
    """The checkpoint that the script writes for a state dict; content None: for the checkpoint.pth in the folder."""
    if content is not None:
        torch.save(content, folder / "checkpoint.pth")
    places = [folder / "checkpoint.pth", folder / "out.ckpt", "--overwrite"]
    script.main(make_parser().parse_args([*map(str, [*places, *arguments])]))
    return folder / "out.ckpt"


def refused(folder, content, *arguments):
    """The message of the script on a state dict that it refuses; nothing may be written."""
    with pytest.raises(UserError) as stop:
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
    same = ("seq_len", "label_len", "factor", "d_model", "n_heads", "d_ff", "d_layers", "dropout", "activation")
    same += ("attn", "embed", "enc_in", "dec_in", "c_out", "freq")
    values = {name: c[name] for name in same} | {"pred_len": c["out_len"], "model": c.get("model", "Informer").lower()}
    layers = c["e_layers"]
    values |= {"s_layers": ",".join(map(str, layers))} if isinstance(layers, list) else {"e_layers": layers}
    flags = [f"--{name}" for name in ("distil", "mix") if not c[name]]
    return [word for name, value in values.items() if name not in but for word in (f"--{name}", value)] + flags


def command(folder, case, *but, **file):
    """Writes a custom file with the columns of a reference file; the options that name it and the model."""
    return [*write_csv(folder / "own.csv", case, **file), *options(case, *but)]


def weights(case):
    return tensors(case, "params/")


def batch(case):
    """What the model is called with, columns in the order of the file."""
    c, inputs = config_of(case), tensors(case, "inputs/")
    past = torch.empty_like(inputs["x_enc"])
    past[..., their_order(case)] = inputs["x_enc"]
    return past, inputs["x_mark_enc"], inputs["x_mark_dec"][:, c["label_len"] :]


def authors_forecast(case):
    return tensors(case, "outputs/")["forecast_eval"]


def forecast(path, case, *inputs):
    """The forecast of an imported checkpoint on the keys of the reference file."""
    model = load_checkpoint(path).model()
    use_samples(model, samples(case)[: config_of(case)["eval_draws"]])
    with torch.inference_mode():
        return model(*(inputs or batch(case)))


def check_forecast(path, case, *inputs):
    """An imported checkpoint forecasts as the authors' code did; the columns in their order."""
    close(forecast(path, case, *inputs)[..., their_order(case)], authors_forecast(case))


def golden_case(golden, name):
    with np.load(golden / f"{name}.npz") as arrays:
        return dict(arrays)
