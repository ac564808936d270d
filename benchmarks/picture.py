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
from benchmarks.document import BOTH, KINDS
from forecast.comparison.pictures import COLOURS, DASHES, MARKERS
from forecast.report.figures import DPI, blank_figure, lighten

PANELS = (("seconds", "seconds"), ("megabytes", "peak memory above the inputs, MB"))
# Names in the PNG's own text: of the figures drawn, and of the pixels.
SOURCE, PIXELS = "Source", "Pixels"
Sweeps = Mapping[str, Mapping[str, Mapping[str, Any]]]  # kind of machine -> attention -> its sweep


def sweeps(files: Mapping[str, Mapping[str, Any]]) -> Sweeps:
    """What the picture shows, of the machines on which every attention was measured."""
    found = {kind: files[kind]["parts"].get("attention") for kind in KINDS if kind in files}
    return {kind: attentions for kind, attentions in found.items() if attentions}


def growth_figure(measured: Sweeps) -> Figure:
    """A row of panels for each machine."""
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


def draw(axes: Axes, attentions: Mapping[str, Mapping[str, Any]], key: str) -> None:
    """A line an attention, both axes logarithmic."""
    for number, (name, sweep) in enumerate(attentions.items()):
        points = {length: value for length, value in series(sweep["rows"], BOTH, key).items() if value and value > 0}
        turn, colour = divmod(number, len(COLOURS))
        style = {"color": COLOURS[colour], "linestyle": DASHES[turn % len(DASHES)], "marker": MARKERS[turn % 3]}
        axes.plot(list(points), list(points.values()), label=name, markersize=4, linewidth=1.3, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("length L")
    lighten(axes)


def write(measured: Sweeps, path: Path) -> None:
    """As PNG with both names in it: another version of matplotlib draws other pixels of the same figures."""
    buffer = io.BytesIO()
    growth_figure(measured).savefig(buffer, format="png", dpi=DPI)
    with Image.open(buffer) as image:
        text = PngImagePlugin.PngInfo()
        text.add_text(SOURCE, digest(json.dumps(measured, sort_keys=True).encode()))
        text.add_text(PIXELS, digest(image.tobytes()))
        image.save(path, format="png", pnginfo=text)


def is_of(measured: Sweeps, path: Path) -> bool:
    """Whether a PNG was drawn from these figures and nobody has changed it since."""
    try:
        with Image.open(path) as image:
            names = digest(json.dumps(measured, sort_keys=True).encode()), digest(image.tobytes())
            return (image.info.get(SOURCE), image.info.get(PIXELS)) == names
    except OSError:
        return False


def digest(content: bytes) -> str:
    """16 hex digits."""
    return hashlib.sha256(content).hexdigest()[:16]
