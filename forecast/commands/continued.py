"""Whether the rows of a file continue those that were seen before: no hole, no other values, no other scale."""

from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.checkpoint.load import Checkpoint
from forecast.commands.growth import SAME
from forecast.commands.inputs import history
from forecast.data.cells import FloatArray
from forecast.data.frame import SeriesFrame
from forecast.data.frequency import future_timestamps, rows_missing
from forecast.data.scaling import Scaler
from forecast.data.sources import Source
from forecast.errors import UserError
from forecast.text.terminal import label

ANEW = "if it is right, begin anew in another folder: hydra.run.dir=FOLDER"
# A stretch of new rows is of another scale where its median lies so many standard deviations outside of all medians of
# stretches before, and its size, the mean of absolute values, is so many times that of the largest or under such a part
# of the smallest; or where it is under a part of TINY of the smallest. Units were changed then, and not the world.
FAR, TIMES, TINY = 10.0, 5.0, 0.02
STRETCHES = 8  # at least so many are wanted before
LEAST_ROWS = 7  # of a stretch, where there are fewer rows a day and more are new


def split_places(checkpoint: Checkpoint, frame: SeriesFrame) -> dict[str, range] | None:
    """The train and validation rows of a training in another frame; None where it does not hold all of both."""
    if missing := {"train", "val"} - checkpoint.data["splits"].keys():
        raise UserError(
            f"{checkpoint.path} knows of no {' and no '.join(sorted(missing))} rows, with which an update compares. "
            "Forecast with it by forecast predict."
        )
    place = int(frame.timestamps.get_indexer(pd.DatetimeIndex([checkpoint.data["trained_until"]]))[0])
    train, val = (range(*checkpoint.data["splits"][name]) for name in ("train", "val"))
    moved = place + 1 - train.stop
    rows = {name: range(part.start + moved, part.stop + moved) for name, part in (("train", train), ("val", val))}
    inside = place >= 0 and rows["train"].start >= 0 and rows["val"].stop <= len(frame)
    return rows if inside else None


def check_train_rows(checkpoint: Checkpoint, frame: SeriesFrame, splits: dict[str, range]) -> None:
    """UserError unless the train rows of a file have the mean and the deviation that they had in training."""
    now, then = checkpoint.scaler_of(frame, splits), checkpoint.scaler
    moved = np.maximum(np.abs(now.mean - then.mean), np.abs(now.std - then.std)) / then.std
    worst = int(moved.argmax())
    if moved[worst] > SAME:
        ratio = now.std[worst] / then.std[worst] if then.std[worst] else 1.0
        raise UserError(
            f"{frame.name} holds other values than those trained on: in the train rows, up to "
            f"{checkpoint.data['trained_until']}, column '{label(frame.columns[worst])}' has the mean "
            f"{now.mean[worst]:.6g} and had {then.mean[worst]:.6g}{_scale(ratio)}. Restore the file, or give the rows "
            "after the training alone."
        )


def first_rows(checkpoint: Checkpoint, source: Source, frame: SeriesFrame) -> tuple[SeriesFrame, int]:
    """The rows of the first update, the train and validation rows among them, and how many come after these.

    A file without these continues the data trained on.
    """
    splits = split_places(checkpoint, frame)
    if splits is None and frame.timestamps[-1] <= pd.Timestamp(checkpoint.trained_until):
        raise UserError(
            f"{frame.name} ends at {frame.timestamps[-1]}, and the model has learned from rows up to "
            f"{checkpoint.trained_until}: these are earlier rows. Give a file that goes on."
        )
    if splits is None:
        try:
            trained = history(checkpoint, source, None)
        except UserError as error:
            raise UserError(
                f"{frame.name} does not hold the rows that the model was trained on, and where these were they cannot "
                f"be read: {error} The first update needs them: give it the whole history once."
            ) from error
        splits = split_places(checkpoint, trained)
        if splits is None:
            raise UserError(
                f"{trained.name} no longer holds the train and validation rows of {checkpoint.path}, with which the "
                "first update compares. Restore it, or give the whole history once: data.path=FILE"
            )
        check_train_rows(checkpoint, trained, splits)
        whole, _ = joined(trained, frame, checkpoint.scaler.std)
    else:
        check_train_rows(checkpoint, frame, splits)
        whole = frame
    learned = int((whole.timestamps <= pd.Timestamp(checkpoint.trained_until)).sum())
    return whole, len(whole) - max(splits["val"].stop, learned)


def joined(seen: SeriesFrame, frame: SeriesFrame, std: FloatArray) -> tuple[SeriesFrame, int]:
    """The rows seen before and those of a file after them; how many of them are new. std: of the columns in training.

    UserError where the file ends before, leaves a hole, is off the grid of the rows seen, or holds other values.
    """
    name, last, first = frame.name, seen.timestamps[-1], frame.timestamps[0]
    if frame.timestamps[-1] < last:
        raise UserError(
            f"{name} ends at {frame.timestamps[-1]}, and rows up to {last} have been seen: these are earlier rows "
            "than before. Give the file that goes on."
        )
    if first > last and first != future_timestamps(last, frame.freq, 1)[0]:
        missing = rows_missing(pd.DatetimeIndex([last, first]), frame.freq)
        if missing is None:
            raise _off_grid(frame, first, last)
        raise UserError(
            f"{name} begins at {first}, and rows up to {last} have been seen: a hole of {missing} rows. Give a file "
            "that holds them too."
        )
    place = int(frame.timestamps.get_indexer(pd.DatetimeIndex([last]))[0]) if first <= last else -1
    if first <= last and place < 0:
        raise _off_grid(frame, frame.timestamps[frame.timestamps > last][0], last)
    both = min(place + 1, len(seen))
    if both:
        _check_same(seen.tail(both), frame.cut(slice(place + 1 - both, place + 1)), std)
    after = frame.cut(slice(place + 1, None))
    masks = [np.zeros(part.values.shape, bool) if part.missing is None else part.missing for part in (seen, after)]
    values = np.concatenate([seen.values, after.values])
    times = pd.DatetimeIndex(seen.timestamps.append(after.timestamps))
    return replace(frame, values=values, timestamps=times, missing=np.concatenate(masks)), len(after)


def _off_grid(frame: SeriesFrame, stamp: pd.Timestamp, last: pd.Timestamp) -> UserError:
    return UserError(
        f"{frame.name} has a row at {stamp}, which no step of '{frame.freq}' after {last}, the last row seen, reaches: "
        "another clock. Give times as in the rows before."
    )


def _check_same(seen: SeriesFrame, again: SeriesFrame, std: FloatArray) -> None:
    """UserError where rows that were seen before have other values now; what was filled in does not count."""
    other = np.abs(again.values - seen.values) > SAME * std
    measured = np.ones(other.shape, bool)
    for part in (seen, again):
        measured &= True if part.missing is None else ~part.missing
    other &= measured
    if not other.any():
        return
    column = int(other.sum(axis=0).argmax())
    rows = np.flatnonzero(other[:, column])
    before, now = seen.values[rows, column], again.values[rows, column]
    ratios = now[before != 0] / before[before != 0]
    alike = len(ratios) >= max(2, 0.9 * measured[:, column].sum()) and np.ptp(ratios) < 0.01 * np.abs(ratios).max()
    what = f"column '{label(seen.columns[column])}' is {now[0]:g} at {seen.timestamps[rows[0]]} and was {before[0]:g}"
    raise UserError(
        f"{again.name} overlaps with rows seen before and holds other values: {what}, in {len(rows)} of {len(seen)} "
        f"rows{_scale(float(np.median(ratios))) if alike else ''}. Restore it, or {ANEW}"
    )


def _scale(ratio: float) -> str:
    """What is said of values that are all the same multiple of what they were."""
    far = not 0.5 < abs(ratio) < 2.0 and np.isfinite(ratio)
    return f" ({ratio:.4g} times as large: another scale)" if far else ""


def rows_a_day(freq: str) -> int:
    """Rows of one day, at least one."""
    first, second = pd.date_range("2000-01-03", periods=2, freq=freq)
    return max(1, int(pd.Timedelta(days=1) / (second - first)))


def check_scale(frame: SeriesFrame, new: int, scaler: Scaler, columns: int) -> None:
    """UserError where one of the last `new` rows of a frame is of another scale than those before them.

    A sceptic's check, and no eager one: a level that moves by some standard deviations, or twice the swing, is what the
    watch is for. Stretches of a day are compared, or of what is new. scaler: of the training. columns: the first so
    many, which are measured.
    """
    before, after = (frame.values[rows][:, :columns] for rows in (slice(None, -new or None), slice(-new, None)))
    length = min(new, len(before) // STRETCHES, max(rows_a_day(frame.freq), LEAST_ROWS))
    if length == 0:
        return
    (medians, sizes), (median, size) = (_stretches(part, length) for part in (before, after))
    room = FAR * np.maximum(scaler.std[:columns], before.std(axis=0))
    low, high, smallest = medians.min(axis=0), medians.max(axis=0), sizes.min(axis=0)
    larger = (median > high + room) | (median < low - room)
    larger &= (size > TIMES * sizes.max(axis=0)) | (size < smallest / TIMES)
    far = larger | ((size > 0) & (size < TINY * smallest))
    far &= np.array([name not in frame.categories for name in frame.columns[:columns]])
    if far.any():
        one, c = np.argwhere(far)[0]
        which = f"of the {new} new rows {length} of column '{label(frame.columns[c])}'"
        had = f"stretches of {length} rows before them had {low[c]:.4g} to {high[c]:.4g}"
        raise UserError(
            f"{frame.name}: another scale: {which} have the median {median[one, c]:.4g}, and {had}. Give them in the "
            "units of before; if they are right: checks.scale=false"
        )


def _stretches(values: FloatArray, length: int) -> tuple[FloatArray, FloatArray]:
    """Medians and means of absolute values (n, C) of the last n stretches of so many rows."""
    count = len(values) // length
    stretches = values[len(values) - count * length :].reshape(count, length, -1)
    return np.median(stretches, axis=1), np.abs(stretches).mean(axis=1)
