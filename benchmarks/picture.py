"""Time and memory of every attention against its length, and a file that tells what it was drawn from."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image, PngImagePlugin

from benchmarks.attention import series
from benchmarks.document import KINDS
from forecast.comparison.pictures import COLOURS, DASHES, MARKERS
from forecast.report.figures import DPI, blank_figure, lighten

PANELS = (("seconds", "seconds"), ("megabytes", "peak memory above the inputs, MB"))
PASS = "forward+backward"
# Names in the PNG's own text: of the figures drawn, and of the pixels.
SOURCE, PIXELS = "Source", "Pixels"


def growth_figure(files: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """A row of panels for each machine; None when no attention was measured on any."""
    measured = {kind: files[kind]["parts"]["attention"] for kind in KINDS if has_sweep(files.get(kind))}
    if not measured:
        return None
    figure = blank_figure(11.0, 0.8 + 4.6 * len(measured), "Forward and backward of each attention by length, float32")
    rows = figure.subplots(len(measured), len(PANELS), squeeze=False)
    for row, (kind, attentions) in zip(rows, measured.items(), strict=True):
        for axes, (key, label) in zip(row, PANELS, strict=True):
            draw(axes, attentions, key)
            axes.set_ylabel(label)
            axes.set_title(KINDS[kind], fontsize="medium")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    return figure


def has_sweep(content: Mapping[str, Any] | None) -> bool:
    """Whether a file holds the table of every attention."""
    return content is not None and bool(content["parts"].get("attention"))


def draw(axes: Axes, attentions: Mapping[str, Mapping[str, Any]], key: str) -> None:
    """A line an attention, both axes logarithmic."""
    for number, (name, each) in enumerate(attentions.items()):
        points = {length: value for length, value in series(each["rows"], PASS, key).items() if value and value > 0}
        turn, colour = divmod(number, len(COLOURS))
        style = {"color": COLOURS[colour], "linestyle": DASHES[turn % len(DASHES)], "marker": MARKERS[turn % 3]}
        axes.plot(list(points), list(points.values()), label=name, markersize=4, linewidth=1.3, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("length L")
    lighten(axes)


def source_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """16 hex digits of all that the picture shows."""
    drawn = {kind: files[kind]["parts"]["attention"] for kind in KINDS if has_sweep(files.get(kind))}
    return hashlib.sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()[:16]


def write(figure: Figure, path: Path, source: str) -> None:
    """As PNG with both names in it: another version of matplotlib draws other pixels of the same figures."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    with Image.open(buffer) as image:
        text = PngImagePlugin.PngInfo()
        text.add_text(SOURCE, source)
        text.add_text(PIXELS, pixels_of(image))
        image.save(path, format="png", pnginfo=text)


def is_of(path: Path, source: str) -> bool:
    """Whether a PNG was drawn from these figures and nobody has changed it since."""
    try:
        with Image.open(path) as image:
            return bool(image.info.get(SOURCE) == source and image.info.get(PIXELS) == pixels_of(image))
    except OSError:
        return False


def pixels_of(image: Image.Image) -> str:
    """16 hex digits of the picture itself."""
    return hashlib.sha256(image.tobytes()).hexdigest()[:16]
