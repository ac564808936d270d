"""A file that has grown since it was trained on: whether its earlier rows are the same, which are new, what to do."""

import logging
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from forecast.checkpoint.load import Checkpoint
from forecast.data.panel import PanelFrame
from forecast.data.sources import CsvSource, Source
from forecast.data.split import TargetRows
from forecast.errors import UserError
from forecast.run_folder import read_run, run_of
from forecast.text.overrides import hydra_value, typed
from forecast.text.terminal import label, shell_word

log = logging.getLogger(__name__)

NEW_ROWS, WHOLE_FILE = "new", "all"
SAME = 1e-6  # standard deviations: what tells in words; rows trained on have a hash, and are the same to the bit


def has_grown(checkpoint: Checkpoint, frame: PanelFrame) -> bool:
    """Whether a frame has the rows of every series trained on, unchanged, and more."""
    places, recorded = checkpoint.scale.places(frame.ids), checkpoint.record.series.rows
    known = places >= 0
    same = known.sum() == len(checkpoint.scale.ids) and bool(recorded.same(frame, places)[known].all())
    return same and len(frame.values) > recorded.ends.sum()


def trained_splits(checkpoint: Checkpoint, source: Source, frame: PanelFrame) -> dict[str, TargetRows]:
    """The splits of the training in the rows of the data trained on, as they are now.

    Raises UserError when they are no longer what they were.
    """
    now, expected, path = source.checksum_of(frame), checkpoint.data["checksum"], source.path_used()
    if now != expected and has_grown(checkpoint, frame):
        raise UserError(
            f"{path} has grown since the model was trained on it: the file has changed, and with it its splits. "
            f"{what_now(checkpoint, path)}"
        )
    if now != expected:
        raise UserError(
            f"{path}: checksum {now}, but the model was trained on {expected}: the file has changed, and with it its "
            f"splits. Restore it, or evaluate it as another file: {typed('data.path', str(path))} split=all"
        )
    return checkpoint.record.series.rows.placed(frame, checkpoint.scale.places(frame.ids))


def grown_splits(checkpoint: Checkpoint, frame: PanelFrame) -> dict[str, TargetRows]:
    """The splits of the training in the rows of a frame and, as the split `new`, the rows after them.

    Of a series that was not trained on all rows are new. Raises UserError where the rows trained on are not the
    beginning of each series, and where no series has new rows for a window.
    """
    if frame.checksum is None:
        raise UserError(f"split={NEW_ROWS}: {frame.name} is made up, and gets no new rows. Choose split=test.")
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
    """The ids of series whose rows are not those trained on, and what is other, in words.

    split: up to the end of which rows are compared; None: of the last.
    """
    places, recorded = checkpoint.scale.places(frame.ids), checkpoint.record.series.rows
    wrong = np.flatnonzero((places >= 0) & ~recorded.same(frame, places, split))
    if not wrong.size:
        return {}
    begin = recorded.begins(frame, places)
    ends = (recorded.ends if split is None else recorded.splits[split][:, 1])[places]
    low, high = frame.offsets[:-1], frame.offsets[1:]
    inside = {k: TargetRows(*np.clip([r.first, r.stop], low, high)) for k, r in recorded.placed(frame, places).items()}
    now, then = checkpoint.scales_fitted(frame, inside), checkpoint.scales_of(frame)
    moved = np.maximum(np.abs(now.mean - then.mean), np.abs(now.std - then.std)) / then.std
    reasons = {}
    for s in wrong.tolist():
        column = int(moved[s].argmax())
        rows = int(high[s] - max(begin[s], low[s]))
        if begin[s] < 0:
            reason = f"begins at {frame.timestamps(s)[0]}, and not with the rows trained on: this is another file"
        elif rows < ends[s]:
            reason = f"has {rows} rows, and had at least {ends[s]} at training: this is another file"
        else:
            reason = "holds other values than those trained on"
            if moved[s, column] > SAME:
                reason += (
                    f": in the train rows column '{label(frame.columns[column])}' has the mean "
                    f"{now.mean[s, column]:.6g} and had {then.mean[s, column]:.6g}"
                    f"{of_scale(now.std[s, column] / then.std[s, column])}"
                )
        reasons[str(frame.ids[s])] = f"{frame.named(s)} {reason}"
    return reasons


def of_scale(ratio: float) -> str:
    """What is said of values that are all the same multiple of what they were."""
    far = not 0.5 < abs(ratio) < 2.0 and np.isfinite(ratio)
    return f" ({ratio:.4g} times as large: another scale)" if far else ""


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
