"""What `forecast predict` does: the steps after the end of every series of a file, as a table and a picture."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig

from forecast.apps.common.command import Answer
from forecast.apps.common.continuation import (
    check_unseen,
    continuation,
    files_of,
    forecast_table,
    history_source,
    report_far_series,
    report_left_out,
    whole_table,
)
from forecast.apps.common.forecast_parts import ForecastPart, beside, read_part
from forecast.apps.common.future import future_source
from forecast.apps.common.inputs import check_horizon, find_device, trained_source
from forecast.apps.common.outputs import checked_output, keep_others, writable
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.check import read_settings
from forecast.config.settings import PredictSettings
from forecast.data.sources import file_md5
from forecast.data.writing import ENDINGS, ForecastTable, SeriesForecasts, write_rows
from forecast.errors import UserError
from forecast.evaluation.predict import BATCH, FEW_ROWS, Continuation, split_ends
from forecast.files import json_text, together
from forecast.report.verdict import verdict
from forecast.run_folder import read_run, run_of
from forecast.text.terminal import Meter, label, say

log = logging.getLogger(__name__)


def predict(cfg: DictConfig) -> Answer:
    """Forecasts the steps after the end of every series of a file, or one part of them; writes them and a picture."""
    settings = read_settings(cfg, PredictSettings)
    device, shard = find_device(settings.device), shard_of(settings.shard)
    output = checked_output(settings.output)
    picture = output.with_suffix(".png") if shard == (1, 1) else None
    checkpoint = load_checkpoint(settings.ckpt_path)
    check_horizon(checkpoint, settings.pred_len)
    check_files(settings, [path for path in (output, beside(output), picture) if path is not None])
    scoring, rows = scoring_of(settings, checkpoint, device=device), None
    part, frame = scoring.write(output, picture), scoring.ends.frame
    if picture is not None and part.rows <= FEW_ROWS:  # which --json prints
        rows = whole_table(scoring.table, scoring.ends.blocks(0, len(scoring.ends.series)))
        if frame.clock != frame.time_zone:
            instants = rows[frame.time_column].dt.tz_localize(frame.clock)
            rows[frame.time_column] = instants.dt.tz_convert(frame.time_zone)
    steps, count = checkpoint.config.pred_len, part.rows // checkpoint.config.pred_len
    if rows is not None and count == 1:
        times = rows[frame.time_column]
        say(f"{steps} steps from {times.iloc[0]} to {times.iloc[-1]} are in {output}, drawn in {picture}.")
    else:
        first = "" if shard == (1, 1) else f" part {shard[0]} of {shard[1]},"
        drawn = f", some drawn in {picture}" if picture else ""
        say(f"{count} series,{first} {steps} steps after the end of each, are in {output}{drawn}.")
    metrics = read_run(run_of(checkpoint.path)).metrics
    sentences = verdict(metrics, "test") if metrics else []  # of a run that is gone nothing
    if sentences:
        say("\n".join(["best.ckpt of this run on its test windows:", *sentences]))
    if rows is not None and not frame.without_calendar:
        rows = rows.assign(**{frame.time_column: rows[frame.time_column].astype(str)})
    return Answer(
        {
            "checkpoint": str(checkpoint.path),
            "output": str(output),
            "picture": None if picture is None else str(picture),
            "frequency": frame.freq,
            "shard": "{}/{}".format(*shard),
            "series": count,
            "left_out": part.run["left_out"],
            "unseen": part.run["unseen"],
            "row_count": part.rows,
            "rows": None if rows is None else rows.to_dict("records"),
            "verdict": sentences,
        }
    )


def check_files(settings: PredictSettings, outputs: list[Path]) -> None:
    """UserError where an output is somebody else's, or is read: with overwrite=true the history would be lost."""
    shard, key = shard_of(settings.shard), f"output={settings.output}"
    for name, read in (("data.path", settings.data.path), ("future", settings.future)):
        if read and Path(read).absolute() in [output.absolute() for output in outputs]:
            raise UserError(f"{key}: {name} is read from there. Choose another name for the forecast")
    before = read_part(outputs[0])
    ours = settings.overwrite or (before is not None and before.shard == shard)
    like = "a whole forecast" if shard == (1, 1) else f"part {shard[0]} of {shard[1]} of a forecast"
    namesakes = [read_part(outputs[0].with_suffix(ending)) for ending in ENDINGS]
    if any(part is not None and part.shard == (1, 1) for part in namesakes):  # the picture is of one of them
        outputs = outputs[:2]
    keep_others(outputs, ours=ours, key=key, like=like)


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The forecasts of one part, on their way into a file. run: what all parts have alike."""

    ends: Continuation
    table: ForecastTable
    run: Mapping[str, object]
    shard: tuple[int, int]

    def write(self, output: Path, picture: Path | None) -> ForecastPart:
        """Writes its rows and the JSON beside them, and the picture: all, or nothing."""
        first, stop = series_of(self.shard, len(self.ends.series))
        with writable("output=FILE"), together(output.parent) as place:
            sheet, rows = place(beside(output).name), place(output.name)
            far: list[int] = []
            write_rows(rows, output.suffix, self.table, self._blocks(first, stop, far))
            part = ForecastPart(run={**self.run}, shard=self.shard, rows=(stop - first) * self.ends.pred_len)
            sheet.write_text(json_text(part.model_dump()), encoding="utf-8")
            if picture is not None:
                draw_ends(place(picture.name), self.ends, self.table)
        report_far_series(self.ends, far)
        return part

    def _blocks(self, first: int, stop: int, far: list[int]) -> Iterator[SeriesForecasts]:
        done, meter = 0, Meter(stop - first, "series forecast")
        for some in self.ends.blocks(first, stop):
            yield some
            far.extend(some.far)
            done += len(some.series)
            meter.show(done)
        meter.end()


def draw_ends(path: Path, ends: Continuation, table: ForecastTable) -> None:
    """Draws the end of the history and the forecast of some series: the first, the last, the longest, one between."""
    from forecast.report.figures import Band, forecast_figure, save

    frame, lengths = ends.frame, ends.frame.lengths[ends.series]
    whole = np.flatnonzero(lengths >= ends.seq_len)
    places = whole if whole.size else np.arange(len(lengths))
    shown = sorted({int(places[i]) for i in (0, len(places) // 2, -1)} | {int(lengths.argmax())})
    forecast = ends.some(shown)
    length = min(ends.seq_len, int(lengths[shown].min()))
    title = f"{len(shown)} of {len(lengths)} series"
    if frame.id_column is None:
        title = f"forecast after {frame.end(0)}"
    figure = forecast_figure(
        past=np.stack([ends.past(number)[-length:] for number in forecast.series]),
        truth=None,
        forecast=forecast.values[..., : len(ends.targets)],
        bands=[Band(*band) for band in split_ends(forecast.values, len(ends.targets), ends.levels)],
        timestamps=[frame.timestamps(number, ends.pred_len)[-length - ends.pred_len :] for number in forecast.series],
        columns=list(table.targets[: len(ends.targets)]),
        title=title,
        names=[str(frame.ids[number]) for number in forecast.series] if frame.id_column else (),
    )
    save(figure, path)


def scoring_of(settings: PredictSettings, checkpoint: Checkpoint, *, device: torch.device) -> Scoring:
    """Model, series and table of a command; series that are unseen, refused, too short or made up are said."""
    trained, reading = trained_source(checkpoint.config.data, root=settings.data.root), settings.data.reading()
    path, future = settings.data.path, future_source(checkpoint, trained, settings.future, reading)
    source = history_source(trained, path, reading)
    ends = continuation(checkpoint, trained, path, reading, device=device, future=future, level=settings.level)
    unseen = check_unseen(checkpoint, ends.frame, refuse=settings.unseen == "refuse")
    shard = shard_of(settings.shard)
    short = report_left_out(ends, series_of(shard, len(ends.series)))
    table = forecast_table(checkpoint, source, ends.frame, ends.levels, safe=settings.output_safe)
    run = {
        "checkpoint": file_md5(checkpoint.path),
        "data": ends.frame.checksum,
        **({"reading": dict(reading)} if reading else {}),
        **({} if future is None else {"future": [file_md5(path) for path in files_of(future)]}),
        "series": len(ends.series),
        "left_out": short,
        "unseen": unseen,
        "pred_len": ends.pred_len,
        "batch": BATCH,
        "threads": torch.get_num_threads(),
        "device": device_name(ends.device),
        "torch": str(torch.__version__),
        "columns": table.header,
        "ending": Path(settings.output).suffix,
    }
    return Scoring(ends=ends, table=table, run=run, shard=shard)


def device_name(device: torch.device) -> str:
    """What computes, as far as the last digits depend on it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"


def shard_of(text: str | None) -> tuple[int, int]:
    """(i, n): which part of how many, None: all in one. UserError for any other text."""
    if text is None:
        return 1, 1
    number, _, of = text.partition("/")
    if not re.fullmatch(r"\d{1,9}/\d{1,9}", text) or not 1 <= int(number) <= int(of):
        raise UserError(
            f"shard={label(text)}: it must say which part of how many, the first being 1. Say one of shard=1/3 to "
            "shard=3/3, of three parts"
        )
    return int(number), int(of)


def series_of(shard: tuple[int, int], series: int) -> tuple[int, int]:
    """The first and the end of the series of a part: whole batches, so that each series has the same beside it."""
    batches = -(-series // BATCH)
    first, stop = (batches * number // shard[1] * BATCH for number in (shard[0] - 1, shard[0]))
    return min(first, series), min(stop, series)
