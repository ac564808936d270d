"""Time and memory of every attention against its length; the PNG names the figures that it was drawn from."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image, PngImagePlugin

from benchmarks.attention import series
from benchmarks.document import KINDS
from forecast.report.figures import DPI, blank_figure, lighten

# Okabe and Ito's palette; a second and third round of it has other dashes and markers.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000")
DASHES = ("-", (0, (5, 1.2)), (0, (1, 1.2)))
MARKERS = "osD"
PANELS = (("seconds", "seconds"), ("megabytes", "peak memory above the inputs, MB"))
Sweeps = Mapping[str, Mapping[str, Mapping[str, Any]]]  # kind of machine -> attention -> its sweep


def sweeps(files: Mapping[str, Mapping[str, Any]]) -> Sweeps:
    """What the picture shows, of the machines on which every attention was measured."""
    measured = {kind: files[kind]["parts"].get("attention") for kind in KINDS if kind in files}
    return {kind: attentions for kind, attentions in measured.items() if attentions}


def growth_figure(measured: Sweeps) -> Figure:
    """A row of panels for each machine."""
    figure = blank_figure(11.0, 0.8 + 4.6 * len(measured), "Forward and backward of each attention by length, float32")
    rows = figure.subplots(len(measured), len(PANELS), squeeze=False)
    for row, (kind, attentions) in zip(rows, measured.items(), strict=True):
        for axes, (key, label) in zip(row, PANELS, strict=True):
            for number, (name, sweep) in enumerate(attentions.items()):
                figures = series(sweep["rows"], key)
                points = {length: value for length, value in figures.items() if value and value > 0}
                turn, colour = divmod(number, len(COLOURS))
                style = {"color": COLOURS[colour], "linestyle": DASHES[turn % 3], "marker": MARKERS[turn % 3]}
                axes.plot(list(points), list(points.values()), label=name, markersize=4, linewidth=1.3, **style)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xlabel("length L")
            lighten(axes)
            axes.set_ylabel(label)
            axes.set_title(KINDS[kind], fontsize="medium")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    return figure


def write(measured: Sweeps, path: Path) -> None:
    """As PNG with both digests in it: another version of matplotlib draws other pixels of the same figures."""
    buffer = io.BytesIO()
    growth_figure(measured).savefig(buffer, format="png", dpi=DPI)
    with Image.open(buffer) as image:
        text = PngImagePlugin.PngInfo()
        for key, value in _digests(measured, image).items():
            text.add_text(key, value)
        image.save(path, format="png", pnginfo=text)


def is_of(measured: Sweeps, path: Path) -> bool:
    """Whether a PNG was drawn from these figures and nobody has changed it since."""
    try:
        with Image.open(path) as image:
            return all(image.info.get(key) == value for key, value in _digests(measured, image).items())
    except OSError:
        return False


def _digests(measured: Sweeps, image: Image.Image) -> dict[str, str]:
    """16 hex digits for the figures drawn, and for the pixels, as they stand in the PNG's own text."""
    contents = {"Source": json.dumps(measured, sort_keys=True).encode(), "Pixels": image.tobytes()}
    return {key: hashlib.sha256(content).hexdigest()[:16] for key, content in contents.items()}
