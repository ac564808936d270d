"""What a checkpoint's attentions look at in one window: every weight as arrays, and on the page of its run."""

import argparse
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from forecast.apps.common.inputs import evaluated_data, find_device, trained_source
from forecast.apps.common.outputs import keep_others, writable
from forecast.apps.common.page import remake
from forecast.attention.maps import Maps, attention_weights
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.data.prepare import Prepared, series_windows
from forecast.data.windows import Windows
from forecast.documents import DocumentError, read_arrays
from forecast.errors import UserError
from forecast.evaluation.evaluate import exact_float32, longest_look_back
from forecast.files import replacing, save_arrays
from forecast.models.base import ForecastModel
from forecast.models.time_spans import time_spans
from forecast.report.drawn import time_names
from forecast.run_folder import ATTENTION, read_run, run_of
from forecast.text.terminal import label, listed, say
from forecast.training.record import known_names

ORIGIN = "known_until"  # an array of each attention.npz
AXES = {"queries": "query_names", "keys": "key_names"}  # their times, or the columns that they are
MOST_SERIES = 5  # named in a message
ITSELF = "itself"  # the target, in the map of a target that is a sequence of its own


def main(arguments: argparse.Namespace) -> None:
    """Writes the maps of one window, and the page of a run with them. Raises UserError for what is not there."""
    checkpoint = load_checkpoint(arguments.checkpoint)
    folder = folder_of(checkpoint, arguments.to, overwrite=arguments.overwrite)
    device = find_device("auto")
    model = checkpoint.model().to(device)
    with ExitStack() as stack:
        try:
            maps = stack.enter_context(attention_weights(model))
        except ValueError as error:
            raise UserError(f"ckpt_path={checkpoint.path}: {error}. Choose a checkpoint of another model.") from error
        data = evaluated_data(
            checkpoint, trained_source(checkpoint.config.data, root=arguments.root), None, split=arguments.split
        )
        windows = data.windows(arguments.split, look_back=longest_look_back([model], data))
        number = window_number(data, windows, arguments.window, split=arguments.split)
        series = None if data.frame.id_column is None else str(data.frame.ids[windows.places([number])[0][0]])
        batch, reads = windows.__getitems__([number]).to(device), model.look_back
        with torch.no_grad(), exact_float32():
            model(batch.past[:, -reads:], batch.past_known[:, -reads:], batch.future_known)
    arrays = as_arrays(model, data, maps, times_of(data, windows, number)) | {
        "split": np.array([arguments.split]),
        "window": np.array([number]),
        "checkpoint": np.array([checkpoint.path.name]),
    }
    if series is not None:
        arrays["series"] = np.array([series])
    of = "" if series is None else f" of series '{label(series)}'"
    window = f"{arguments.split} window {number}{of}, known until {time_names(arrays[ORIGIN])[0]}"
    with writable("--to DIR"), replacing(folder / ATTENTION) as path:
        save_arrays(path, arrays)
    say(f"{folder / ATTENTION}: {window}; {listed(f'{slot}/{layer}' for slot, layer in maps)}")
    if read_run(folder).metrics:
        remake(folder)


def folder_of(checkpoint: Checkpoint, to: Path | None, *, overwrite: bool) -> Path:
    """Where to write. UserError for a folder that is not there, and where files of somebody else would be replaced."""
    if to is None and checkpoint.path.absolute().parent.name != "checkpoints":
        raise UserError(f"ckpt_path={checkpoint.path} lies in no RUN/checkpoints. Say where to write: --to DIR")
    folder = to or run_of(checkpoint.path)
    if not folder.is_dir():
        raise UserError(f"--to={folder}: there is no such folder. Make it, or choose another one: --to DIR")
    ours = overwrite
    with suppress(DocumentError):
        ours = ours or bool(read_arrays(folder / ATTENTION, [ORIGIN]))
    fix = "choose another folder with --to DIR, or say --overwrite"
    keep_others([folder / ATTENTION], ours=ours, key=f"--to={folder}", like="a file of forecast attend", fix=fix)
    return folder


def window_number(data: Prepared, windows: Windows, wanted: str | None, *, split: str) -> int:
    """The number of the window that was named by its number or the last time that it knows; without a name the last.

    Raises UserError for a window that is not there, and for a time that several series have.
    """
    numbers = np.arange(len(windows))
    some = f"a number from 0 to {len(numbers) - 1}"
    if wanted is None:
        return int(numbers[-1])
    if wanted.isdecimal():
        if int(wanted) >= len(numbers):
            raise UserError(f"--window={wanted}: {data.frame.name} has {len(numbers)} {split} windows. Choose {some}.")
        return int(wanted)
    series, origins = windows.places(numbers)
    times = data.times_of(origins - 1, series).tz_localize(None)
    span = (
        "these rows have no times"
        if data.frame.without_calendar
        else f"the {split} windows are known until times from {times.min()} to {times.max()} by {data.frame.freq}"
    )
    try:
        hits = numbers[times == pd.Timestamp(wanted).tz_localize(None)]
    except (ValueError, TypeError) as error:
        raise UserError(f"--window={wanted}: neither a number nor a time; {span}. Choose one, or {some}.") from error
    if len(hits) == 0:
        raise UserError(f"--window={wanted}: {span}. Choose one of them, or {some}.")
    if len(hits) > 1:
        shown = {str(data.frame.ids[series[hit]]): hit for hit in hits[:MOST_SERIES].tolist()}
        each = listed([f"{hit} (series '{label(name)}')" for name, hit in shown.items()])
        raise UserError(f"--window={wanted}: of several series. Choose one by its number, as {each}.")
    return int(hits[0])


def times_of(data: Prepared, windows: Windows, number: int) -> np.ndarray:
    """Of each row of a window, from the first that the model reads: its time, or its number in the file."""
    frame, times = data.frame, pd.DatetimeIndex(series_windows(data, *windows.places([number]))[1][0])
    more = windows.look_back - data.seq_len  # members of an ensemble may read further back
    before = pd.date_range(end=times[0], periods=more + 1, freq=frame.freq)[:more]
    stamps: np.ndarray = before.append(times).to_numpy().astype("datetime64[ns]")
    if frame.without_calendar:
        first, unit = frame.numbers
        stamps = first + unit * (stamps.astype(np.int64) // 1_000_000)
    return stamps


def as_arrays(model: ForecastModel, data: Prepared, maps: Maps, stamps: np.ndarray) -> dict[str, np.ndarray]:
    """The maps with the times of their queries and keys, as attention.npz has them.

    SLOT/LAYER (N, H, Q, K), N = 1 or the columns that are sequences of their own, whose names are SLOT/LAYER/columns;
    SLOT/LAYER/queries (Q, 2) and keys (K, 2), first and last time of each, or query_names (Q,) and key_names (K,) of
    columns; of ProbSparse SLOT/LAYER/active (N, H, Q), which queries are active, and measures (N, H, Q). stamps: of the
    window's rows.
    """
    origin = len(stamps) - data.pred_len
    arrays = {ORIGIN: stamps[[origin - 1]], "places": np.array([f"{slot}/{layer}" for slot, layer in maps])}
    spans = time_spans(model)
    # the last one is -1: the sequence's own target
    columns = np.array([*data.frame.columns[: data.n_columns], *known_names(data), ITSELF])
    for place, weights in maps.items():
        name = f"{place[0]}/{place[1]}"
        arrays[name] = weights.float().cpu().numpy()
        if place in maps.active:
            arrays[f"{name}/active"] = maps.active[place].cpu().numpy()
            arrays[f"{name}/measures"] = maps.measures[place].float().cpu().numpy()
        if place in spans:
            queries, keys = spans[place]
            for (part, column_names), axis in zip(AXES.items(), (queries[-weights.shape[2] :], keys), strict=True):
                if axis.ndim == 2:
                    arrays[f"{name}/{part}"] = stamps[axis + origin]
                else:
                    arrays[f"{name}/{column_names}"] = columns[axis]
        names = [data.target_names, list(data.frame.columns[: data.n_columns])]
        if len(weights) > 1 and (own := [some for some in names if len(some) == len(weights)]):
            arrays[f"{name}/columns"] = np.array(own[0])
    return arrays
