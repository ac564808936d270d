"""What the pages of a run, a backtest and a comparison have in common, beside their charts and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from forecast.report.page.charts import MOST_BARS, Chart, bars_chart, ranks_chart
from forecast.report.page.document import chart, facts, folded, paragraph, text
from forecast.report.page.origin import config_rows, scaler_rows
from forecast.report.page.tables import plain_table
from forecast.report.tables import short_number
from forecast.report.verdict import TRAIN
from forecast.run_folder.shapes import DataRecord, Origin

ZOOM = "Drag across a picture to zoom, double-click to see all of it."
FAR = "A name that is struck out is drawn when it is pressed; its line would squeeze the others."
NO_SCRIPT = "The pictures need JavaScript; all else on this page does not."


class Drawing:
    """The charts of a page in the order in which their places were made."""

    def __init__(self) -> None:
        self.charts: list[Chart] = []

    def __call__(self, made: Chart | None) -> str:
        """The place of a chart; nothing for None."""
        if made is None:
            return ""
        self.charts.append(made)
        return chart(len(self.charts) - 1, square=made.get("square", False))


def verdict_box(sentences: Sequence[str]) -> str:
    """The sentences of a verdict, commands as code."""
    lines = []
    for sentence in sentences:
        before, command, rest = sentence.partition(TRAIN)
        shown = f"<br><code>{text(command + rest)}</code>" if command else ""
        lines.append(f"<p>{text(before)}{shown}</p>")
    return f'<div class="verdict" id="verdict">\n{"".join(lines)}\n</div>'


def tiles(found: Mapping[str, str]) -> str:
    """Figures by their names, in boxes."""
    boxes = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in found.items())
    return f'<dl class="tiles">{boxes}</dl>'


def far_note(made: Chart) -> str:
    """A word on the lines that are not drawn at first; nothing without one."""
    return paragraph(FAR) if any(line.get("far") for line in made["lines"]) else ""


def figure(value: float) -> str:
    """A number as tables show it; a dash where none is known."""
    return short_number(float(value)) if np.isfinite(value) else "-"


def ranked_series(names: Sequence[str], metrics: Mapping[str, npt.NDArray[Any]], draw: Drawing) -> list[str]:
    """The series with the largest MASE, and all in order. metrics: by heading, `MASE` the first; none without MASE."""
    mase = metrics["MASE"]
    known = np.flatnonzero(np.isfinite(mase))
    if not len(known):
        return []
    worst = known[np.argsort(-mase[known], kind="stable")][:MOST_BARS]
    bars = [(names[i], float(mase[i]), None) for i in worst]
    rows = [[names[i], *(figure(values[i]) for values in metrics.values())] for i in worst]
    return [
        draw(ranks_chart(mase)) if len(known) > 2 else "",
        f"<h3>The {len(worst)} largest MASE of {len(known):,}</h3>",
        draw(bars_chart("The worst series", bars)),
        folded("as a table", plain_table(["", *metrics], rows, ["", *["number"] * len(metrics)])),
    ]


def scaler_part(data: DataRecord) -> str:
    """By what the values of a checkpoint's data are scaled; nothing where no column is."""
    rows, more = scaler_rows(data)
    if not rows:
        return ""
    table = plain_table(["column", "mean", "standard deviation"], rows, ["", "number", "number"], more)
    return f"<h3>By what values are scaled</h3>\n{table}"


def origin_parts(origin: Origin) -> list[str]:
    """How a checkpoint came about. origin: its `config`, `choices` and `versions`."""
    versions = [(str(key), str(value)) for key, value in origin["versions"].items()]
    chosen = [(str(key), str(value)) for key, value in sorted(origin["choices"].items()) if value is not None]
    config = facts(config_rows(origin["config"]))
    return ["<h3>Versions</h3>", facts(versions), "<h3>Config</h3>", facts(chosen), folded("every key", config)]
