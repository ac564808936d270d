"""The page of one run: the verdict first, then its figures, what they are made of, and how the run came about."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import pandas as pd

from forecast.report.forecasters import best_baseline
from forecast.report.intervals import intervals_table
from forecast.report.leaderboard import board_table, rests_on_tables
from forecast.report.page.charts import bars_chart, coverage_chart, reliability_chart, residuals_chart, steps_chart
from forecast.report.page.document import Section, document, facts, paragraph
from forecast.report.page.forecasts import forecasts_chart, is_counted
from forecast.report.page.origin import data_rows
from forecast.report.page.parts import (
    NO_SCRIPT,
    ZOOM,
    Drawing,
    far_note,
    origin_parts,
    ranked_series,
    scaler_part,
    tiles,
    verdict_box,
)
from forecast.report.page.tables import html_table
from forecast.report.tables import (
    columns_table,
    covariates_table,
    offsets_table,
    scores_table,
    series_table,
    short_number,
    steps_table,
)
from forecast.report.verdict import verdict
from forecast.run_folder.shapes import Metrics, Origin, block_of
from forecast.text.terminal import label

SMALL = 0.01  # of the MAE: a column that is worth less has no long bar


def run_page(
    metrics: Metrics,
    split: str,
    *,
    by_step: Mapping[str, Sequence[float]],
    windows: Mapping[str, npt.NDArray[Any]],
    ahead: Mapping[str, npt.NDArray[Any]] | None = None,
    residuals: pd.DataFrame,
    series: pd.DataFrame | None,
    origin: Origin,
) -> str:
    """The page of a run, from what its files hold.

    by_step: the columns of metrics_by_step.csv. windows: forecasts.npz. ahead: what is forecast
    after the data, in the same form, which the page then shows first. residuals: residuals.csv. series:
    errors_by_series.csv of a panel, whose first column is the id. origin: `config`, `choices`, `data` and `versions` of
    the checkpoint. Costs and times have no part in it: the same figures are the same page.
    """
    draw = Drawing()
    data = metrics.get("evaluated_file") or metrics["data"]
    return document(
        title=f"{label(str(metrics['model']))} on {label(str(data))}",
        subtitle=[line for line in str(scores_table(metrics, split).title).split("\n") if line],
        lead=[
            *_ahead(ahead, metrics, draw),
            verdict_box(verdict(metrics, split)),
            _tiles(metrics, split),
            paragraph(NO_SCRIPT, "note drawless"),
        ],
        sections=[
            Section("leaderboard", "Models tried", _leaderboard(metrics)),
            Section("forecasts", "Forecasts", _forecasts(metrics, split, windows, draw)),
            Section("errors", "Errors", _errors(metrics, split)),
            Section("steps", "Error by step", _steps(metrics, split, by_step, draw)),
            Section("reliability", "Reliability of the intervals", _reliability(metrics, split, by_step, draw)),
            Section("residuals", "Error over time", _over_time(residuals, is_counted(windows), draw)),
            Section("series", "Series", _series(metrics, split, series, draw)),
            Section("covariates", "What the other columns are worth", _covariates(metrics, split, draw)),
            Section("rests_on", "What the forecasts rest on", list(map(html_table, rests_on_tables(metrics)))),
            Section("data", "Data", [facts(data_rows(origin["data"], metrics, split)), scaler_part(origin["data"])]),
            Section("run", "How the run came about", origin_parts(origin)),
        ],
        charts=draw.charts,
    )


def _ahead(windows: Mapping[str, npt.NDArray[Any]] | None, metrics: Metrics, draw: Drawing) -> list[str]:
    """The forecast after the data, in one part; nothing without one."""
    if windows is None:
        return []
    heading = "The forecast"
    made, left_out = forecasts_chart(windows, None, metrics.get("target"), title=heading)
    shown = f"{len(made['picks'][0]['names'])} series. " if "series" in windows else ""
    says = paragraph(f"{shown}{ZOOM} {left_out}".strip())
    return [f'<div id="ahead">\n<h2>{heading}</h2>\n{says}\n{draw(made)}\n</div>']


def _leaderboard(metrics: Metrics) -> list[str]:
    """Of a run of `forecast auto`."""
    board = metrics.get("leaderboard")
    if not board:
        return []
    says = "Each figure is of all windows, scaled units; what was chosen was chosen on validation windows."
    table = html_table(board_table(board["rows"], error=board["error"]), titled=False)
    return [paragraph(str(board["reason"])), table, paragraph(says)]


def _tiles(metrics: Metrics, split: str) -> str:
    block = block_of(metrics, split)
    found = {
        "MSE, scaled": short_number(block["scaled"].get("mse")),
        "MAE, scaled": short_number(block["scaled"].get("mae")),
        "MASE": short_number(block.get("mase")),
        "skill": "-" if block.get("skill") is None else f"{block['skill']:.3f}",
    }
    for level, share in (block.get("coverage") or {}).items():
        found[f"{level} % intervals held"] = "-" if share is None else f"{100.0 * share:.1f} %"
    found["windows"] = f"{block.get('windows', 0):,}"
    return tiles(found)


def _forecasts(metrics: Metrics, split: str, windows: Mapping[str, npt.NDArray[Any]], draw: Drawing) -> list[str]:
    made, left_out = forecasts_chart(windows, best_baseline(metrics), metrics.get("target"))
    if "series" in windows:
        of = block_of(metrics, split)["series"]
        between = len(made["picks"][0]["names"]) - len(of["worst"]) - len(of["best"])
        which = (
            f"The last windows of the {len(of['worst'])} worst and the {len(of['best'])} best of {of['count']:,} series"
        )
        which += f", and of {between} between them." if between > 0 else "."
    else:
        windows_of = f"{block_of(metrics, split)['windows']:,} windows of {split}"
        which = f"{len(made['picks'][0]['names'])} of {windows_of}, evenly spread."
    return [paragraph(f"{which} {ZOOM} {left_out}".strip()), draw(made)]


def _errors(metrics: Metrics, split: str) -> list[str]:
    return [html_table(scores_table(metrics, split), titled=False), html_table(columns_table(metrics, split))]


def _steps(metrics: Metrics, split: str, by_step: Mapping[str, Sequence[float]], draw: Drawing) -> list[str]:
    best = best_baseline(metrics)
    offsets = html_table(offsets_table(metrics, split)) if "offsets" in metrics else ""
    drawn = steps_chart(by_step, best.key if best else "")
    return [far_note(drawn), draw(drawn), html_table(steps_table(by_step)), offsets]


def _reliability(metrics: Metrics, split: str, by_step: Mapping[str, Sequence[float]], draw: Drawing) -> list[str]:
    found = block_of(metrics, split).get("intervals")
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


def _over_time(residuals: pd.DataFrame, counted: bool, draw: Drawing) -> list[str]:
    says = (
        "Each point is the mean of forecast less truth over successive windows, scaled; the area holds the middle 80 % "
        "of them. Above 0 forecasts are too high. A line that leaves 0 and stays away is a drift."
    )
    drawn = draw(residuals_chart(residuals, counted=counted))
    return [paragraph(says), drawn] if drawn else []


def _series(metrics: Metrics, split: str, series: pd.DataFrame | None, draw: Drawing) -> list[str]:
    if series is None or "series" not in block_of(metrics, split):
        return []
    table = html_table(series_table(metrics, split))
    headings = {"MASE": "mase", "RMSSE": "rmsse", "sMAPE %": "smape", "WAPE": "wape"}
    metrics_of = {name: series[key].to_numpy() for name, key in headings.items()}
    return [table, *ranked_series([str(name) for name in series.iloc[:, 0]], metrics_of, draw)]


def _covariates(metrics: Metrics, split: str, draw: Drawing) -> list[str]:
    found = block_of(metrics, split).get("covariates")
    if not found:
        return []
    ranked = sorted(found.items(), key=lambda item: -item[1]["importance"])
    bars = [(name, row["importance"], row["error"]) for name, row in ranked]
    span = SMALL * (block_of(metrics, split)["scaled"]["mae"] or 0.0)
    says = "By how much the MAE, scaled, grows when windows exchange the column, with the standard error."
    return [
        paragraph(says),
        draw(bars_chart("Worth of the columns", bars, span=span)),
        html_table(covariates_table(metrics, split), titled=False),
    ]
