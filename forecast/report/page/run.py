"""The page of one run: the verdict first, then its figures, what they are made of, and how the run came about."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.report.forecasters import best_baseline
from forecast.report.page.attention import attention_piece
from forecast.report.page.charts import (
    bars_chart,
    coverage_chart,
    forecasts_chart,
    reliability_chart,
    steps_chart,
)
from forecast.report.page.document import Card, Cards, Drawn, Piece, Section, Text, chart, render
from forecast.report.page.parts import ZOOM, data_section, held, origin_section, ranked_series, table, verdict
from forecast.report.tables import (
    UNITS,
    board_table,
    columns_table,
    covariates_table,
    offsets_table,
    scores_table,
    series_table,
    short_number,
    steps_table,
)
from forecast.report.verdict import intervals_table
from forecast.report.verdict import verdict as sentences
from forecast.run_folder.shapes import Block, Metrics, Origin, is_many
from forecast.text.terminal import label

NAMED = 3  # columns with a card of their own, where no target is named
SMALL = 0.01  # of the MAE: a column that is worth less has no long bar


def run_page(
    metrics: Metrics,
    split: str,
    *,
    by_step: Mapping[str, Sequence[float]],
    windows: Mapping[str, npt.NDArray[Any]],
    ahead: Mapping[str, npt.NDArray[Any]] | None = None,
    attention: Mapping[str, npt.NDArray[np.generic]] | None = None,
    series: pd.DataFrame | None,
    origin: Origin,
) -> str:
    """The page of a run, from what its files hold.

    by_step: the columns of metrics_by_step.csv. windows: forecasts.npz. ahead: what is forecast after the data, in the
    same form, which the page then shows first. attention: attention.npz, where there is one.
    series: errors_by_series.csv of a panel, whose first column is the id. origin: `config`, `choices`, `data` and
    `versions` of the checkpoint. Costs and times have no part in it: the same figures are the same page.
    """
    best = best_baseline(metrics)
    data = metrics.get("evaluated_file") or metrics["data"]
    offsets = offsets_table(metrics, split) if "offsets" in metrics else None
    scaling, units = metrics.get("scaling") or "series", "in standard deviations of the train rows"
    if is_many(metrics, split) or scaling != "series":
        units = UNITS.get(scaling, units)
    return render(
        title=f"{label(str(metrics['model']))} on {label(str(data))}",
        subtitle=[line for line in str(scores_table(metrics, split).title).split("\n") if line],
        terms={"scaled": units},
        sections=[
            Section("ahead", "The forecast", [] if ahead is None else [_ahead(ahead, metrics)]),
            Section("", "", [verdict(sentences(metrics, split)), _cards(metrics, split, units)]),
            Section("leaderboard", "Models tried", _leaderboard(metrics.get("leaderboard"))),
            Section("forecasts", "Forecasts", [_forecasts(metrics, split, windows)]),
            Section(
                "errors",
                "Errors",
                [table(scores_table(metrics, split), titled=False), table(columns_table(metrics, split))],
            ),
            Section(
                "steps",
                "Error by step",
                [Drawn(steps_chart(by_step, best.key if best else "")), table(steps_table(by_step)), table(offsets)],
            ),
            Section("reliability", "Reliability of the intervals", _reliability(metrics, split, by_step)),
            Section("series", "Series", _series(metrics, split, series)),
            Section("covariates", "What the other columns are worth", _covariates(metrics, split)),
            Section("attention", "Attention", [] if attention is None else [attention_piece(attention)]),
            data_section(origin["data"], origin["scale"], metrics, split),
            origin_section(origin),
        ],
    )


def _ahead(windows: Mapping[str, npt.NDArray[Any]], metrics: Metrics) -> Piece:
    drawn, left_out = forecasts_chart(windows, None, metrics.get("target"), title="The forecast")
    shown = f"{len(drawn['picks'][0]['names'])} series. " if "series" in windows else ""
    return Drawn(drawn, f"{shown}{ZOOM} {left_out}".strip())


def _cards(metrics: Metrics, split: str, units: str) -> Cards:
    """The error in the file's own units first, of the target or of a few columns; then those that need none."""
    block, best = metrics[split], best_baseline(metrics)
    columns, target = block.get("columns") or {}, str(metrics.get("target"))
    names = [target] if target in columns else list(columns) if len(columns) <= NAMED else []
    cards = []
    for name in names:
        theirs = best.error("columns", name, "original", "mae") if best else None
        beside = f"; {short_number(theirs)} of {best.name}, the best baseline" if best and theirs is not None else ""
        says = f"mean absolute error in the units of the file{beside}"
        cards.append(Card(f"mean error of {label(name, 30)}", short_number(columns[name]["original"]["mae"]), says))
    season = (metrics.get("mase_scale") or {}).get("period")
    before = f"that of the value {season} steps before" if season else "that of a naive forecast"
    skill = "-" if block.get("skill") is None else f"{block['skill']:.3f}"
    return Cards(
        [
            *cards,
            Card("MASE", short_number(block.get("mase")), f"mean absolute error, as a multiple of {before}"),
            Card("skill", skill, "by how much the MSE lies below that of seasonal naive: 1 is perfect, 0 no better"),
            *held(block.get("coverage") or {}),
            Card(
                "MAE, scaled",
                short_number(block["scaled"].get("mae")),
                f"mean absolute error, {units}",
            ),
            Card("MSE, scaled", short_number(block["scaled"].get("mse")), "mean squared error, in the same units"),
            Card("windows", f"{block.get('windows', 0):,}", f"forecasts of {metrics.get('pred_len')} steps in {split}"),
        ]
    )


def _leaderboard(board: Block | None) -> list[Piece | None]:
    """Of a run of `forecast auto`."""
    if not board:
        return []
    says = "Each figure is of all windows, scaled units; what was chosen was chosen on validation windows."
    return [
        Text(str(board["reason"])),
        table(board_table(board["rows"], error=board["error"]), titled=False),
        Text(says),
    ]


def _forecasts(metrics: Metrics, split: str, windows: Mapping[str, npt.NDArray[Any]]) -> Piece:
    drawn, left_out = forecasts_chart(windows, best_baseline(metrics), metrics.get("target"))
    shown = len(drawn["picks"][0]["names"])
    which = f"{shown} of {metrics[split]['windows']:,} windows of {split}, evenly spread."
    if "series" in windows:
        of = metrics[split]["series"]
        worst, best = len(of["worst"]), len(of["best"])
        between = f", and of {shown - worst - best} between them" * (shown > worst + best)
        which = f"The last windows of the {worst} worst and the {best} best of {of['count']:,} series{between}."
    return Drawn(drawn, f"{which} {ZOOM} {left_out}".strip())


def _reliability(metrics: Metrics, split: str, by_step: Mapping[str, Sequence[float]]) -> list[Piece | None]:
    intervals = metrics[split].get("intervals")
    if not intervals:
        return []
    says = "Where the line lies below the grey one, intervals hold less than they say."
    return [
        table(intervals_table(metrics, split)),
        chart(reliability_chart(intervals["reliability"], split), says),
        chart(coverage_chart(by_step), title="Coverage by step"),
    ]


def _series(metrics: Metrics, split: str, series: pd.DataFrame | None) -> list[Piece | None]:
    if series is None or not is_many(metrics, split):
        return []
    headings = {"MASE": "mase", "RMSSE": "rmsse", "sMAPE %": "smape", "WAPE": "wape"}
    columns = {name: series[key].to_numpy() for name, key in headings.items()}
    names = [str(name) for name in series.iloc[:, 0]]
    return [table(series_table(metrics, split)), *ranked_series(names, columns)]


def _covariates(metrics: Metrics, split: str) -> list[Piece | None]:
    worth = metrics[split].get("covariates")
    if not worth:
        return []
    ranked = sorted(worth.items(), key=lambda item: -item[1]["importance"])
    bars = [(name, row["importance"], row["error"]) for name, row in ranked]
    mae = metrics[split]["scaled"]["mae"] or 0.0
    drawn = bars_chart("Worth of the columns", bars, span=SMALL * mae)
    says = "By how much the MAE, scaled, grows when windows exchange the column, with the standard error."
    return [Drawn(drawn, says), table(covariates_table(metrics, split), titled=False)]
