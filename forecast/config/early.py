"""What can be told of a config of train before torch is imported, which takes seconds: a missing file, too few rows."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from forecast.config.rules import RULES
from forecast.config.values import Problems
from forecast.errors import UserError, closest_file

_TEXT = {".csv", ".tsv", ".txt"}
FEWEST_LINES = 100  # of a shorter file the reader has more to say: it may be no table at all


def check_file(cfg: DictConfig) -> None:
    """Raise UserError for a data.path that is no file, and for one with fewer lines than the windows of train need.

    All else is left to `check_config`, which judges the classes that the config names and so imports them.
    """
    path = OmegaConf.select(cfg, "data.path")
    if cfg.get("ckpt_path") or not isinstance(path, str):  # a run that goes on has its checkpoint's file
        return
    problems = Problems()
    for rule in RULES:
        if rule.reads == ("data.path",) and not rule.holds(path):
            problems.add("data.path", path, f"{rule.message}.{closest_file(Path(path))}".removesuffix("."))
    problems.report()
    _check_lengths(cfg, path)


def _check_lengths(cfg: DictConfig, path: str) -> None:
    """Raise UserError when the share of train in the lines of a text file is shorter than one window."""
    seq_len, pred_len = cfg.get("seq_len"), cfg.get("pred_len")
    share = OmegaConf.select(cfg, "data.split.train")
    as_it_stands = cfg.data.get("gaps") == "refuse" and cfg.data.get("resample") is None  # else there may be more rows
    known = isinstance(seq_len, int) and isinstance(pred_len, int) and isinstance(share, float)
    if not (as_it_stands and known and Path(path).suffix.lower() in _TEXT and Path(path).is_file()):
        return
    try:
        with Path(path).open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) + 1
    except OSError:  # the reader says why
        return
    train = int(share * lines)
    if lines >= FEWEST_LINES and train < seq_len + pred_len:
        raise UserError(
            f"{path} has {lines} lines at most, of which {train} are for training (data.split.train={share:g}), but "
            f"one window needs {seq_len + pred_len} (seq_len {seq_len} + pred_len {pred_len}). Choose shorter ones; "
            f"`forecast check-data FILE` finds some that fit."
        )
