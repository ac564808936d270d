"""What the config's values must satisfy beyond their types: two tables."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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
    "patience": _at_least(1),
    "every_n_train_steps": _at_least(1),
    "drop_last_of": _at_least(1),
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


def _multiple(d_model: Any, n_heads: Any) -> bool:
    return not _numbers(d_model, n_heads) or n_heads < 1 or d_model % n_heads == 0


def _shares(target: object, *shares: Any) -> bool:
    if not _is(target, "ShareSplit") or not _numbers(*shares):
        return True
    return all(share > 0 for share in shares) and abs(sum(shares) - 1) <= 1e-6


def _rows(target: object, *rows: Any) -> bool:
    return not _is(target, "RowSplit") or not _numbers(*rows) or all(count >= 1 for count in rows)


def _file(path: object) -> bool:
    return not isinstance(path, str) or Path(path).is_file()


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
        ("label_len", "seq_len"),
        lambda label, seq: not _numbers(label, seq) or seq < 1 or label <= seq,
        "the decoder starts with the last label_len ({0}) of the seq_len ({1}) known steps: "
        "label_len must be at most seq_len",
    ),
    Rule(
        ("model.d_model", "model.n_heads"),
        _multiple,
        "must be a multiple of model.n_heads ({1}): each head gets an equal part",
    ),
    Rule(
        ("data.path", "data._target_"),
        lambda path, target: not (_is(target, "CsvSource") and path is None),
        "which file? Say data.path=FILE.csv",
    ),
    Rule(("data.path",), _file, "there is no such file"),
    Rule(("trainer.accelerator",), _gpu, "torch sees no GPU here. Use trainer=cpu, or install torch's CUDA build."),
    Rule(_SPLIT, _shares, "train ({1}), val ({2}) and test ({3}) are shares: each above 0, together 1"),
    Rule(_SPLIT, _rows, "train ({1}), val ({2}) and test ({3}) are numbers of rows: at least 1 each"),
)
