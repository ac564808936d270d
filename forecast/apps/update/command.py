"""What `forecast update` does: keeps forecasts up, compares them with what came, says when the model has grown old."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from forecast.apps.common.command import Answer
from forecast.apps.common.continuation import (
    continuation_of,
    forecast_table,
    history_source,
    report_far_series,
    report_left_out,
)
from forecast.apps.common.future import future_source, future_values
from forecast.apps.common.inputs import find_device, rows_of
from forecast.apps.common.intervals import wanted
from forecast.apps.common.outputs import keep_others
from forecast.apps.common.results import LoadedModel
from forecast.apps.common.seen_rows import train_again
from forecast.apps.update.continued import Continued, first_rows, next_rows
from forecast.apps.update.state import (
    LATEST,
    LOG,
    STATE,
    Issued,
    State,
    figures,
    first_line,
    first_row,
    next_line,
    read_state,
    save_state,
)
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.check import read_settings
from forecast.config.compose import run_folder
from forecast.config.settings import UpdateSettings
from forecast.data.panel import PanelFrame
from forecast.data.prepare import prepare
from forecast.data.sources import CsvSource, Source
from forecast.data.writing import SeriesForecasts
from forecast.errors import UserError
from forecast.evaluation.predict import split_ends
from forecast.evaluation.scored_intervals import Intervals
from forecast.evaluation.watch import CHARTS, Reference, reference
from forecast.report.updates import alarm_sentences, figures_sentence
from forecast.run_folder import sha256
from forecast.text.terminal import label, say

log = logging.getLogger(__name__)

KEPT, KEPT_OF_ALL = 5000, 5_000_000  # rows of the past of a series, at least: with them overlapping rows are compared
VAL = "val"


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """What an update is given: the model, the rows of a file, and what is kept from the update before.

    frame: the file. continued: the rows seen and those of the file; new are, of the first update, those after the
    validation rows.
    """

    loaded: LoadedModel
    source: Source
    settings: UpdateSettings
    intervals: Intervals | None
    frame: PanelFrame
    continued: Continued
    state: State | None

    @property
    def checkpoint(self) -> Checkpoint:
        """The model's."""
        return self.loaded.checkpoint

    @property
    def levels(self) -> tuple[float, ...]:
        """Of the intervals."""
        return () if self.intervals is None else self.intervals.wanted_levels

    @property
    def goes_on(self) -> bool:
        """Whether there is something to forecast anew."""
        return self.state is None or bool(self.continued.new.any())


def update(cfg: DictConfig) -> Answer:
    """Reads what has come, compares the former forecasts with it, forecasts what comes next, and says how it stands.

    Whatever kills it, the same command goes on; the same file again changes nothing. Raises UserError for rows that do
    not continue those before, of many series where no series' do, and for whatever else the user can mend.
    """
    settings, folder = read_settings(cfg, UpdateSettings), run_folder()
    find_device(settings.device)
    given = read(settings, folder)
    state = next_state(given) if given.state is None or given.goes_on else given.state
    save_state(folder, state)  # of the same rows too: it puts back what somebody has deleted
    return answer(given, state, folder)


def read(settings: UpdateSettings, folder: Path) -> Given:
    """The model, the state before and the rows that have come since, which continue it."""
    loaded = LoadedModel.load(settings.ckpt_path, device=settings.device, root=settings.data.root)
    checkpoint = loaded.checkpoint
    source, key = loaded.source(), f"hydra.run.dir={folder}"
    state = read_state(folder)
    if state is None:
        keep_others(
            map(folder.joinpath, (LATEST, LOG, STATE)),
            ours=False,
            key=key,
            like="of an update",
            fix="choose another folder",
        )
    elif state.checkpoint != sha256(checkpoint.path):
        raise UserError(
            f"{key} holds the updates of another checkpoint than {checkpoint.path}. Begin anew in another folder: "
            "hydra.run.dir=FOLDER"
        )
    intervals = wanted(checkpoint, how="static", level=None if state is None else state.levels)
    frame = rows_of(checkpoint, source, settings.data.path, settings.data.reading(), leave_out=True)
    continued = next_rows(checkpoint, state.seen, frame) if state else first_rows(checkpoint, frame)
    return Given(
        loaded=loaded,
        source=source,
        settings=settings,
        intervals=intervals,
        frame=frame,
        continued=continued,
        state=state,
    )


def next_state(given: Given) -> State:
    """The state after the rows that have come: compared with what was forecast of them, and the next forecast."""
    checkpoint, before, continued, levels = given.checkpoint, given.state, given.continued, given.levels
    whole = continued.whole
    beside = before.reference if before is not None else first_reference(given.loaded, whole, levels)
    ends, text = forecast(given.loaded, given.source, given.settings, continued, levels)
    issued = as_issued(checkpoint, whole, ends, beside, levels)
    ends_at = np.where(continued.taken, whole.steps + whole.lengths, 0)
    time = whole.end(int(ends_at.argmax()))
    if before is None:
        issued = issued.of(issued.watched).and_then(issued, watch=True)
        totals = np.full((1, len(CHARTS)), np.nan)
        log = [first_line(time, levels)]
    else:
        line, totals, over = next_line(time, checkpoint, before, continued)
        last = first_row(whole, before.issued) + issued.values.shape[1] - 1
        open_still = (last >= whole.offsets[1:][before.issued.series]) | (before.issued.watched & (not over))
        fresh = issued.of(continued.new[issued.series] > 0)
        issued = before.issued.of(open_still).and_then(fresh, watch=over)
        log = [*before.log, line]
    needed = (checkpoint.model().look_back, beside.period, issued.values.shape[1] + int(continued.new.max()))
    kept = max(min(KEPT, KEPT_OF_ALL // len(whole)), *needed)
    seen = whole.tail(kept)
    return State(
        checkpoint=sha256(checkpoint.path),
        levels=levels,
        reference=replace(beside, expected=beside.expected.with_series(len(whole))),
        seen=seen,
        issued=issued.of(issued.cutoff >= seen.times()[seen.steps][issued.series]),
        totals=totals,
        log=log,
        latest=text,
    )


def answer(given: Given, state: State, folder: Path) -> Answer:
    """Prints how it stands after an update, and gives the same as a document."""
    continued, line, latest = given.continued, state.log[-1], folder / LATEST
    new = 0 if given.state is None else int(continued.new[: len(given.state.seen)].sum())
    many = "" if continued.whole.id_column is None else f" of {len(continued.whole)} series"
    sentences = []
    if refused := list(continued.refused.values()):
        of = f"{len(refused)} of {len(continued.whole)} series are refused and not forecast"
        sentences.append(f"{of}, the first: {refused[0]} --json has all." if refused[1:] else f"{of}: {refused[0]}")
    if continued.unseen:
        sentences.append(
            f"{len(continued.unseen)} of {len(continued.whole)} series are new, the first is "
            f"'{label(continued.unseen[0])}': scaled by their own history, and compared from now on."
        )
    if not given.goes_on:
        sentences.append(f"Nothing new: {given.frame.name} ends at {line['time']}, as before. The forecast stands.")
    else:
        rows = "The first update" if given.state is None else f"{new} new rows"
        steps = state.issued.values.shape[1]
        sentences.append(f"{rows}{many}, up to {line['time']}; the {steps} steps after them are in {LATEST}.")
    if line["values"]:
        where = f"Forecasts of these rows, {line['values']} values"
        sentences.append(figures_sentence(figures(line), baseline=state.reference.baseline, where=where))
    level = state.levels[0] if state.levels else None
    grown_old = alarm_sentences(state.log, baseline=state.reference.baseline, level=level)
    again = None
    if grown_old:
        again = again_command(given)
        sentences += [*grown_old, f"Time to train again: {again}"]
    for sentence in sentences:
        say(sentence)
    log.info("Everything about these updates is in %s", folder)
    document: dict[str, object] = {
        "status": "updated" if given.goes_on else "nothing_new",
        "folder": str(folder),
        "checkpoint": str(given.checkpoint.path),
        "output": str(latest),
        "time": line["time"],
        "rows_new": new,
        "updates": len(state.log),
        "baseline": state.reference.baseline,
        "last": {"values": line["values"], **figures(line)},
        "cusum": line["totals"],
        "alarms": line["alarms"],
        "series": {
            "count": len(continued.whole),
            "refused": len(continued.refused),
            "unseen": len(continued.unseen),
        },
        "refused": continued.refused,
        "sentences": sentences,
        "train_again": again,
    }
    return Answer(document)


def again_command(given: Given) -> str:
    """The training that is due, on the file given; of new rows alone on that trained on, to which they belong."""
    checkpoint, path, reading = given.checkpoint, given.settings.data.path, given.settings.data.reading()
    changes: dict[str, object] = {}
    places = checkpoint.scale.places(given.frame.ids)
    begins = checkpoint.record.series.rows.begins(given.frame, places)
    if path and (begins[places >= 0] >= 0).all():  # the rows trained on are there
        changes = {"data.path": path, **{f"data.{key}": value for key, value in reading.items()}}
        if not isinstance(given.source, CsvSource):
            return train_again(checkpoint, without=("data",), **{"data": "csv", **changes})
    return train_again(checkpoint, without=(), **changes)


def targets_of(checkpoint: Checkpoint, frame: PanelFrame) -> tuple[int, ...]:
    """The numbers of the target columns in a frame."""
    return tuple(frame.columns.index(name) for name in checkpoint.data["targets"])


def first_reference(loaded: LoadedModel, whole: PanelFrame, levels: tuple[float, ...]) -> Reference:
    """What the validation rows have shown; of a refitted model, which has learned from them, of the held-out one."""
    checkpoint, device = loaded.checkpoint, loaded.device
    held_out = checkpoint
    if checkpoint.refit is not None:
        held_out = load_checkpoint(checkpoint.path.with_name("best.ckpt"))
    rows = checkpoint.record.series.rows.placed(whole, checkpoint.scale.places(whole.ids))
    data = prepare(
        whole,
        splits={name: rows[name] for name in ("train", VAL)},
        targets=targets_of(checkpoint, whole),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
        encoding=checkpoint.encoding,
        scaler=checkpoint.scales_of(whole),
        season=checkpoint.data.get("season"),
        covariates=checkpoint.covariates,
        hidden=checkpoint.hidden,
        fact_scale=checkpoint.fact_scale,
        pad=checkpoint.record.series.pad,
    )
    intervals = wanted(held_out, how="static", level=levels)
    return reference(held_out.model().to(device), data, split=VAL, device=device, intervals=intervals)


def forecast(
    loaded: LoadedModel, source: Source, settings: UpdateSettings, continued: Continued, levels: tuple[float, ...]
) -> tuple[SeriesForecasts, str]:
    """The steps after the last row of each series that is not refused and is long enough, and their text."""
    checkpoint, reading = loaded.checkpoint, settings.data.reading()
    taken = np.flatnonzero(continued.taken)
    frame, file = continued.whole.take(taken), history_source(source, settings.data.path, reading)
    model, device = checkpoint.model().to(loaded.device), loaded.device
    ahead = continuation_of(checkpoint, model, frame, device=device, level=levels)
    if checkpoint.covariates:
        later = future_source(checkpoint, source, settings.future, reading)
        ahead = replace(ahead, future=future_values(checkpoint, file, frame, ahead.series, later))
    report_left_out(ahead)
    blocks, table = list(ahead.blocks(0, len(ahead.series))), forecast_table(checkpoint, file, frame, levels)
    report_far_series(ahead, [number for block in blocks for number in block.far])
    series, values = (np.concatenate(parts) for parts in zip(*(block[:2] for block in blocks), strict=True))
    text = table.header_text() + "".join(table.text(block.series, block.values) for block in blocks)
    return SeriesForecasts(taken[series], values), text


def as_issued(
    checkpoint: Checkpoint, whole: PanelFrame, ends: SeriesForecasts, beside: Reference, levels: tuple[float, ...]
) -> Issued:
    """Forecasts as they are kept until their truth has come, with what the baseline says of the same steps."""
    targets, (count, steps, _) = list(targets_of(checkpoint, whole)), ends.values.shape
    by_level = split_ends(ends.values, len(targets), levels)[::-1]
    nothing = np.empty((count, 0, steps, len(targets)))
    lower, upper = (np.stack([level[i] for level in by_level], axis=1) if by_level else nothing for i in (1, 2))
    end, lengths = whole.offsets[1:][ends.series], whole.lengths[ends.series]
    period = np.minimum(beside.period, lengths)[:, None]
    past = (end[:, None] - period) + np.arange(steps) % period
    return Issued(
        series=ends.series,
        cutoff=whole.times()[(whole.steps + whole.lengths)[ends.series] - 1],
        watched=np.zeros(count, dtype=bool),
        values=ends.values[..., : len(targets)],
        baseline=whole.values[past][..., targets],
        lower=lower,
        upper=upper,
    )
