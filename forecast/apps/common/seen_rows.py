"""Are these the rows that a model was trained on? For train, evaluate, predict and update; and what to do if not."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.checkpoint.load import Checkpoint
from forecast.data.panel import PanelFrame
from forecast.data.sources import CsvSource
from forecast.data.split import TargetRows
from forecast.errors import UserError
from forecast.run_folder import read_run, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.overrides import hydra_value, typed
from forecast.text.terminal import shell_word

log = logging.getLogger(__name__)

NEW_ROWS, WHOLE_FILE = "new", "all"
HELD_OUT = "best.ckpt"  # beside a refit.ckpt
JUDGED = "test"


def check_same_data(checkpoint: Checkpoint, frame: PanelFrame, *, otherwise: str) -> None:
    """Raises UserError unless a frame was read from the data that a checkpoint was trained on.

    otherwise: what can be done with other data, beside restoring them.
    """
    before = checkpoint.data["checksum"]
    if before != frame.checksum:
        named = {"data.path": frame.name} if checkpoint.config.data.path else {}
        raise UserError(
            f"{frame.name} has changed since {checkpoint.path} was trained on it (checksum {before}, now "
            f"{frame.checksum}): its splits would be others. Restore it, or {otherwise}. If it has grown, see by "
            "split=new how good the model is on the new rows, forecast what follows by forecast predict, or train on "
            f"all rows: {train_again(checkpoint, **named)}"
        )


def trained_splits(checkpoint: Checkpoint, frame: PanelFrame) -> dict[str, TargetRows]:
    """The splits of the training in the rows of the data trained on. Raises UserError where these are others now."""
    other = f"evaluate it as another file: {typed('data.path', frame.name)} split={WHOLE_FILE}"
    check_same_data(checkpoint, frame, otherwise=other)
    return checkpoint.record.series.rows.placed(frame, checkpoint.scale.places(frame.ids))


def grown_splits(checkpoint: Checkpoint, frame: PanelFrame) -> dict[str, TargetRows]:
    """The splits of the training in the rows of a frame and, as the split `new`, the rows after them.

    Of a series that was not trained on all rows are new. Raises UserError where the rows trained on are not the
    beginning of each series, and where no series has new rows for a window.
    """
    places, recorded = checkpoint.scale.places(frame.ids), checkpoint.record.series.rows
    if changed := changed_series(checkpoint, frame):
        more = f" So do {len(changed) - 1} more of {len(frame)} series." if len(changed) > 1 else ""
        raise UserError(
            f"split={NEW_ROWS}: {next(iter(changed.values()))}.{more} Restore it, or evaluate it as another file: "
            f"{typed('data.path', frame.name)} split={WHOLE_FILE}"
        )
    if gone := len(checkpoint.scale.ids) - int((places >= 0).sum()):
        log.warning("%s: %d of %d series trained on are not in it.", frame.name, gone, len(checkpoint.scale.ids))
    splits = recorded.placed(frame, places)
    ends = np.max([rows.stop for rows in splits.values()], axis=0)
    rows, needed = frame.offsets[1:] - ends, checkpoint.config.pred_len
    most = int(rows.argmax())
    if rows[most] < needed:
        seen = int(ends[most] - frame.offsets[most])
        after = f" after {frame.timestamps(most)[seen - 1]}, the last one of the splits that the model was trained with"
        raise UserError(
            f"split={NEW_ROWS}: {frame.named(most)} has {rows[most]} rows"
            f"{after if seen else ' and was not in the training'}; one window needs pred_len = {needed}. Evaluate when "
            f"{needed - rows[most]} more are there, or those before: split=test."
        )
    log.info(
        "split=%s: the %d rows from %s on, which the training had not.",
        *(NEW_ROWS, rows.sum(), frame.calendar()[int((ends - frame.offsets[:-1] + frame.steps)[rows > 0].min())]),
    )
    return {**splits, NEW_ROWS: TargetRows(ends, frame.offsets[1:])}


def changed_series(checkpoint: Checkpoint, frame: PanelFrame, split: str | None = None) -> dict[str, str]:
    """The ids of series whose rows are not those trained on, in a sentence each.

    split: up to the end of which rows are compared; None: of the last.
    """
    places = checkpoint.scale.places(frame.ids)
    changed = np.flatnonzero((places >= 0) & ~checkpoint.record.series.rows.same(frame, places, split))
    reason = "lacks rows of those trained on, or holds other values than those trained on"
    return {str(frame.ids[s]): f"{frame.named(s)} {reason}" for s in changed.tolist()}


def stored_metrics(checkpoint: Checkpoint, *, split: str, path: Path | str | None) -> Metrics | None:
    """The figures to show of a refitted model that has learned from the rows to evaluate: the held-out model's on test.

    None where the model is to be evaluated: it is no refitted one, or has not learned from these rows as far as their
    split tells. path: of another file. Raises UserError for a split of which no figures of the held-out model are kept
    as a whole.
    """
    refit = checkpoint.refit
    if refit is None or path is not None or split not in refit["rows"]:
        return None
    if split != JUDGED:
        raise UserError(learnt(checkpoint, split))
    log.warning(
        "%s has learned from the rows up to %s, so these are the stored figures of the held-out model, %s beside it.",
        *(checkpoint.path, checkpoint.trained_until, HELD_OUT),
    )
    return refit["held_out"]


def check_later(checkpoint: Checkpoint, split: str, first: pd.Timestamp | None) -> None:
    """Raises UserError where a refitted model is to be judged on rows up to the last that it learned from.

    first: the time of the first row to be forecast, None where there is none.
    """
    if checkpoint.refit is not None and first is not None and first <= pd.Timestamp(checkpoint.trained_until):
        raise UserError(learnt(checkpoint, split))


def learnt(checkpoint: Checkpoint, split: str) -> str:
    """Why rows are refused, and what to do."""
    beside = checkpoint.path.with_name(HELD_OUT)
    held_out = typed("ckpt_path", str(beside)) if beside.is_file() else f"{HELD_OUT} of its run"
    return (
        f"split={split}: {checkpoint.path} has learned from the rows up to {checkpoint.trained_until}, on which its "
        f"error is no forecast error; evaluate the held-out model, {held_out}, or rows that came later, split=new."
    )


def train_again(checkpoint: Checkpoint, *, without: Sequence[str] = (), **changes: object) -> str:
    """The command that trains as the checkpoint was trained, with the data as they are now, but for some keys.

    without: beginnings of keys that are left out.
    """
    config, choices = checkpoint.config, checkpoint.record.choices
    words = read_run(run_of(checkpoint.path)).overrides
    if not words:  # the run folder is gone
        words = {key: str(choices[key]) for key in ("model", "data") if choices.get(key)}
        words |= {key: str(getattr(config, key)) for key in ("seq_len", "label_len", "pred_len")}
        usual = {key.name: key.default for key in fields(CsvSource) if key.name not in ("name", "path", "split")}
        own = {key: tuple(value) if isinstance(value, list) else value for key, value in config.data.node.items()}
        words |= {f"data.{key}": hydra_value(own[key]) for key in usual if key in own and own[key] != usual[key]}
    left_out = ("ckpt_path", "hydra.", *without)
    words = {key: value for key, value in words.items() if not key.startswith(left_out)}
    changed = {**({"data.path": config.data.path} if config.data.path else {}), **changes}
    kept = [shell_word(f"{key}={value}") for key, value in words.items() if key not in changed]
    return " ".join(["forecast train", *kept, *(typed(key, value) for key, value in changed.items())])
