"""What the config's values must satisfy beyond their types: two tables."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from forecast.config.targets import resolve_target
from forecast.errors import UserError

Test = Callable[[Any], bool]
LARGEST_SEED = 2**32 - 1


def _at_least(least: int) -> tuple[Test, str]:
    return lambda value: value >= least, f"must be at least {least}"


def _limit() -> tuple[Test, str]:
    return lambda value: value >= -1, "must be at least 0, or -1 for no limit"


_SEED: tuple[Test, str] = (lambda value: 0 <= value <= LARGEST_SEED, f"must be between 0 and {LARGEST_SEED}")
_SHARE: tuple[Test, str] = (lambda value: 0 <= value < 1, "must be at least 0 and less than 1")

# By the last part of the path, for numbers and each number of a list: the types are the signatures' affair.
RANGES: Mapping[str, tuple[Test, str]] = {
    "seed": _SEED,
    "eval_seed": _SEED,
    "demo_seed": _SEED,
    "seq_len": _at_least(1),
    "label_len": _at_least(0),
    "pred_len": _at_least(1),
    "d_model": _at_least(1),
    "n_heads": _at_least(1),
    "d_ff": _at_least(1),
    "encoder_layers": _at_least(1),
    "decoder_layers": _at_least(1),
    "batch_size": _at_least(1),
    "factor": _at_least(1),
    "k": _at_least(1),
    "budget": _at_least(1),
    "bucket": _at_least(1),
    "rounds": _at_least(1),
    "block": _at_least(1),
    "summary": _at_least(1),
    "window": _at_least(1),
    "sub_len": _at_least(2),
    "kernel_size": _at_least(1),
    "patch_len": _at_least(1),
    "stride": _at_least(1),
    "stack_layers": _at_least(1),
    "feed_forward_chunks": _at_least(1),
    "patience": _at_least(1),
    "every_n_train_steps": _at_least(1),
    "drop_last_of": _at_least(1),
    "offsets": _at_least(1),  # the forecasts right after the windows are made anyway
    "dropout": _SHARE,
    "lr": (lambda value: value > 0, "must be greater than 0"),
    "betas": _SHARE,
    "weight_decay": _at_least(0),
    "rows": _at_least(3),  # the demo's
    "windows": _at_least(1),
    "log_every_n_steps": _at_least(0),
    "gradient_clip_val": _at_least(0),
    "max_epochs": _limit(),
    "max_steps": _limit(),
    "min_epochs": _at_least(0),
    "min_steps": _at_least(0),
    "num_sanity_val_steps": _limit(),
    "accumulate_grad_batches": _at_least(1),
}


class Rule(NamedTuple):
    """Several values together. `reads` are their paths; without one of them the rule does not apply."""

    reads: tuple[str, ...]
    holds: Callable[..., bool]
    says: str


def _is(target: object, name: str) -> bool:
    return str(target).rsplit(".", 1)[-1] == name


def _numbers(*values: object) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _has_start_token(target: object) -> bool:
    """Whether the model of this target begins its decoder with the last label_len steps; others ignore label_len."""
    try:
        model: Any = resolve_target(target)
    except UserError:  # said elsewhere
        return False
    return bool(model.has_start_token()) if hasattr(model, "has_start_token") else False


def _shares(target: object, *shares: Any) -> bool:
    if not _is(target, "ShareSplit") or not _numbers(*shares):
        return True
    return all(share > 0 for share in shares) and abs(sum(shares) - 1) <= 1e-6


def _rows(target: object, *rows: Any) -> bool:
    return not _is(target, "RowSplit") or not _numbers(*rows) or all(count >= 1 for count in rows)


def _boom(target: object, d_ff: Any, d_model: Any) -> bool:
    return not _is(target, "Sha") or not _numbers(d_ff, d_model) or d_model < 1 or d_ff % d_model == 0


def _stacked(layers: object, seq_len: Any) -> bool:
    """Whether the last encoder of a stack, each of which reads half as much as the one before, has a step to read."""
    return not isinstance(layers, list) or not _numbers(seq_len) or seq_len < 1 or seq_len >= 2 ** (len(layers) - 1)


def _file(path: object) -> bool:
    try:
        return not isinstance(path, str) or Path(path).exists()
    except OSError:  # a folder that may not be looked into: the reader says so
        return True


def _gpu(accelerator: object) -> bool:
    """Whether there is the GPU that lightning's word asks for."""
    if accelerator not in ("gpu", "cuda"):
        return True
    torch = importlib.import_module("torch")  # by name, as targets does: reading this table imports nothing heavy
    return bool(torch.cuda.is_available() or (accelerator == "gpu" and torch.backends.mps.is_available()))


_SPLIT = ("data.split._target_", "data.split.train", "data.split.val", "data.split.test")

RULES: tuple[Rule, ...] = (
    *(
        Rule((path,), lambda node: isinstance(node, Mapping), "must be chosen as a group: attention=NAME")
        for path in ("attention.projection", "attention.mechanism")
    ),
    Rule(
        ("label_len", "seq_len", "model._target_"),
        lambda label, seq, model: not _numbers(label, seq) or seq < 1 or label <= seq or not _has_start_token(model),
        "the decoder starts with the last label_len ({0}) of the seq_len ({1}) known steps: "
        "label_len must be at most seq_len",
    ),
    Rule(
        ("model.decode", "model.mix"),
        lambda decode, mix: decode != "dynamic" or mix is not True,
        "mixed heads are not causal, and dynamic decoding must be: say model.mix=false",
    ),
    Rule(
        ("model.decode", "label_len"),
        lambda decode, label: decode != "dynamic" or label != 0,
        "the first step is made from the start token: label_len must be at least 1",
    ),
    Rule(
        ("model.decode", "data.features"),
        lambda decode, features: decode != "dynamic" or features != "MS",
        "each forecast step is fed back as an input, which needs all columns, and data.features=MS forecasts one: "
        "say data.features=M or S, or model.decode=generative",
    ),
    *(
        Rule(
            (f"{attention}.mechanism.heads", "model.n_heads"),
            lambda heads, n_heads: heads != "per_head" or not _numbers(n_heads) or n_heads % 2 == 0,
            "half of the heads get each pattern: model.n_heads ({1}) must be even, or say heads=merged",
        )
        for attention in ("attention", *(f"model.{slot}_attention" for slot in ("encoder", "decoder", "cross")))
    ),
    Rule(
        ("model._target_", "model.d_ff", "model.d_model"),
        _boom,
        "must be a multiple of model.d_model ({2}): the Boom layer sums runs of that many numbers",
    ),
    Rule(
        ("model.stack_layers", "seq_len"),
        _stacked,
        "each encoder reads half the steps of the one before, and of seq_len ({1}) none is left for the last",
    ),
    Rule(
        ("data.path", "data._target_"),
        lambda path, target: not (_is(target, "CsvSource") and path is None),
        "which file? Say data.path=FILE.csv",
    ),
    Rule(("data.path",), _file, "there is no such file"),
    Rule(("trainer.accelerator",), _gpu, "torch sees no GPU here. Use trainer=cpu, or install torch's CUDA build."),
    Rule(
        ("trainer.sync_batchnorm", "trainer.accelerator"),
        lambda sync, accelerator: not sync or (accelerator != "cpu" and _gpu("gpu")),
        "torch averages batch norms over processes on GPUs only: leave it out, or train with model.distil=false",
    ),
    Rule(
        ("trainer.use_distributed_sampler",),
        lambda asked: asked is not True,
        "the program shares the windows among its processes itself, every one once: leave it out",
    ),
    Rule(_SPLIT, _shares, "train ({1}), val ({2}) and test ({3}) are shares: each above 0, together 1"),
    Rule(_SPLIT, _rows, "train ({1}), val ({2}) and test ({3}) are numbers of rows: at least 1 each"),
)
