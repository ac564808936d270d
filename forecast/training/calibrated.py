"""The calibration of a trained model, added to its checkpoint."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from forecast.checkpoint.archive import read_plain
from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.model import build_model
from forecast.checkpoint.record import RECORD
from forecast.data.prepare import Prepared
from forecast.data.split import Split
from forecast.data.values.cells import IntArray
from forecast.errors import UserError
from forecast.evaluation.calibrate import ValPart, block_count, calibrate
from forecast.evaluation.conformal import CALIBRATION, blocks_needed
from forecast.evaluation.scored_intervals import name_of, windows_needed
from forecast.training.checkpoint import write_checkpoint
from forecast.training.closed_form import CPU
from forecast.training.cross_fit import HALVES, chosen_weights

log = logging.getLogger(__name__)
NO_SPLIT = "Take a shorter pred_len."


def check_levels(levels: Sequence[float], data: Prepared, split: Split, *, typed: bool) -> bool:
    """Says which levels the validation windows are too few for; UserError where they were asked for by name.

    Where no split gives enough for any, returns True: the errors of all steps together are to do.
    """
    windows = data.windows("val")
    blocks = block_count(windows, data.pred_len)
    few = too_few(levels, blocks, split, data.frame.lengths, seq_len=data.seq_len, pred_len=data.pred_len)
    if not few:
        return False
    if few.endswith(NO_SPLIT) and len(windows) and blocks < blocks_needed(min(levels)):
        log.warning("Intervals are of the errors of all steps together, and may well be too narrow: for %s", few)
        return True
    if typed:
        kept = ",".join(name_of(level) for level in levels if blocks_needed(level) <= blocks)
        raise UserError(f"level: no intervals of {few} Or ask for level=[{kept}].")
    log.warning("No intervals of %s", few)
    return False


def too_few(
    levels: Sequence[float],
    blocks: int,
    split: Split,
    lengths: IntArray,
    *,
    seq_len: int,
    pred_len: int,
    command: str = "",
) -> str:
    """Which levels so many validation windows are too few for, and words that give the first; "" where they serve all.

    split, lengths (S,): of the data. command: which takes the words.
    """
    if not (beyond := [level for level in levels if blocks_needed(level) > blocks]):
        return ""
    needed, first = blocks_needed(min(beyond)), name_of(min(beyond))
    words = split.for_intervals(needed, lengths, least=seq_len + pred_len, pred_len=pred_len)
    fix = f"For those of {first} %: {command}{words}" if words else NO_SPLIT[:-1]
    names = ", ".join(map(name_of, beyond))
    return f"{names} %: validation holds {blocks} windows that do not overlap, and {windows_needed(beyond)}. {fix}."


def add_calibration(
    path: Path, folder: Path, data: Prepared, *, levels: Sequence[float], device: torch.device, together: bool = False
) -> None:
    """Calibrates the intervals of a checkpoint on the validation windows, and writes them into it.

    folder: of the run. together: whether the errors of all steps count as those of one. Where the halves of these
    windows have chosen weights of their own, each half is forecast with the choice of the other.
    """
    checkpoint = load_checkpoint(path)
    count = len(data.windows("val"))
    parts = [ValPart(model=checkpoint.model().to(device), windows=range(count))]
    if chosen := chosen_weights(folder):
        first, second = (checkpoint.model().to(device) for _ in HALVES)
        for model, half in zip((first, second), HALVES, strict=True):
            model.load_state_dict(chosen[half])
        middle = count // 2
        parts = [ValPart(model=second, windows=range(middle)), ValPart(model=first, windows=range(middle, count))]
    calibration = calibrate(
        parts,
        data,
        levels=levels,
        batch_size=checkpoint.config.data.batch_size,
        device=device,
        crossed=bool(chosen),
        together=together,
    )
    if calibration is not None:
        write_entry(path, CALIBRATION, {**calibration.state(), "targets": list(data.target_names)})


def add_own_calibration(path: Path, data: Prepared, *, levels: Sequence[float]) -> bool:
    """Calibrates a fitted model without weights by what it errs on the rows that it learned from, all steps together.

    Of a horizon that these rows do not hold after their first half, so many steps as that has are judged. Returns
    whether there is an interval: one row alone has no error.
    """
    checkpoint = load_checkpoint(path)
    learned = data.splits["train"]
    pred_len = min(data.pred_len, max(1, int((learned.stop - learned.first).max()) // 2))
    config = replace(checkpoint.config, pred_len=pred_len)
    model = build_model(config, checkpoint.record.data).eval()
    data = data.but(pred_len=pred_len, splits={**data.splits, "val": learned})
    parts = [ValPart(model=model, windows=range(len(data.windows("val"))))]
    own = calibrate(parts, data, levels=levels, batch_size=config.data.batch_size, device=CPU, together=True)
    if own is not None:
        own = replace(own, margins=own.margins[:, :1].expand(-1, checkpoint.config.pred_len, -1))
        write_entry(path, CALIBRATION, {**own.state(), "targets": list(data.target_names)})
    return own is not None


def write_entry(path: Path, key: str, value: object) -> None:
    """Adds an entry to the record of a checkpoint. UserError where it cannot be written."""
    content = read_plain(path)
    content[RECORD][key] = value
    write_checkpoint(path, content)
