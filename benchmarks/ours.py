"""Our side: mechanisms, models and data as the config builds them for a training."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from benchmarks.setting import Setting, Sizes
from forecast.config.build import build
from forecast.config.run_config import Plain, RunConfig, composed
from forecast.data.sources import Source, locate
from forecast.data.windows import Batch
from forecast.models.base import ForecastModel, WindowShape

if TYPE_CHECKING:  # scikit-learn: a second in each process that measures
    from forecast.data.prepare import Prepared

# The two recipes that have a peer: the authors' model, defects included, and the program's own.
RECIPES = {"informer2020": ["model=informer2020"], "prob": ["model=informer", "attention=prob"]}
LENGTHS = ("seq_len", "label_len", "pred_len")
OF_MODEL = ("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "dropout")


@functools.cache
def values(*overrides: str) -> RunConfig:
    """The config of train.py with these overrides."""
    return composed(overrides).config


def mechanism(name: str, *, causal: bool, device: str) -> nn.Module:
    """The mechanism of conf/attention/NAME.yaml, without dropout, in training mode: fresh random draws at each call."""
    config = values(f"attention={name}", "model=informer", "model.dropout=0.0")
    make = build(cast(Mapping[str, Mapping[str, Plain]], config.plain["attention"])["mechanism"])
    built = cast(Callable[..., nn.Module], make)(causal=causal, layer=0)
    return built.to(device)


def overrides(recipe: str, sizes: Sizes, csv: str | None = None) -> list[str]:
    """The command line of train.py: one of RECIPES, the sizes, and an hourly ETT file, with the splits of ETTh1."""
    return [
        *RECIPES[recipe],
        *(f"{name}={getattr(sizes, name)}" for name in LENGTHS),
        *(f"model.{name}={getattr(sizes, name)}" for name in OF_MODEL),
        f"attention.mechanism.factor={sizes.factor}",
        f"data.batch_size={sizes.batch}",
        *(["data=ETTh1", f"data.path='{csv}'"] if csv else []),
    ]


def model_of(recipe: str, sizes: Sizes) -> ForecastModel:
    """The model of a recipe with fresh weights, all columns forecast."""
    lengths = {name: getattr(sizes, name) for name in LENGTHS}
    columns: dict[str, Any] = {
        "n_columns": sizes.n_columns,
        "targets": tuple(range(sizes.n_columns)),
        "n_known": sizes.n_known,
    }
    config = values(*overrides(recipe, sizes))
    return config.model.build(ForecastModel, window=WindowShape(**columns, **lengths))


def random_batch(sizes: Sizes, device: str) -> Batch:
    """A batch as a training gets it, of random numbers that are the same for everyone."""
    generator = torch.Generator().manual_seed(1)
    c, shape = sizes.n_columns, (sizes.batch, sizes.seq_len + sizes.pred_len, sizes.n_columns + sizes.n_known)
    both = torch.randn(shape, generator=generator).to(device)
    past, future = both[:, : sizes.seq_len], both[:, sizes.seq_len :]
    return Batch(past[..., :c], past[..., c:], future[..., c:], future[..., :c], future[..., :c])


def prepared(csv: Path, sizes: Sizes) -> "Prepared":
    """An hourly ETT file as a training of these sizes reads it."""
    from forecast.apps.common.training_data import read_data  # lightning: seconds in each process that measures

    config = values(*overrides("informer2020", sizes, str(csv)))
    return read_data(config.data.build(Source), config)


def series_file(setting: Setting) -> Path:
    """ETTh1.csv: --csv, else from $FORECAST_DATA, downloaded when it is not there."""
    return Path(setting.csv or locate("ETTh1", str(values("data=ETTh1").data.get("root")))).absolute()
