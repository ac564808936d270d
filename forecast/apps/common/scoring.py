"""The forecast of a file as `forecast predict` makes it: in pieces that a killed command leaves, and in parts."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from forecast.apps.common.continuation import (
    check_unseen,
    continuation,
    files_of,
    forecast_table,
    history_source,
    report_left_out,
)
from forecast.apps.common.future import future_source
from forecast.apps.common.inputs import trained_source
from forecast.checkpoint.load import Checkpoint
from forecast.config.settings import PredictSettings
from forecast.data.catalog import file_md5
from forecast.data.forecast_files import (
    ForecastPart,
    beside,
    is_unchanged,
    join,
    read_part,
    write_rows,
)
from forecast.data.sources import CsvSource, Source
from forecast.data.writing import CSV, FarSeries, ForecastTable, all_far
from forecast.errors import UserError
from forecast.evaluation.predict import BATCH, Continuation, split_ends
from forecast.files import remove_unfinished, together
from forecast.text.terminal import label

log = logging.getLogger(__name__)

PIECE = 320 * BATCH  # series of a file that a killed command finds finished when it is run again
Pieces = list[tuple[Path, ForecastPart]]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The forecasts of one part, on their way into a file. run: what all parts have alike."""

    ends: Continuation
    table: ForecastTable
    run: Mapping[str, object]
    shard: tuple[int, int]

    def pieces(self, output: Path) -> Pieces:
        """Its forecasts in files of some series each, of which those that a killed command has left are used."""
        first, stop = series_of(self.shard, len(self.ends.series))
        pieces = []
        for start in range(first, stop, PIECE) or [first]:
            end = min(stop, start + PIECE)
            path = pieces_of(output) / f"{start:010}-{end:010}{output.suffix}"
            pieces.append((path, self.piece(path, start, end)))
            if stop - first > PIECE:
                log.info("%d of %d series", end - first, stop - first)
        return pieces

    def joined(self, output: Path, picture: Path | None, pieces: Pieces) -> ForecastPart:
        """Writes the rows of all pieces, and the picture, and removes the pieces."""
        first, stop = series_of(self.shard, len(self.ends.series))
        borders = [first, *(part.stop for _, part in pieces)]
        assert borders[-1] == stop and [part.first for _, part in pieces] == borders[:-1], "each series once"
        with together(output.parent) as place:
            sheet, rows = place(beside(output).name), place(output.name)
            join(rows, output.suffix, pieces)
            far = all_far(part.far for _, part in pieces)
            part = self._part(rows, first, stop, head=pieces[0][1].head, far=far)
            sheet.write_text(part.text(), encoding="utf-8")
            if picture is not None:
                draw_ends(place(picture.name), self.ends, self.table)
        for path, _ in pieces:
            for gone in (path, beside(path)):
                gone.unlink(missing_ok=True)
                remove_unfinished(gone)
        with suppress(OSError):  # of another command, or of a stranger
            pieces_of(output).rmdir()
        return part

    def piece(self, path: Path, first: int, stop: int) -> ForecastPart:
        """The forecasts of some series in a file of their own: there already, or written now."""
        there = read_part(path)
        ours = there is not None and (there.run, there.first, there.stop) == (self.run, first, stop)
        if there is not None and ours and is_unchanged(path, there):
            return there
        path.parent.mkdir(exist_ok=True)
        try:
            with together(path.parent) as place:
                rows = place(path.name)
                far = write_rows(rows, path.suffix, self.table, self.ends.blocks(first, stop))
                head = len(self.table.header_text().encode()) if path.suffix == CSV else 0
                part = self._part(rows, first, stop, head=head, far=far)
                place(beside(path).name).write_text(part.text(), encoding="utf-8")
        finally:
            with suppress(OSError):  # where anything is in it
                path.parent.rmdir()
        return part

    def _part(self, written: Path, first: int, stop: int, *, head: int, far: FarSeries) -> ForecastPart:
        return ForecastPart(
            run={**self.run},
            shard=self.shard,
            first=first,
            stop=stop,
            rows=(stop - first) * self.ends.pred_len,
            head=head,
            far=far,
            md5=file_md5(written),
        )


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


def sources(settings: PredictSettings, checkpoint: Checkpoint) -> tuple[Source, CsvSource | None]:
    """The history that is continued, and what is known of the steps to come."""
    source, reading = trained_source(checkpoint, root=settings.data.root), settings.data.reading()
    history = history_source(checkpoint, source, settings.data.path, reading)
    return history, future_source(checkpoint, source, settings.future, reading)


def scoring_of(
    settings: PredictSettings, checkpoint: Checkpoint, *, device: torch.device, worker: bool = False
) -> Scoring:
    """Model, series and table of a command; series that are unseen, refused, too short or made up are said.

    worker: whether it is one of several that read the same series, of which none looks for made-up rows.
    """
    (source, future), reading = sources(settings, checkpoint), settings.data.reading()
    ends = continuation(
        checkpoint,
        trained_source(checkpoint, root=settings.data.root),
        settings.data.path,
        reading,
        device=device,
        future=future,
        level=settings.level,
    )
    unseen = check_unseen(checkpoint, ends.frame, refuse=settings.unseen == "refuse")
    shard = shard_of(settings.shard)
    short = report_left_out(ends, (0, 0) if worker else series_of(shard, len(ends.series)))
    table = forecast_table(checkpoint, source, ends.frame, ends.levels, safe=settings.output_safe)
    run = {
        "checkpoint": file_md5(checkpoint.path),
        "data": source.checksum_of(ends.frame),
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


def pieces_of(output: Path) -> Path:
    """The folder of the pieces of a forecast that is not whole yet."""
    return output.with_name(f"{output.name}.parts")


def device_name(device: torch.device) -> str:
    """What computes, as far as the last digits depend on it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} {torch.backends.cpu.get_cpu_capability()}"


def shard_of(text: str | None) -> tuple[int, int]:
    """(i, n): which part of how many, None: all in one. UserError for any other text, and for a part of a part."""
    if text is None:
        return 1, 1
    numbers = [int(number) for number in re.findall(r"\d+", text)] if re.fullmatch(r"\d{1,9}(/\d{1,9})+", text) else []
    if len(numbers) > 2:
        raise UserError(
            f"shard={text}: a part is not divided again. Make more parts, as shard=1/{np.prod(numbers[1:])}"
        )
    if len(numbers) != 2 or not 1 <= numbers[0] <= numbers[1]:
        most = numbers[1] if len(numbers) == 2 and numbers[1] else 3
        raise UserError(
            f"shard={label(text)}: it must say which part of how many, the first being 1. Say one of shard=1/{most} to "
            f"shard={most}/{most}"
        )
    return numbers[0], numbers[1]


def series_of(shard: tuple[int, int], series: int) -> tuple[int, int]:
    """The first and the end of the series of a part: each series has the same beside it in its batch."""
    return part_of(shard, series, whole=BATCH)


def part_of(shard: tuple[int, int], size: int, *, whole: int) -> tuple[int, int]:
    """The first and the end of what the i-th of n parts has of `size`: multiples of `whole`, but for the last end."""
    wholes = -(-size // whole)
    first, stop = (wholes * number // shard[1] * whole for number in (shard[0] - 1, shard[0]))
    return min(first, size), min(stop, size)


@contextmanager
def written_or_refused(
    output: Path | str, *, key: str = "output", other: str = "FOLDER/forecast.csv"
) -> Iterator[None]:
    """UserError where a file cannot be written. key: what names the output; other: a value for it to advise."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{key}={output}: {error.filename} cannot be written: {error.strerror}. Make room, or choose another "
            f"place: {key}={other}"
        ) from error
