"""The page of one run: the verdict first, then its figures, what they are made of, and how the run came about."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.report.forecasters import best_baseline
from forecast.report.intervals import intervals_table
from forecast.report.page.charts import (
    MOST_BARS,
    Chart,
    bars_chart,
    coverage_chart,
    forecasts_chart,
    is_counted,
    ranks_chart,
    reliability_chart,
    residuals_chart,
    steps_chart,
)
from forecast.report.page.document import Section, chart, document, facts, folded, paragraph, text
from forecast.report.page.origin import config_rows, data_rows, scaler_rows
from forecast.report.page.tables import html_table, plain_table
from forecast.report.tables import (
    columns_table,
    covariates_table,
    offsets_table,
    scores_table,
    series_table,
    short_number,
    steps_table,
)
from forecast.report.verdict import TRAIN, verdict
from forecast.text.terminal import label

Draw = Callable[[Chart | None], str]
ZOOM = "Drag across a picture to zoom, double-click to see all of it."
SMALL = 0.01  # of the MAE: a column that is worth less has no long bar
NO_SCRIPT = "The pictures need JavaScript; all else on this page does not."


def run_page(
    metrics: Mapping[str, Any],
    split: str,
    *,
    by_step: Mapping[str, Sequence[float]],
    windows: Mapping[str, npt.NDArray[Any]],
    residuals: pd.DataFrame,
    series: pd.DataFrame | None,
    record: Mapping[str, Any],
) -> str:
    """The page of a run, from what its files hold.

    by_step: the columns of metrics_by_step.csv. windows: forecasts.npz. residuals: residuals.csv. series:
    errors_by_series.csv of a panel, whose first column is the id. record: `config`, `choices`, `data` and `versions` of
    the checkpoint. Costs and times have no part in it: the same figures are the same page.
    """
    charts: list[Chart] = []

    def draw(made: Chart | None) -> str:
        if made is None:
            return ""
        charts.append(made)
        return chart(len(charts) - 1, square=made.get("square", False))

    data = metrics.get("evaluated_file") or metrics["data"]
    return document(
        title=f"{label(str(metrics['model']))} on {label(str(data))}",
        subtitle=[line for line in str(scores_table(metrics, split).title).split("\n") if line],
        lead=[_verdict(metrics, split), _tiles(metrics, split), paragraph(NO_SCRIPT, "note drawless")],
        sections=[
            Section("forecasts", "Forecasts", _forecasts(metrics, split, windows, draw)),
            Section("errors", "Errors", _errors(metrics, split)),
            Section("steps", "Error by step", _steps(metrics, split, by_step, draw)),
            Section("reliability", "Reliability of the intervals", _reliability(metrics, split, by_step, draw)),
            Section("residuals", "Error over time", _over_time(residuals, is_counted(windows), draw)),
            Section("series", "Series", _series(metrics, split, series, draw)),
            Section("covariates", "What the other columns are worth", _covariates(metrics, split, draw)),
            Section("data", "Data", [facts(data_rows(record["data"], metrics, split)), _scaler(record["data"])]),
            Section("run", "How the run came about", _origin(record)),
        ],
        charts=charts,
    )


def _verdict(metrics: Mapping[str, Any], split: str) -> str:
    """The sentences of the verdict, commands as code."""
    lines = []
    for sentence in verdict(metrics, split):
        before, command, rest = sentence.partition(TRAIN)
        shown = f"<br><code>{text(command + rest)}</code>" if command else ""
        lines.append(f"<p>{text(before)}{shown}</p>")
    return f'<div class="verdict" id="verdict">\n{"".join(lines)}\n</div>'


def _tiles(metrics: Mapping[str, Any], split: str) -> str:
    block = metrics[split]
    found = {
        "MSE, scaled": short_number(block["scaled"].get("mse")),
        "MAE, scaled": short_number(block["scaled"].get("mae")),
        "MASE": short_number(block.get("mase")),
        "skill": "-" if block.get("skill") is None else f"{block['skill']:.3f}",
    }
    for level, share in (block.get("coverage") or {}).items():
        found[f"{level} % intervals held"] = "-" if share is None else f"{100.0 * share:.1f} %"
    found["windows"] = f"{block.get('windows', 0):,}"
    tiles = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in found.items())
    return f'<dl class="tiles">{tiles}</dl>'


def _forecasts(
    metrics: Mapping[str, Any], split: str, windows: Mapping[str, npt.NDArray[Any]], draw: Draw
) -> list[str]:
    made, left_out = forecasts_chart(windows, best_baseline(metrics), metrics.get("target"))
    if "series" in windows:
        of = metrics[split]["series"]
        between = len(made["picks"][0]["names"]) - len(of["worst"]) - len(of["best"])
        which = (
            f"The last windows of the {len(of['worst'])} worst and the {len(of['best'])} best of {of['count']:,} series"
        )
        which += f", and of {between} between them." if between > 0 else "."
    else:
        which = f"{len(made['picks'][0]['names'])} of {metrics[split]['windows']:,} windows of {split}, evenly spread."
    return [paragraph(f"{which} {ZOOM} {left_out}".strip()), draw(made)]


def _errors(metrics: Mapping[str, Any], split: str) -> list[str]:
    return [html_table(scores_table(metrics, split), titled=False), html_table(columns_table(metrics, split))]


def _steps(metrics: Mapping[str, Any], split: str, by_step: Mapping[str, Sequence[float]], draw: Draw) -> list[str]:
    best = best_baseline(metrics)
    offsets = html_table(offsets_table(metrics, split)) if "offsets" in metrics else ""
    return [draw(steps_chart(by_step, best.key if best else "")), html_table(steps_table(by_step)), offsets]


def _reliability(
    metrics: Mapping[str, Any], split: str, by_step: Mapping[str, Sequence[float]], draw: Draw
) -> list[str]:
    found = metrics[split].get("intervals")
    if not found:
        return []
    drawn, by = draw(reliability_chart(found["reliability"], split)), draw(coverage_chart(by_step))
    return [
        html_table(intervals_table(metrics, split)),
        paragraph("Where the line lies below the grey one, intervals hold less than they say.") if drawn else "",
        drawn,
        "<h3>Coverage by step</h3>" if by else "",
        by,
    ]


def _over_time(residuals: pd.DataFrame, counted: bool, draw: Draw) -> list[str]:
    says = (
        "Each point is the mean of forecast less truth over successive windows, scaled; the area holds the middle 80 % "
        "of them. Above 0 forecasts are too high. A line that leaves 0 and stays away is a drift."
    )
    drawn = draw(residuals_chart(residuals, counted=counted))
    return [paragraph(says), drawn] if drawn else []


def _series(metrics: Mapping[str, Any], split: str, series: pd.DataFrame | None, draw: Draw) -> list[str]:
    if series is None or "series" not in metrics[split]:
        return []
    table = html_table(series_table(metrics, split))
    known = series[np.isfinite(series["mase"])]
    if known.empty:
        return [table]
    worst = known.sort_values("mase", ascending=False, kind="stable").head(MOST_BARS)
    names = [str(name) for name in worst.iloc[:, 0]]
    bars = [(name, float(mase), None) for name, mase in zip(names, worst["mase"], strict=True)]
    ranks = draw(ranks_chart(known["mase"].to_numpy())) if len(known) > 2 else ""
    heading = f"<h3>The {len(worst)} largest MASE of {len(known):,}</h3>"
    columns = [[_figure(value) for value in worst[key]] for key in ("mase", "rmsse", "smape", "wape")]
    rows = list(zip(names, *columns, strict=True))
    listed = plain_table(["", "MASE", "RMSSE", "sMAPE %", "WAPE"], rows, ["", *["number"] * 4])
    return [table, ranks, heading, draw(bars_chart("The worst series", bars)), folded("as a table", listed)]


def _figure(value: float) -> str:
    return short_number(float(value)) if np.isfinite(value) else "-"


def _covariates(metrics: Mapping[str, Any], split: str, draw: Draw) -> list[str]:
    found = metrics[split].get("covariates")
    if not found:
        return []
    ranked = sorted(found.items(), key=lambda item: -item[1]["importance"])
    bars = [(name, row["importance"], row["error"]) for name, row in ranked]
    span = SMALL * metrics[split]["scaled"]["mae"]
    says = "By how much the MAE, scaled, grows when windows exchange the column, with the standard error."
    return [
        paragraph(says),
        draw(bars_chart("Worth of the columns", bars, span=span)),
        html_table(covariates_table(metrics, split), titled=False),
    ]


def _scaler(data: Mapping[str, Any]) -> str:
    rows, more = scaler_rows(data)
    if not rows:
        return ""
    table = plain_table(["column", "mean", "standard deviation"], rows, ["", "number", "number"], more)
    return f"<h3>By what values are scaled</h3>\n{table}"


def _origin(record: Mapping[str, Any]) -> list[str]:
    versions = [(str(key), str(value)) for key, value in record["versions"].items()]
    chosen = [(str(key), str(value)) for key, value in sorted(record["choices"].items()) if value is not None]
    config = facts(config_rows(record["config"]))
    return ["<h3>Versions</h3>", facts(versions), "<h3>Config</h3>", facts(chosen), folded("every key", config)]
