"""What `forecast update` does: keeps a forecast up, compares it with what came, says when the model has grown old."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import DictConfig

from forecast.checkpoint.load import Checkpoint
from forecast.commands import Answer
from forecast.commands.continued import check_scale, first_rows, joined, split_places
from forecast.commands.forecaster import Forecaster
from forecast.commands.future import FUTURE
from forecast.commands.growth import train_again
from forecast.commands.inputs import files_read, find_device, history
from forecast.commands.intervals import levels_of, wanted, written
from forecast.commands.outputs import keep_inputs, keep_others
from forecast.commands.update_errors import first_line, next_line, row_of
from forecast.commands.update_forecast import as_issued, first_reference, forecast_text
from forecast.commands.update_state import LATEST, LOG, STATE, State, figures, read_state, save_state, so_far
from forecast.config.check import read_settings
from forecast.config.job import run_folder
from forecast.config.settings import UpdateSettings
from forecast.data.frame import SeriesFrame
from forecast.data.sources import FileSource, Source
from forecast.errors import UserError
from forecast.evaluation.scored_intervals import Intervals
from forecast.report.updates import alarm_sentences, figures_sentence
from forecast.run_folder import sha256
from forecast.text.terminal import say

log = logging.getLogger(__name__)

KEPT = 5000  # rows of the past, at least: with them overlapping rows are compared


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """What an update is given: the model, the file with its rows, and what is kept from the update before.

    frame: the file. new: how many rows of `whole`, the rows seen and those of the file, are new; of the first update
    those after the validation rows.
    """

    forecaster: Forecaster
    source: Source
    settings: UpdateSettings
    intervals: Intervals | None
    frame: SeriesFrame
    whole: SeriesFrame
    new: int
    state: State | None

    @property
    def checkpoint(self) -> Checkpoint:
        """The model's."""
        return self.forecaster.checkpoint

    @property
    def levels(self) -> tuple[float, ...]:
        """Of the intervals."""
        return () if self.intervals is None else self.intervals.asked


def update(cfg: DictConfig) -> Answer:
    """Reads what has come, compares the former forecasts with it, forecasts what comes next, and says how it stands.

    Whatever kills it, the same command goes on; the same file again changes nothing. Raises UserError for rows that do
    not continue those before, and for whatever else the user can mend.
    """
    settings, folder = read_settings(cfg, UpdateSettings), run_folder()
    find_device(settings.device)
    given = read(settings, folder)
    state = given.state
    if state is None or given.new:
        state = next_state(given)
    save_state(folder, state)  # of the same rows too: it puts back what somebody has deleted
    return told(given, state, folder)


def read(settings: UpdateSettings, folder: Path) -> Given:
    """The model, the state before and the rows that have come since, which continue it."""
    reading = settings.data.reading()
    forecaster = Forecaster.load(settings.ckpt_path, device=settings.device, root=settings.data.root)
    checkpoint = forecaster.checkpoint
    if checkpoint.has_ids:
        raise UserError(
            f"ckpt_path={settings.ckpt_path} was trained on a panel, and an update is of one series. Forecast it with "
            f"forecast predict, and look back with forecast backtest ckpt_path={settings.ckpt_path}"
        )
    source, key = forecaster.source(), f"hydra.run.dir={folder}"
    outputs = [folder / name for name in (LATEST, LOG, STATE)]
    keep = files_read(checkpoint, path=settings.data.path, root=settings.data.root)
    keep_inputs(outputs, [*keep, (FUTURE, settings.future)], key=key)
    state = read_state(folder)
    if state is None:
        keep_others(outputs, ours=False, key=key, like="of an update", fix="choose another folder")
    elif state.checkpoint != sha256(checkpoint.path):
        raise UserError(
            f"{key} holds the updates of another checkpoint than {checkpoint.path}. Begin anew in another folder: "
            "hydra.run.dir=FOLDER"
        )
    intervals = intervals_of(checkpoint, settings, state)
    frame = history(checkpoint, source, settings.data.path, reading)
    if state is not None:
        check_state(state, checkpoint, frame, path=folder / STATE)
    if state is None:
        whole, new = first_rows(checkpoint, source, frame)
    else:
        whole, new = joined(state.seen, frame, checkpoint.scaler.std)
    if settings.checks.scale:
        check_scale(whole, new, checkpoint.scaler, len(whole.columns) - len(checkpoint.covariates))
    return Given(
        forecaster=forecaster,
        source=source,
        settings=settings,
        intervals=intervals,
        frame=frame,
        whole=whole,
        new=new,
        state=state,
    )


def check_state(state: State, checkpoint: Checkpoint, frame: SeriesFrame, *, path: Path) -> None:
    """UserError for a state that says that it is of this checkpoint, and is not."""
    seen, shape = state.seen, (checkpoint.config.pred_len, len(checkpoint.data["targets"]))
    same = (seen.columns, seen.freq) == (frame.columns, frame.freq) and state.issued[-1].values.shape == shape
    if not same or state.reference.period > len(seen):
        raise UserError(
            f"{path} is not of this checkpoint, by its columns, its frequency or its lengths. Restore it, or begin "
            "anew in another folder: hydra.run.dir=FOLDER"
        )


def intervals_of(checkpoint: Checkpoint, settings: UpdateSettings, state: State | None) -> Intervals | None:
    """Those of the updates before; of the first as asked for, or as in training. UserError for others than before."""
    level = settings.level
    if state is not None:
        if level is not None and levels_of(level) != state.levels:
            raise UserError(
                f"level={written(level)}: the updates before have {written(state.levels)}. Leave level out, or begin "
                "anew in another folder: hydra.run.dir=FOLDER"
            )
        level = state.levels
    return wanted(checkpoint, how="static", level=level)


def next_state(given: Given) -> State:
    """The state after the rows that have come: compared with what was forecast of them, and the next forecast."""
    checkpoint, before, whole, levels = given.checkpoint, given.state, given.whole, given.levels
    beside = before.reference if before is not None else first_reference(given.forecaster, whole, levels)
    table = forecast(given)
    issued = as_issued(checkpoint, whole, table, beside, levels)
    steps, last, time = len(table), len(whole) - 1, time_before(table, issued.cutoff)
    if before is None:
        watch, log, waiting = issued.cutoff, [{"time": time, **first_line(levels)}], []
    else:
        line, met = next_line(checkpoint, before, whole, given.new)
        watch, log = issued.cutoff if met else before.watched, [*before.log, {"time": time, **line}]
        waiting = [one for one in before.issued if row_of(whole, one.cutoff) + steps > last]
    path, reading = given.settings.data.path, given.settings.data.reading()
    text = forecast_text(checkpoint, given.source, given.frame, table, levels, path=path, reading=reading)
    kept = max(KEPT, checkpoint.model().look_back, beside.period, steps + given.new)
    return State(
        checkpoint=sha256(checkpoint.path),
        levels=levels,
        reference=beside,
        seen=whole.tail(kept),
        issued=[*waiting, issued],
        watched=watch,
        log=log,
        latest=text,
    )


def time_before(table: pd.DataFrame, cutoff: pd.Timestamp) -> str:
    """The last known time of a forecast; of one whose steps are counted their number."""
    first = table.iloc[0, 0]
    return str(cutoff) if isinstance(first, pd.Timestamp) else f"step {int(str(first)) - 1}"


def forecast(given: Given) -> pd.DataFrame:
    """The steps after the last row, as `Forecaster.continued` has them."""
    forecaster, source, whole = given.forecaster, given.source, given.whole
    known = forecaster.known_after(source, whole, given.settings.future, given.settings.data.reading())
    return forecaster.continued(whole, time_column=source.time_name, future=known, level=given.levels)


def told(given: Given, state: State, folder: Path) -> Answer:
    """Prints how it stands after an update, and gives the same as a document."""
    line, latest = state.log[-1], folder / LATEST
    *_, running = so_far(state.log)
    sentences = []
    if given.state is not None and not given.new:
        sentences.append(f"Nothing new: {given.frame.name} ends at {line['time']}, as before. The forecast stands.")
    else:
        rows = "The first update" if given.state is None else f"{given.new} new rows"
        steps = len(state.issued[-1].values)
        sentences.append(f"{rows}, up to {line['time']}; the {steps} steps after them are in {LATEST}.")
    if line["values"]:
        where = f"Forecasts of these rows, {line['values']} values"
        sentences.append(figures_sentence(figures(line), baseline=state.reference.baseline, where=where))
        where = f"Updates so far, {len(state.log) - 1}"
        sentences.append(figures_sentence(running, baseline=state.reference.baseline, where=where))
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
        "status": "nothing_new" if given.state is not None and not given.new else "updated",
        "folder": str(folder),
        "checkpoint": str(given.checkpoint.path),
        "output": str(latest),
        "time": line["time"],
        "rows_new": given.new if given.state is not None else 0,
        "updates": len(state.log),
        "baseline": state.reference.baseline,
        "last": {"values": line["values"], **figures(line)},
        "so_far": running,
        "cusum": line["totals"],
        "alarms": line["alarms"],
        "sentences": sentences,
        "train_again": again,
    }
    return Answer(document)


def again_command(given: Given) -> str:
    """The training that is due, on the file given; of new rows alone on that trained on, to which they belong."""
    checkpoint, path, reading = given.checkpoint, given.settings.data.path, given.settings.data.reading()
    changes: dict[str, Any] = {}
    if path and split_places(checkpoint, given.frame) is not None:
        changes = {"data.path": path, **{f"data.{key}": value for key, value in reading.items()}}
        if not isinstance(given.source, FileSource):
            return train_again(checkpoint, without=("data",), **{"data": "csv", **changes})
    return train_again(checkpoint, **changes)
