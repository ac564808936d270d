"""Our side: mechanisms, models and optimizers as the config builds them for a training."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from benchmarks.setting import Sizes
from forecast.config.build import build
from forecast.config.compose import composed
from forecast.data.catalog import locate
from forecast.data.windows import Batch
from forecast.evaluation.metrics import mean_squared_error
from forecast.models.base import ForecastModel, WindowShape
from forecast.training.optimizers import fused_keyword

if TYPE_CHECKING:  # scikit-learn: a second in each process that measures
    from forecast.data.prepare import PreparedData

# The two recipes that have a peer: the authors' model, defects included, and the program's own.
RECIPES = {
    "informer2020": ["model=informer2020"],
    "prob": ["model=informer", "attention=prob"],
}


@functools.cache
def values(*overrides: str) -> dict[str, Any]:
    """The resolved config of train.py with these overrides, to be read only."""
    return composed(overrides).values


def mechanism(name: str, *, causal: bool, settings: Sequence[str] = (), device: str = "cpu") -> nn.Module:
    """The mechanism of conf/attention/NAME.yaml, without dropout, in training mode: fresh random draws at each call.

    settings: KEY=VALUE of the mechanism. Raises UserError for a key that it does not have.
    """
    changed = [f"attention.mechanism.{setting}" for setting in settings]
    config = values(f"attention={name}", "model=informer", "model.dropout=0.0", *changed)
    built: nn.Module = build(config["attention"]["mechanism"])(causal=causal, layer=0)
    return built.to(device)


def overrides(sizes: Sizes) -> list[str]:
    """The sizes as overrides of train.py."""
    lengths = ("seq_len", "label_len", "pred_len")
    model = ("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "dropout")
    return [
        *(f"{name}={getattr(sizes, name)}" for name in lengths),
        *(f"model.{name}={getattr(sizes, name)}" for name in model),
        f"attention.mechanism.factor={sizes.factor}",
        f"data.batch_size={sizes.batch}",
    ]


def config_of(recipe: str, sizes: Sizes, *more: str) -> dict[str, Any]:
    """The resolved config of a training of one of RECIPES."""
    return values(*RECIPES[recipe], *overrides(sizes), *more)


def model_of(config: dict[str, Any], sizes: Sizes) -> ForecastModel:
    """The model of a config with fresh weights, all columns forecast."""
    window = WindowShape(
        n_columns=sizes.n_columns,
        targets=tuple(range(sizes.n_columns)),
        n_known=sizes.n_known,
        seq_len=sizes.seq_len,
        label_len=sizes.label_len,
        pred_len=sizes.pred_len,
    )
    model: ForecastModel = build(config["model"], window=window)
    return model


def random_batch(sizes: Sizes, device: str) -> Batch:
    """A batch as a training gets it, of random numbers that are the same for everyone."""
    generator = torch.Generator().manual_seed(1)
    c, shape = sizes.n_columns, (sizes.batch, sizes.seq_len + sizes.pred_len, sizes.n_columns + sizes.n_known)
    both = torch.randn(shape, generator=generator).to(device)
    past, future = both[:, : sizes.seq_len], both[:, sizes.seq_len :]
    return Batch(past[..., :c], past[..., c:], future[..., c:], future[..., :c], future[..., :c])


def training_step(
    forecast: Callable[[], tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    *,
    precision: str,
    device: str,
) -> Callable[[], None]:
    """Forward, mean squared error, backward, optimizer: the same code for us and for every peer.

    precision: a key of PRECISIONS; autocast covers forward and loss, as Lightning's bf16-mixed does.
    """

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16-mixed"):
            loss = mean_squared_error(*forecast())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def made_step(sizes: Sizes, recipe: str, *, precision: str, device: str, compiled: bool = False) -> Callable[[], None]:
    """`training_step` of one of RECIPES with fresh weights, on `random_batch`, with the optimizer of conf/optim.

    compiled: by torch.compile.
    """
    torch.manual_seed(0)
    config, batch = config_of(recipe, sizes), random_batch(sizes, device)
    model = model_of(config, sizes).to(device).train()
    inputs = (batch.past, batch.past_known, batch.future_known, batch.future)
    pair = torch.compile(model.training_outputs) if compiled else model.training_outputs
    make = build(config["optim"])
    optimizer = make(model.parameters(), **fused_keyword(make, may=True))
    return training_step(lambda: pair(*inputs), optimizer, precision=precision, device=device)


def read(csv: Path, sizes: Sizes) -> "PreparedData":
    """An hourly ETT file as a training of these sizes reads it."""
    from forecast.commands.train import read_data  # lightning: seconds in each process that measures

    config = config_of("informer2020", sizes, *data_overrides(csv))
    return read_data(build(config["data"]), config)


def data_overrides(csv: Path) -> list[str]:
    """The data as overrides of train.py: the splits of ETTh1, whatever the file."""
    return ["data=ETTh1", f"data.path='{csv}'"]


def series_file(csv: str | None) -> Path:
    """ETTh1.csv: --csv, else from $FORECAST_DATA, downloaded when it is not there."""
    return Path(csv or locate("ETTh1", values("data=ETTh1")["data"]["root"])).absolute()
