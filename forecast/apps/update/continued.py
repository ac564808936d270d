"""Whether the rows of a file continue those that were seen before: no hole, no other values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from forecast.apps.common.seen_rows import changed_series
from forecast.checkpoint.load import Checkpoint
from forecast.data.panel import STEP_FREQ, PanelFrame
from forecast.data.values.calendar import rows_missing
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.errors import UserError
from forecast.text.terminal import label

SAME = 1e-6  # standard deviations, by which values of the same row may differ
ANEW = "if it is right, begin anew in another folder: hydra.run.dir=FOLDER"


@dataclass(frozen=True, kw_only=True, eq=False)
class Continued:
    """The rows seen before and those of a file after them.

    new (S,): how many of the last rows of each series are new. refused: why not, by the id of a series whose rows do
    not continue; it keeps those seen before, if there are any. unseen: ids of series that were not there before.
    """

    whole: PanelFrame
    new: IntArray
    refused: dict[str, str]
    unseen: list[str]

    @property
    def taken(self) -> Flags:
        """Which series (S,) are not refused."""
        flags: Flags = ~np.isin(self.whole.ids, list(self.refused))
        return flags


def first_rows(checkpoint: Checkpoint, frame: PanelFrame) -> Continued:
    """The rows of the first update, the train and validation rows among them; new are those after these."""
    recorded = checkpoint.record.series.rows
    if missing := {"train", "val"} - recorded.splits.keys():
        raise UserError(
            f"{checkpoint.path} knows of no {' and no '.join(sorted(missing))} rows, with which an update compares. "
            "Forecast with it by forecast predict."
        )
    wrong = {
        name: f"{reason}. The first update needs the whole history, as it was in training."
        for name, reason in changed_series(checkpoint, frame, "val").items()
    }
    whole = without(frame, wrong)
    placed = recorded.placed(whole, checkpoint.scale.places(whole.ids))
    learned = {"val", *(checkpoint.refit["rows"] if checkpoint.refit is not None else ())}
    new = np.maximum(0, whole.offsets[1:] - np.max([placed[name].stop for name in learned], axis=0))
    return with_absent(checkpoint, frame, Continued(whole=whole, new=new, refused=wrong, unseen=[]))


def next_rows(checkpoint: Checkpoint, seen: PanelFrame, frame: PanelFrame) -> Continued:
    """The rows of a further update. A series that was trained on and not seen yet must be as it was then."""
    added, wrong = np.flatnonzero(~np.isin(frame.ids, seen.ids)), dict[str, str]()
    if added.size:
        changed = changed_series(checkpoint, frame.take(added), "val")
        wrong = {name: f"{reason}. Restore the file." for name, reason in changed.items()}
    continued = joined(seen, without(frame, wrong), checkpoint.scales_of(seen).std)
    return with_absent(checkpoint, frame, replace(continued, refused={**wrong, **continued.refused}))


def without(frame: PanelFrame, wrong: Mapping[str, str]) -> PanelFrame:
    """The other series of a frame. wrong: why not, by their ids. UserError where there are no others."""
    right = np.flatnonzero(~np.isin(frame.ids, list(wrong)))
    if not right.size:
        raise UserError(next(iter(wrong.values())))
    return frame.take(right) if wrong else frame


def with_absent(checkpoint: Checkpoint, frame: PanelFrame, continued: Continued) -> Continued:
    """With the series among those refused that were trained on or seen, and are not there. UserError where none is."""
    gaps = {name: reason for reason, names in frame.left_out.items() for name in names}
    refused = dict(continued.refused)
    for name in (*continued.whole.ids.tolist(), *checkpoint.scale.ids.tolist()):
        if name not in frame.id_numbers:
            gap = gaps.get(name)
            reason = f"has {gap}" if gap else "is not there. Give a file that holds it too, from the last row seen on"
            refused[name] = f"{frame.name}, series '{label(name)}' {reason}."
    continued = replace(continued, refused=refused)
    if not continued.taken.any():
        raise UserError(next(iter(refused.values())))
    return continued


def joined(seen: PanelFrame, frame: PanelFrame, std: FloatArray) -> Continued:
    """The rows seen before and those of a file after them. std (S, C): of the series seen, in training.

    UserError for a file whose rows lie beside the steps of those seen.
    """
    distance = steps_between(seen, frame)
    before, now = seen.id_numbers, frame.id_numbers
    ids = [*before, *(name for name in now if name not in before)]
    count, places = len(seen), np.array([now.get(name, -1) for name in ids])
    there, own = places >= 0, np.arange(len(ids)) < count
    begin = np.where(there, frame.steps[places] + distance, 0)  # in steps of `seen`, as all that follows
    end = begin + np.where(there, frame.lengths[places], 0)
    first, last = begin.copy(), begin.copy()  # of a series that was not seen: no row before its own
    first[:count], last[:count] = seen.steps, seen.steps + seen.lengths
    low, high = np.maximum(first, begin)[:count], np.minimum(last, end)[:count]
    sizes = np.where(there[:count], np.maximum(0, high - low), 0)
    rows = ranges(seen.offsets[:-1] + low - seen.steps, sizes)
    again = ranges(frame.offsets[:-1][places[:count]] + low - begin[:count], sizes)
    both = np.ones((len(rows), len(seen.columns)), dtype=bool)  # what was filled in does not count
    for part, numbers in ((seen, rows), (frame, again)):
        both &= True if part.measured is None else np.asarray(part.measured[numbers])
    far = np.abs(frame.values[again] - seen.values[rows]) > SAME * np.repeat(std, sizes, axis=0)
    other = both & far
    changed = np.zeros(len(ids), dtype=bool)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    changed[np.searchsorted(edges, np.flatnonzero(other.any(axis=1)), side="right") - 1] = True
    refused = {}
    for s in np.flatnonzero(own & there & ((end < last) | (begin > last) | changed)).tolist():
        until = seen.calendar()[int(last[s]) - 1]
        if end[s] < last[s]:
            reason = (
                f"ends at {frame.timestamps(int(places[s]))[-1]}, and rows up to {until} have been seen: these are "
            )
            reason += "earlier rows than before. Give the file that goes on."
        elif begin[s] > last[s]:
            reason = (
                f"begins at {frame.timestamps(int(places[s]))[0]}, and rows up to {until} have been seen: a hole of "
            )
            reason += f"{begin[s] - last[s]} rows. Give a file that holds them too."
        else:
            some = slice(edges[s], edges[s + 1])
            column = int(other[some].sum(axis=0).argmax())
            differ = np.flatnonzero(other[some][:, column])
            before, now = seen.values[rows[some]][differ[0], column], frame.values[again[some]][differ[0], column]
            time = seen.timestamps(s)[low[s] - first[s] :][differ[0]]
            reason = "overlaps with rows seen before and holds other values: column "
            reason += f"'{label(seen.columns[column])}' is {now:g} at {time} and was {before:g}, in {len(differ)} of "
            reason += f"{sizes[s]} rows. Restore it, or {ANEW}"
        refused[ids[s]] = f"{frame.named(int(places[s]))} {reason}"
    right = there & ~np.isin(ids, list(refused))
    counts = np.stack([np.where(own, last - first, 0), np.where(right, end - last, 0)], axis=1)
    starts = np.stack([np.zeros(len(ids), dtype=np.int64), len(seen.values) + frame.offsets[:-1][places]], axis=1)
    starts[:count, 0] = seen.offsets[:-1]
    starts[:, 1] += last - begin
    taken = ranges(starts.ravel(), counts.ravel())
    masks = [np.ones(f.values.shape, bool) if f.measured is None else f.measured for f in (seen, frame)]
    earliest = min(0, distance)
    whole = replace(
        frame,
        values=np.concatenate([seen.values, frame.values])[taken],
        measured=np.concatenate(masks)[taken] if any(f.measured is not None for f in (seen, frame)) else None,
        offsets=np.concatenate([[0], np.cumsum(counts.sum(axis=1))]),
        steps=first - earliest,
        ids=np.array(ids),
        first=frame.first if earliest else seen.first,
        numbers=frame.numbers if earliest else seen.numbers,
        facts=None if frame.facts is None else frame.facts.of(places),
    )
    return Continued(whole=whole, new=counts[:, 1], refused=refused, unseen=ids[count:])


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """counts[i] numbers from starts[i] on, one after another."""
    numbers: IntArray = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return numbers


def steps_between(seen: PanelFrame, frame: PanelFrame) -> int:
    """How many steps after that of `seen` the calendar of `frame` begins. UserError where no step leads there."""
    ends = [int(panel.times()[0]) for panel in (seen, frame)]
    if ends[0] == ends[1]:
        return 0
    if seen.freq == STEP_FREQ:
        unit = seen.numbers[1]
        steps = None if frame.numbers[1] != unit or (ends[1] - ends[0]) % unit else abs(ends[1] - ends[0]) // unit
    else:
        missing = rows_missing(pd.DatetimeIndex(np.sort(ends).astype("datetime64[ns]")), seen.freq)
        steps = None if missing is None else missing + 1
    if steps is not None:
        return steps if ends[1] > ends[0] else -steps
    last, calendar = seen.calendar()[-1], frame.calendar()
    if calendar[-1] <= last:
        raise UserError(
            f"{frame.name} ends at {calendar[-1]}, and rows up to {last} have been seen: these are earlier rows than "
            "before. Give the file that goes on."
        )
    raise UserError(
        f"{frame.name} has a row at {calendar[calendar > last][0]}, which no step of '{frame.freq}' after {last}, the "
        "last row seen, reaches: another clock. Give times as in the rows before."
    )
