"""A file that has grown since it was trained on: whether its earlier rows are the same, which are new, what to do."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.checkpoint.load import Checkpoint
from forecast.data.frame import SeriesFrame
from forecast.data.guessing.train_command import hydra_value, typed
from forecast.data.reading.file_bytes import begins_with
from forecast.data.sources import CsvSource
from forecast.errors import UserError
from forecast.run_folder import read_run, run_of
from forecast.text.terminal import label, shell_word

log = logging.getLogger(__name__)

NEW_ROWS, WHOLE_FILE = "new", "all"
SAME = 1e-6  # standard deviations: what a file written anew by another program may round off


def has_grown(checkpoint: Checkpoint, path: Path | None) -> bool:
    """Whether the file trained on begins with the bytes that it had then, and goes on."""
    return path is not None and path.is_file() and begins_with(path, checkpoint.data["checksum"])


def new_rows(checkpoint: Checkpoint, frame: SeriesFrame, path: Path | None) -> range:
    """The rows of a file that it has got since training: those after the last stored split.

    frame: of the file as it is now. path: None for data that are no file. Raises UserError where the rows trained on
    are not its beginning, and for fewer rows than one window forecasts.
    """
    if path is None:
        raise UserError(f"split={NEW_ROWS}: {frame.name} is made up, and gets no new rows. Choose split=test.")
    end = max(int(stop) for _, stop in checkpoint.data["splits"].values())
    if len(frame) < end:
        raise UserError(
            f"split={NEW_ROWS}: {frame.name} has {len(frame)} rows, and had at least {end} at training: this is "
            "another file, to evaluate with split=all."
        )
    if checkpoint.data["checksum"] != frame.checksum and not has_grown(checkpoint, path):
        _check_train_rows(checkpoint, frame)
    rows, needed = range(end, len(frame)), checkpoint.config.pred_len
    if len(rows) < needed:
        raise UserError(
            f"split={NEW_ROWS}: {frame.name} has {len(rows)} rows after {frame.timestamps[end - 1]}, the last one of "
            f"the splits that the model was trained with; one window needs pred_len = {needed}. Evaluate when "
            f"{needed - len(rows)} more are there, or those before: split=test."
        )
    log.info(
        "split=%s: the %d rows from %s on, which the training had not.", NEW_ROWS, len(rows), frame.timestamps[end]
    )
    return rows


def _check_train_rows(checkpoint: Checkpoint, frame: SeriesFrame) -> None:
    """UserError unless the train rows have the end, the mean and the deviation that they had; a warning if they do."""
    splits = {name: range(*rows) for name, rows in checkpoint.data["splits"].items()}
    last, expected = frame.timestamps[splits["train"].stop - 1], pd.Timestamp(checkpoint.data["trained_until"])
    instead = f"Restore it, or evaluate it as another file: {typed('data.path', frame.name)} split=all"
    if last != expected:
        raise UserError(
            f"split={NEW_ROWS}: {frame.name} does not begin with the rows that the model was trained on: row "
            f"{splits['train'].stop}, the last train row, is now at {last} instead of {expected}. {instead}"
        )
    now, then = checkpoint.scaler_of(frame, splits), checkpoint.scaler
    moved = np.maximum(np.abs(now.mean - then.mean), np.abs(now.std - then.std)) / then.std
    if moved.max() > SAME:
        worst = int(moved.argmax())
        raise UserError(
            f"split={NEW_ROWS}: {frame.name} does not begin with the rows that the model was trained on: column "
            f"'{label(frame.columns[worst])}' has the mean {now.mean[worst]:.6g} in the train rows, and had "
            f"{then.mean[worst]:.6g}. {instead}"
        )
    log.warning(
        "%s does not begin with the bytes that were trained on. Its train rows have the same times, means and standard "
        "deviations; whether the rows of val and test are the same cannot be told.",
        frame.name,
    )


def what_now(checkpoint: Checkpoint, path: Path | None) -> str:
    """What can be done with a file that has grown: a sentence, and a command on each of three lines.

    path: of the file, which the commands name where it is another one than that trained on.
    """
    before = checkpoint.config.data.path
    moved = path is not None and before is not None and path.resolve() != Path(before).resolve()
    named = {"data.path": str(path)} if moved else {}
    words = " ".join(typed(*item) for item in {"ckpt_path": str(checkpoint.path), **named}.items())
    commands = (
        train_again(checkpoint, **named),
        f"forecast evaluate {words} split={NEW_ROWS}",
        f"forecast predict {words}",
    )
    return "\n    ".join(
        ["Train on all its rows, see how good the model is on the new ones, or forecast what follows:", *commands]
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
