"""What `forecast predict` does with a model of a panel: the steps after the end of every series, in long format."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from forecast.commands import Answer
from forecast.commands.forecaster import Forecaster
from forecast.commands.future import FUTURE, future_source
from forecast.commands.inputs import files_read
from forecast.commands.outputs import keep_inputs, keep_others
from forecast.commands.panel_ends import (
    check_unseen,
    history_source,
    long_table,
    panel_forecaster,
    report_left_out,
    whole_table,
)
from forecast.config.settings import PredictSettings
from forecast.data.catalog import file_md5
from forecast.data.panel.parts import Part, beside, is_unchanged, join, read_part, write_rows
from forecast.data.panel.read import panel_files
from forecast.data.panel.writing import CSV, LongTable
from forecast.data.sources import CsvSource
from forecast.errors import UserError
from forecast.evaluation.interval_columns import split_ends
from forecast.evaluation.predict_panel import BATCH, PanelForecaster
from forecast.files import remove_unfinished, together
from forecast.text.terminal import label, say

log = logging.getLogger(__name__)

PIECE = 320 * BATCH  # series of a file that a killed command finds finished when it is run again
FEW_ROWS = 1000  # which --json prints
Made = Callable[["Scoring", Path], list[tuple[Path, Part]]]


def predict_panel(settings: PredictSettings, forecaster: Forecaster, output: Path) -> Answer:
    """Forecasts the steps after the end of every series of a file, or one part of them; writes them and a picture."""
    checkpoint, shard = forecaster.checkpoint, shard_of(settings.shard)
    source, future = sources(settings, forecaster)
    picture = output.with_suffix(".png") if shard == (1, 1) else None
    outputs = [path for path in (output, beside(output), picture) if path is not None]
    inputs = files_read(checkpoint, path=settings.data.path, root=settings.data.root)
    inputs += [("the history itself (data.path)", path) for path in panel_files(source)]
    inputs += [(FUTURE, path) for path in (panel_files(future) if future else ())]
    keep_inputs(outputs, inputs, key=f"output={output}")
    for path in panel_files(source):
        if (part := read_part(path)) is not None and not part.whole:
            raise UserError(
                f"{path} is part {part.shard[0]} of {part.shard[1]} of a forecast, and no history to forecast from. "
                "Name the panel itself: data.path=FILE"
            )
    said = read_part(output)
    ours = settings.overwrite or (said is not None and said.shard == shard)
    like = "a forecast of a panel" if shard == (1, 1) else f"part {shard[0]} of {shard[1]} of a forecast"
    keep_others(outputs, ours=ours, key=f"output={output}", like=like)
    with engine_of(settings, output) as made:
        scoring = scoring_of(settings, forecaster, source, future)
        with written_or_refused(output):
            part = scoring.joined(output, picture, made(scoring, output))
    ends, table = scoring.ends, scoring.table
    first = f" part {shard[0]} of {shard[1]}," if picture is None else ""
    say(
        f"{part.stop - part.first} series,{first} {ends.pred_len} steps after the end of each, are in {output}"
        f"{f', some drawn in {picture}' if picture else ''}."
    )
    few = shard == (1, 1) and part.rows <= FEW_ROWS
    return Answer(
        {
            "checkpoint": str(checkpoint.path),
            "output": str(output),
            "picture": None if picture is None else str(picture),
            "frequency": ends.frame.freq,
            "shard": "{}/{}".format(*shard),
            "series": part.stop - part.first,
            "left_out": part.run["left_out"],
            "unseen": part.run["unseen"],
            "row_count": part.rows,
            "rows": json_rows(ends, table) if few else None,
        }
    )


def engine_of(settings: PredictSettings, output: Path) -> AbstractContextManager[Made]:
    """What makes the pieces of a forecast."""
    if settings.engine == "local":
        return nullcontext(Scoring.pieces)
    from forecast.commands.engines.forecasts import cluster

    return cluster(settings, output)


def sources(settings: PredictSettings, forecaster: Forecaster) -> tuple[CsvSource, CsvSource | None]:
    """The panel that is continued, and what is known of the steps to come."""
    reading = settings.data.reading()
    source = history_source(forecaster.checkpoint, forecaster.source(), settings.data.path, dict(reading))
    return source, future_source(forecaster.checkpoint, forecaster.source(), settings.future, reading)


def scoring_of(
    settings: PredictSettings,
    forecaster: Forecaster,
    source: CsvSource,
    future: CsvSource | None,
    *,
    worker: bool = False,
) -> "Scoring":
    """Model, series and table of a command; series that are unseen, refused, too short or made up are said.

    worker: whether it is one of several that read the same series, of which none looks for made-up rows.
    """
    checkpoint = forecaster.checkpoint
    ends = panel_forecaster(checkpoint, source, device=forecaster.torch_device, future=future, level=settings.level)
    unseen = check_unseen(checkpoint, ends.frame, refuse=settings.unseen == "refuse")
    own = (0, 0) if worker else series_of(shard_of(settings.shard), len(ends.series))
    short = report_left_out(ends, own)
    table = long_table(checkpoint, source, ends, safe=settings.output_safe)
    run = {
        "checkpoint": file_md5(checkpoint.path),
        "data": ends.frame.checksum,
        **({} if future is None else {"future": [file_md5(path) for path in panel_files(future)]}),
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
    return Scoring(ends=ends, table=table, run=run, shard=shard_of(settings.shard))


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


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The forecasts of one part, on their way into a file. run: what all parts have alike, see `Part`."""

    ends: PanelForecaster
    table: LongTable
    run: Mapping[str, object]
    shard: tuple[int, int]

    def pieces(self, output: Path) -> list[tuple[Path, Part]]:
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

    def joined(self, output: Path, picture: Path | None, pieces: Sequence[tuple[Path, Part]]) -> Part:
        """Writes the rows of all pieces, and the picture, and removes the pieces."""
        first, stop = series_of(self.shard, len(self.ends.series))
        borders = [first, *(part.stop for _, part in pieces)]
        assert borders[-1] == stop and [part.first for _, part in pieces] == borders[:-1], "each series once"
        with together(output.parent) as place:
            said, rows = place(beside(output).name), place(output.name)
            join(rows, output.suffix, pieces)
            part = self._part(rows, first, stop, head=pieces[0][1].head)
            said.write_text(part.text(), encoding="utf-8")
            if picture is not None:
                draw_ends(place(picture.name), self.ends, self.table)
        for path, _ in pieces:
            for gone in (path, beside(path)):
                gone.unlink(missing_ok=True)
                remove_unfinished(gone)
        with suppress(OSError):  # of another command, or of a stranger
            pieces_of(output).rmdir()
        return part

    def piece(self, path: Path, first: int, stop: int) -> Part:
        """The forecasts of some series in a file of their own: there already, or written now."""
        said = read_part(path)
        ours = said is not None and (said.run, said.first, said.stop) == (self.run, first, stop)
        if said is not None and ours and is_unchanged(path, said):
            return said
        path.parent.mkdir(exist_ok=True)
        with together(path.parent) as place:
            rows = place(path.name)
            write_rows(rows, path.suffix, self.table, self.ends.blocks(first, stop))
            head = len(self.table.header_text().encode()) if path.suffix == CSV else 0
            part = self._part(rows, first, stop, head=head)
            place(beside(path).name).write_text(part.text(), encoding="utf-8")
        return part

    def _part(self, written: Path, first: int, stop: int, *, head: int) -> Part:
        rows = (stop - first) * self.ends.pred_len
        series = {"first": first, "stop": stop, "rows": rows}
        return Part(run=self.run, shard=self.shard, **series, head=head, md5=file_md5(written))


def draw_ends(path: Path, ends: PanelForecaster, table: LongTable) -> None:
    """Draws the end of the history and the forecast of some series: the first, the last, the longest, one between."""
    from forecast.report.figures import Band, forecast_figure, save

    levels = () if ends.intervals is None else ends.intervals.asked
    frame, lengths = ends.frame, ends.frame.lengths[ends.series]
    whole = np.flatnonzero(lengths >= ends.seq_len)
    places = whole if whole.size else np.arange(len(lengths))
    shown = sorted({int(places[i]) for i in (0, len(places) // 2, -1)} | {int(lengths.argmax())})
    forecast = ends.some(shown)
    length = min(ends.seq_len, int(lengths[shown].min()))
    figure = forecast_figure(
        past=np.stack([ends.past(number)[-length:] for number in forecast.series]),
        truth=None,
        forecast=forecast.values[..., : len(ends.targets)],
        bands=[Band(*one) for one in split_ends(forecast.values, len(ends.targets), levels)],
        timestamps=[frame.timestamps(number, ends.pred_len)[-length - ends.pred_len :] for number in forecast.series],
        columns=list(table.targets[: len(ends.targets)]),
        title=f"{len(shown)} of {len(lengths)} series",
        names=[str(frame.ids[number]) for number in forecast.series],
    )
    save(figure, path)


def json_rows(ends: PanelForecaster, table: LongTable) -> list[dict[str, object]]:
    """All rows as JSON has them."""
    whole = whole_table(ends, table)
    time = ends.frame.time_column
    if not ends.frame.without_calendar:
        whole = whole.assign(**{time: whole[time].astype(str)})
    return [{str(name): value for name, value in row.items()} for row in whole.to_dict("records")]


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
