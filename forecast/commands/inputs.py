"""What evaluating and forecasting take from the command line: a device, the data trained on, or another file."""

import logging

import torch

from forecast.checkpoint.load import Checkpoint
from forecast.config.build import build
from forecast.data.frame import SeriesFrame, read_columns, read_frame
from forecast.data.sources import Source
from forecast.errors import UserError, closest

log = logging.getLogger(__name__)


def find_device(name: str) -> torch.device:
    """Auto (a GPU when there is one), cpu or cuda. Raises UserError for another word, or for cuda without a GPU."""
    devices = ("auto", "cpu", "cuda")
    if name not in devices:
        raise UserError(f"device={name}: choose one of {', '.join(devices)}.{closest(name, devices)}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("device=cuda: torch sees no GPU here. Use device=cpu, or install torch's CUDA build.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def trained_source(checkpoint: Checkpoint, *, root: str | None) -> Source:
    """The source that the checkpoint was trained on. root: where its file lies now, None: where it lay."""
    config = checkpoint.config["data"]
    source: Source = build(config | {"root": root} if root and "root" in config else config)
    return source


def check_unchanged(checkpoint: Checkpoint, source: Source) -> None:
    """Raises UserError when the data trained on are no longer what they were."""
    now, expected = source.checksum(), checkpoint.data["checksum"]
    if now != expected:
        path = source.path_used()
        raise UserError(
            f"{path}: checksum {now}, but the model was trained on {expected}: the file has changed, and with it its "
            f"splits. Restore it, or evaluate it as another file: data.path={path} split=all"
        )


def history(checkpoint: Checkpoint, source: Source, path: str | None) -> SeriesFrame:
    """The checkpoint's columns from another file, or, path None, the data trained on.

    Raises UserError for a missing column and for another frequency than the one trained on.
    """
    if path is None:
        return source.frame()
    other = source.with_file(path)
    columns = checkpoint.data["columns"]
    layout = {"time_column": other.time_column, "separator": other.separator}
    unused = [name for name in read_columns(path, **layout) if name not in columns]
    if unused:
        log.info("%s: the model was not trained on the columns %s; they are not read.", path, ", ".join(unused))
    freq = checkpoint.data["freq"]
    return read_frame(path, columns=columns, decimal=other.decimal, freq=freq, gaps=other.gaps, **layout)
