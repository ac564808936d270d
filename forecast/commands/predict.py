"""What `forecast predict` does: the steps after the end of a file, as a CSV and a picture."""

import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from forecast.commands import Answer
from forecast.commands.forecaster import Forecaster
from forecast.commands.future import FUTURE
from forecast.commands.inputs import check_horizon, files_read, find_device, history, read_source
from forecast.commands.intervals import forecast_intervals
from forecast.commands.outputs import is_forecast, keep_inputs, keep_others
from forecast.commands.predict_panel import predict_panel
from forecast.config.check import read_settings
from forecast.config.settings import PredictSettings
from forecast.data.frame import SeriesFrame
from forecast.data.frequency import future_timestamps
from forecast.data.panel.writing import CSV, ENDINGS
from forecast.data.sources import FileSource
from forecast.data.writing import PLAIN, Writing
from forecast.documents import DocumentError, fitting, read_json
from forecast.errors import UserError
from forecast.evaluation.interval_columns import column_names, of_each, split_ends
from forecast.files import together
from forecast.report.verdict import verdict
from forecast.run_folder import METRICS, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.documents import as_cell
from forecast.text.terminal import say


def predict(cfg: DictConfig) -> Answer:
    """Forecasts the steps after the end of a file, or of the data trained on; writes a CSV and a picture."""
    settings = read_settings(cfg, PredictSettings)
    find_device(settings.device)
    reading = settings.data.reading()
    output = checked_output(settings.output)
    picture = output.with_suffix(".png")
    forecaster = Forecaster.load(settings.ckpt_path, device=settings.device, root=settings.data.root)
    check_horizon(forecaster.checkpoint, settings.pred_len)
    if forecaster.checkpoint.has_ids:
        return predict_panel(settings, forecaster, output)
    check_one_series(settings, output)
    checkpoint, source = forecaster.checkpoint, forecaster.source()
    keep = files_read(checkpoint, path=settings.data.path, root=settings.data.root)
    keep += [(FUTURE, settings.future)]
    keep_inputs((output, picture), keep, key=f"output={output}")
    frame = history(checkpoint, source, settings.data.path, reading)
    file = (
        read_source(source, settings.data.path, reading)
        if settings.data.path or isinstance(source, FileSource)
        else None
    )
    writing = PLAIN if file is None else Writing.of(file.path_used(), file, frame.time_format)
    targets, steps = checkpoint.data["targets"], checkpoint.config.pred_len
    time_name = source.time_name if file is None else file.time_name
    intervals = forecast_intervals(checkpoint, settings.level)
    asked = () if intervals is None else intervals.asked
    names = column_names(targets, asked)
    of_names = dict(zip(names, of_each(targets, asked), strict=True))
    decimals = {name: writing.decimals[of] for name, of in of_names.items() if of in writing.decimals}
    writing = replace(writing, decimals=decimals)
    header = writing.header(time_name, names)
    # the last has no look at the file, as forecasts had before
    headers = [writing.header(time_name, targets), [source.time_name, *targets]]
    ours = settings.overwrite or any(is_forecast(output, columns=one, steps=steps) for one in headers)
    keep_others((output, picture), ours=ours, key=f"output={output}", like="a forecast of this checkpoint")
    known = forecaster.known_after(source, frame, settings.future, reading)
    table = forecaster.continued(frame, time_column=source.time_name, future=known, level=settings.level)
    std = checkpoint.scaler.std[[frame.columns.index(name) for name in of_names.values()]]
    text = writing.text(
        [as_cell(name) for name in header] if settings.output_safe else header, writing.cells(table, std)
    )
    try:
        with together(output.parent) as beside:
            beside(output.name).write_text(text, encoding="utf-8")
            draw_future(beside(picture.name), frame.tail(checkpoint.config.seq_len), table, asked)
    except OSError as error:
        raise UserError(
            f"output={output}: {error.filename} cannot be written: {error.strerror}. Make room, or choose another "
            "place: output=FOLDER/forecast.csv"
        ) from error
    times = table.iloc[:, 0]
    say(f"{len(times)} steps from {times.iloc[0]} to {times.iloc[-1]} are in {output}, drawn in {picture}.")
    sentences = verdict_of(checkpoint.path)
    if sentences:
        say("\n".join(["best.ckpt of this run on its test windows:", *sentences]))
    rows = table.assign(**{source.time_name: times.astype(str)}).to_dict("records")
    return Answer(
        {
            "checkpoint": str(checkpoint.path),
            "output": str(output),
            "picture": str(picture),
            "frequency": frame.freq,
            "rows": rows,
            "verdict": sentences,
        }
    )


def verdict_of(path: Path) -> list[str]:
    """What is said of the run that made a checkpoint; nothing where its metrics.json is gone, or is no such file."""
    metrics = run_of(path) / METRICS
    try:
        with fitting(metrics):
            return verdict(read_json(metrics, Metrics) or {}, "test")
    except DocumentError:
        return []


def check_one_series(settings: PredictSettings, output: Path) -> None:
    """Raises UserError for what only the forecast of a panel can be."""
    for key, value, usual in (
        ("shard", settings.shard, None),
        ("unseen", settings.unseen, "scale"),
        ("engine", settings.engine, "local"),
    ):
        if value != usual:
            raise UserError(
                f"{key}={value} is for a panel, and the checkpoint was trained on one series. Leave it out."
            )
    if output.suffix != CSV:
        raise UserError(f"output={output}: the forecast of one series is a CSV, so its name must end in .csv")


def checked_output(name: str, *, key: str = "output=") -> Path:
    """The path of the forecast. key: what names it.

    Raises UserError for another suffix than .csv and .parquet, where there is no such folder, for a name that cannot be
    written, and for a pipe or a device, which could keep its reader waiting.
    """
    output = Path(name)
    if output.suffix not in ENDINGS:
        raise UserError(f"{key}{name}: the forecast is a CSV, so its name must end in .csv, or for a panel in .parquet")
    try:
        mode = output.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = stat.S_IFREG  # of what will be there
    except OSError as error:
        raise UserError(
            f"{key}{name}: {output} cannot be written: {error.strerror}. Choose another name: {key}forecast.csv"
        ) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UserError(f"{key}{name}: this is a pipe or a device. Choose the name of a file: {key}forecast.csv")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UserError(f"{key}{name}: there is no folder {output.absolute().parent} to write it in.")
    return output


def draw_future(path: Path, past: SeriesFrame, forecast: pd.DataFrame, levels: Sequence[float] = ()) -> None:
    """Draws the end of the history and the forecast: a column of time or of steps, then the targets, original units.

    levels: of the intervals whose ends follow the targets.
    """
    from forecast.report.figures import Band, forecast_figure, save

    values, first = forecast.iloc[:, 1:].to_numpy()[None], forecast.iloc[0, 0]
    n_targets = values.shape[2] // (1 + 2 * len(levels))
    names = [str(name) for name in forecast.columns[1 : n_targets + 1]]
    after = past.timestamps[-1] if isinstance(first, pd.Timestamp) else f"step {int(str(first)) - 1}"
    future = future_timestamps(past.timestamps[-1], past.freq, len(forecast))
    figure = forecast_figure(
        past=past.values[None][:, :, [past.columns.index(name) for name in names]],
        truth=None,
        forecast=values[..., :n_targets],
        bands=[Band(*one) for one in split_ends(values, n_targets, levels)],
        timestamps=[pd.DatetimeIndex(past.timestamps.append(future))],
        columns=names,
        title=f"forecast after {after}",
    )
    save(figure, path)
