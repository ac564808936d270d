"""What a config's values must satisfy beyond their types: a table of ranges, and one of rules between keys."""

import glob
import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from forecast.bounds import ASCENDING, SHARE, Bound, are_ascending, at_least
from forecast.config.allow_list import extends, resolve_target
from forecast.config.schema import parameters
from forecast.errors import UserError

SLOTS = ("encoder_attention", "decoder_attention", "cross_attention")
MOST_DEVICES = max(os.cpu_count() or 1, 8)  # processes of a training on this machine
_NO_LIMIT = Bound(lambda value: value >= -1, "must be at least 0, or -1 for no limit")

# By path, for a number and each number of a list: what the signatures of torch and lightning do not say. Those of
# forecast's own classes do (forecast.bounds).
BOUNDS: Mapping[str, Bound] = {
    "optim.lr": Bound(lambda value: value > 0, "must be greater than 0"),
    "optim.betas": SHARE,
    "optim.weight_decay": at_least(0),
    "optim.momentum": at_least(0),
    "loss.delta": Bound(lambda value: value > 0, "must be greater than 0"),
    "trainer.log_every_n_steps": at_least(0),
    "trainer.gradient_clip_val": at_least(0),
    "trainer.max_epochs": _NO_LIMIT,
    "trainer.max_steps": _NO_LIMIT,
    "trainer.min_epochs": at_least(0),
    "trainer.min_steps": at_least(0),
    "trainer.num_sanity_val_steps": _NO_LIMIT,
    "trainer.accumulate_grad_batches": at_least(1),
}


class Rule(NamedTuple):
    """Several values together. `reads` are their paths; without one of them the rule does not apply.

    In `message` {0}, {1} and so on are the values, {install} the command that installs `extra`, and {near} the hint for
    a file that is not there.
    """

    reads: tuple[str, ...]
    holds: Callable[..., bool]
    message: str
    extra: str = ""


def _is(target: object, name: str) -> bool:
    return str(target).rsplit(".", 1)[-1] == name


def are_numbers(*values: object) -> bool:
    """Whether all values are numbers, true and false left out."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def has_start_token(target: object) -> bool:
    """Whether the model of this target begins its decoder with the last label_len steps; others ignore label_len."""
    try:
        model: object = resolve_target(target)
    except UserError:  # check_config reports it
        return False
    return bool(model.has_start_token()) if hasattr(model, "has_start_token") else False


def _extends(target: object, base: str) -> bool:
    """Whether the class of this target is a `base`, or made from it."""
    try:
        return extends(resolve_target(target), base)
    except UserError:  # check_config reports it
        return False


def _file(path: object) -> bool:
    try:
        return not isinstance(path, str) or glob.has_magic(path) or Path(path).exists()  # of patterns the reader speaks
    except OSError:  # a folder that may not be looked into: the reader says so
        return True


def _gpu(accelerator: object) -> bool:
    """Whether there is the GPU that lightning's word asks for."""
    if accelerator not in ("gpu", "cuda"):
        return True
    torch = importlib.import_module("torch")  # by name: reading this table imports nothing heavy
    return bool(torch.cuda.is_available() or (accelerator == "gpu" and torch.backends.mps.is_available()))


def _needs_an_end(schedule: object) -> bool:
    """Whether the schedule of this target is laid out over all steps of a training."""
    try:
        return "total_steps" in parameters(resolve_target(schedule))
    except UserError:  # check_config reports it
        return False


def _installed(target: object, name: str, package: str) -> bool:
    """Whether the package of a class is there, where that is the class. A folder of its name is none."""
    spec = importlib.util.find_spec(package) if _is(target, name) else None
    return not _is(target, name) or (spec is not None and spec.origin is not None)


_SPREAD, _FITTED = "forecast.models.spread.Spread", "forecast.models.base.FittedModel"
_SPLIT = ("data.split._target_", "data.split.train", "data.split.val", "data.split.test")

RULES: tuple[Rule, ...] = (
    Rule(
        ("label_len", "seq_len", "model._target_"),
        lambda label, seq, model: not are_numbers(label, seq) or seq < 1 or label <= seq or not has_start_token(model),
        "the decoder starts with the last label_len ({0}) of the seq_len ({1}) known steps: "
        "label_len must be at most seq_len",
    ),
    Rule(
        ("model.decode", "model.mix"),
        lambda decode, mix: decode != "autoregressive" or mix is not True,
        "mixed heads are not causal, and autoregressive decoding must be: say model.mix=false",
    ),
    Rule(
        ("model.decode", "label_len"),
        lambda decode, label: decode != "autoregressive" or label != 0,
        "the first step is made from the start token: label_len must be at least 1",
    ),
    *(
        Rule(
            (f"{attention}.mechanism.heads", "model.n_heads"),
            lambda heads, n_heads: heads != "per_head" or not are_numbers(n_heads) or n_heads % 2 == 0,
            "half of the heads get each pattern: model.n_heads ({1}) must be even, or say heads=merged",
        )
        for attention in ("attention", *(f"model.{slot}" for slot in SLOTS))
    ),
    Rule(
        ("model._target_", "model.d_ff", "model.d_model"),
        lambda model, d_ff, d: not _is(model, "Sha") or not are_numbers(d_ff, d) or d < 1 or d_ff % d == 0,
        "must be a multiple of model.d_model ({2}): the Boom layer sums runs of that many numbers",
    ),
    Rule(
        ("model.stack_layers", "seq_len"),
        lambda layers, seq: (
            not isinstance(layers, list) or not are_numbers(seq) or seq < 1 or seq >= 2 ** (len(layers) - 1)
        ),
        "each encoder reads half the steps of the one before, and of seq_len ({1}) none is left for the last",
    ),
    Rule(
        ("model.tokens", "model.embedding"),
        lambda tokens, embedding: tokens == "conv" or embedding != "fixed",
        "a {0} has the calendar of several steps, and model.embedding=fixed looks up that of one: set "
        "model.embedding=timeF, or model.tokens=conv",
    ),
    Rule(
        ("data.path", "data._target_"),
        lambda path, target: not (_is(target, "CsvSource") and path is None),
        "which file? Say data.path=FILE.csv",
    ),
    Rule(
        ("loss.levels",),
        lambda levels: not isinstance(levels, list) or not are_numbers(*levels) or are_ascending(levels),
        f"must be {ASCENDING}",
    ),
    Rule(
        ("loss._target_", "model._target_"),
        lambda loss, model: not (_extends(loss, _SPREAD) and _extends(model, _FITTED)),
        "this model is fitted at once and trains on no loss: leave loss= out. Its intervals come from the errors that "
        "it makes on the validation rows, key level",
    ),
    Rule(
        ("trainer.devices",),
        lambda devices: not str(devices).isdecimal() or int(str(devices)[:20]) <= MOST_DEVICES,
        f"each is a process of its own, and here are {MOST_DEVICES} at most. Leave it out, or say fewer",
    ),
    Rule(
        ("networks", "model._target_"),
        lambda networks, model: networks == 1 or not _extends(model, _FITTED),
        "this model is fitted at once and draws nothing: every seed gives the same. Leave networks out",
    ),
    Rule(
        ("data.recent", "pred_len"),
        lambda recent, pred_len: not are_numbers(recent, pred_len) or cast(int, recent) >= cast(int, pred_len),
        "no window of pred_len={1} steps lies in so few rows. Give more, or data.recent=null",
    ),
    Rule(
        ("model.runs",),
        lambda runs: runs != [],
        "name two or more finished trainings, model.runs=[RUN,RUN]: the folders that forecast train wrote",
    ),
    Rule(("data.path",), _file, "there is no such file.{near}"),
    Rule(("trainer.accelerator",), _gpu, "torch sees no GPU here. Use trainer=cpu, or install torch's CUDA build."),
    Rule(
        ("trainer.sync_batchnorm", "trainer.accelerator"),
        lambda sync, accelerator: not sync or (accelerator != "cpu" and _gpu("gpu")),
        "torch averages batch norms over processes on GPUs only: leave it out, or train with model.distil=false",
    ),
    Rule(
        ("trainer.max_epochs", "trainer.max_steps", "schedule._target_"),
        lambda epochs, steps, schedule: epochs != -1 or steps != -1 or not _needs_an_end(schedule),
        "this schedule is laid out over the whole training, whose end must be known: say trainer.max_epochs=N",
    ),
    Rule(
        ("trainer.limit_val_batches", "schedule._target_"),
        lambda limit, schedule: limit != 0 or not _is(schedule, "ReduceLROnPlateau"),
        "schedule=plateau goes by the validation error, and there is no validation: leave it out, or choose another "
        "schedule",
    ),
    Rule(
        ("refit", "trainer.limit_val_batches"),
        lambda refit, limit: refit is False or limit != 0,
        "validation chooses for how many steps, and with trainer.limit_val_batches=0 there is none: leave that out, or "
        "say refit=false",
    ),
    Rule(
        ("refit", "schedule._target_"),
        lambda refit, schedule: refit is False or not _is(schedule, "ReduceLROnPlateau"),
        "schedule=plateau goes by the validation error, and a refit has no validation: choose another schedule, such "
        "as schedule=cosine, or say refit=false",
    ),
    *(
        Rule(
            ("logger._target_",),
            partial(_installed, name=name, package=package),
            f"the package {package} is not installed. Install it: {{install}}, or choose logger=tensorboard or "
            "logger=csv",
            extra=package,
        )
        for name, package in (("WandbLogger", "wandb"), ("MLFlowLogger", "mlflow"), ("MLflow", "mlflow"))
    ),
    *(
        Rule(
            ("model._target_",),
            partial(_installed, name=name, package="statsforecast"),
            "the package statsforecast is not installed. Install it: {install}, or choose model=ridge or "
            "model=seasonal_naive",
            extra="stats",
        )
        for name in ("Theta", "ETS", "ARIMA")
    ),
    Rule(
        ("trainer.use_distributed_sampler",),
        lambda value: value is not True,
        "the program shares the windows among its processes itself, every one once: leave it out",
    ),
    Rule(
        _SPLIT,
        lambda target, *shares: (
            not _is(target, "ShareSplit")
            or not are_numbers(*shares)
            or (min(shares) > 0 and abs(sum(shares) - 1) <= 1e-6)
        ),
        "train ({1}), val ({2}) and test ({3}) are shares: each above 0, together 1",
    ),
    Rule(
        _SPLIT,
        lambda target, *rows: not _is(target, "RowSplit") or not are_numbers(*rows) or min(rows) >= 1,
        "train ({1}), val ({2}) and test ({3}) are numbers of rows: at least 1 each",
    ),
)
