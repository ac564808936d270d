"""report.html of a backtest: whether it would have worked first, then its forecasts, errors and origin."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import pandas as pd

from forecast.comparison.backtests import METRICS, MODEL, rivals, sentences
from forecast.comparison.bootstrap import LEVEL
from forecast.comparison.fold_forecasts import fold_forecasts_chart, is_counted, ranked_places
from forecast.comparison.fold_sums import FoldSums
from forecast.report.forecasters import baseline_name
from forecast.report.page.charts import (
    Chart,
    coverage_chart,
    folds_chart,
    milliseconds,
    points_chart,
    steps_chart,
    time_axis,
    with_far,
)
from forecast.report.page.document import Section, document, facts, folded, paragraph
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
from forecast.report.page.tables import html_table, plain_table
from forecast.report.tables import short_number, steps_table
from forecast.run_folder.shapes import Backtest, Fold, Metrics, Origin, errors_in
from forecast.text.terminal import label

MOST_ROWS = 400  # of the table of folds
REFITS = {
    "never": "one training before the first forecast",
    "every_fold": "a training before each forecast",
    "warm": "a training before each forecast, from the weights of the one before",
}
WINDOWS = {"expanding": "all rows before it", "sliding": "as many rows as the first"}
COVERAGE_STYLES = ("forecast", "other3", "other1", "other2")


class Made(NamedTuple):
    """What the sections are made from.

    found: backtest.json. made_from: names of the folds. counted: whether rows have numbers in place of times.
    """

    found: Backtest
    sums: FoldSums
    made_from: Sequence[str]
    counted: bool
    draw: Drawing


def backtest_page(found: Backtest, sums: FoldSums, tables: Callable[[], Iterable[pd.DataFrame]], origin: Origin) -> str:
    """The page, from backtest.json, the sums over its table and the table itself, part by part.

    origin: `config`, `choices`, `data` and `versions` of the first training's checkpoint, or of the one
    that looked back.
    """
    counted, data, draw = is_counted(next(iter(tables()))), origin["data"], Drawing()
    made_from = [moment_name(fold["cutoff"], counted) for fold in found["by_fold"]]
    if sums.apart:
        made_from = [f"{number}: {moment} on" for number, moment in enumerate(made_from, start=1)]
    shown: Metrics = {"data": found["data"], "test": {}}
    of = Made(found, sums, made_from, counted, draw)
    return document(
        title=f"{label(str(found['model']))} looked back on {label(str(found['data']))}",
        subtitle=[
            f"{len(made_from)} forecasts of {found['pred_len']} steps from the last {found['seq_len']}, every "
            f"{found['step']}: {REFITS[found['refit']]}",
            "errors in standard deviations of the rows before the first forecast",
        ],
        lead=[
            verdict_box(sentences(_with_steps(found) if counted else found)),
            _tiles(found),
            paragraph(NO_SCRIPT, "note drawless"),
        ],
        sections=[
            Section("forecasts", "Forecasts", _forecasts(of, tables)),
            Section("baselines", "Beside the baselines", _baselines(found, draw)),
            Section("folds", "Error by fold", _folds(of)),
            Section("steps", "Error by step", _steps(found, sums, draw)),
            Section("intervals", "Intervals", _intervals(of)),
            Section("series", "Series", _series(sums, draw)),
            Section("data", "Data", [facts(data_rows(data, shown, "test")), scaler_part(data)]),
            Section("run", "How it came about", [*_settings(found), *origin_parts(origin)]),
        ],
        charts=draw.charts,
    )


def moment_name(cutoff: str, counted: bool) -> str:
    """The time of a last known row as short as it can be, or its number."""
    if counted:
        return str(milliseconds(pd.DatetimeIndex([cutoff]), counted)[0])
    return cutoff.removesuffix(" 00:00:00").removesuffix(":00")


def _with_steps(found: Backtest) -> Backtest:
    """backtest.json, whose folds are made from steps in place of times that no clock has measured."""
    named = [{**fold, "cutoff": f"step {moment_name(fold['cutoff'], True)}"} for fold in found["by_fold"]]
    return {**found, "by_fold": cast(list[Fold], named)}


def _tiles(found: Backtest) -> str:
    ours, names = found["overall"][MODEL], rivals(found)
    shown = {f"{key.upper()}{', scaled' * (key != 'mase')}": short_number(ours[key]) for key in METRICS}
    if names:
        best = names[0]
        shown[f"MSE of {baseline_name(best)}"] = short_number(found["overall"][best]["mse"])
        shown["lower MSE in"] = f"{found['differences'][best]['better_in']} of {found['differences'][best]['folds']}"
    for level, share in found["coverage"].items():
        if share is not None:
            shown[f"{level} % intervals held"] = f"{100 * share:.1f} %"
    return tiles(shown)


def _forecasts(of: Made, tables: Callable[[], Iterable[pd.DataFrame]]) -> list[str]:
    found, sums, made_from, counted, draw = of
    ranked = ranked_places(sums.scales, sums.by_series(), found.get("target"))
    made, chosen = fold_forecasts_chart(
        tables(),
        sums.scales,
        made_from={fold["fold"]: name for fold, name in zip(found["by_fold"], made_from, strict=True)},
        pred_len=found["pred_len"],
        ranked=ranked,
        best=next(iter(rivals(found)), None),
        levels=[level for level, share in found["coverage"].items() if share is not None],
        counted=counted,
    )
    shown = len(made["picks"][0]["names"])
    which = [f"{shown} of {len(made_from)} forecasts, evenly spread."] if shown < len(made_from) else []
    if chosen < len(ranked) and "id" in sums.scales:
        which.append(f"{chosen} of {len(ranked):,} series, from the worst to the best by MASE.")
    elif chosen < len(ranked):
        which.append(f"{chosen} of {len(ranked):,} target columns.")
    past = "What was known before is drawn as far as earlier forecasts reach."
    return [paragraph(" ".join([*which, past, ZOOM])), draw(made)]


def _baselines(found: Backtest, draw: Drawing) -> list[str]:
    """All errors beside one another, and how sure the differences are."""
    names, per_cent = rivals(found), f"{100 * LEVEL:.0f} %"
    rows: list[list[str]] = []
    points: list[tuple[str, float, float, float]] = []
    for name in (MODEL, *names):
        errors, difference = found["overall"][name], found["differences"].get(name) if name != MODEL else None
        cells = [_name(found, name), *(short_number(errors[key]) for key in METRICS)]
        if difference is None:
            rows.append([*cells, "", "", ""])
            continue
        low, high, mse = difference["low"], difference["high"], errors["mse"]
        interval = "-" if low is None else f"{low:+.4f} to {high:+.4f}"
        often = f"{difference['better_in']} of {difference['folds']}"
        rows.append([*cells, f"{difference['mse']:+.4f}", interval, often])
        if mse and low is not None and high is not None:
            points.append((_name(found, name), 100 * difference["mse"] / mse, 100 * low / mse, 100 * high / mse))
    says = (
        f"By how many per cent of a baseline's MSE the model's lies below it (left of the line) or above, with the "
        f"{per_cent} interval over the forecasts, paired. A filled point: the interval leaves 0 out."
    )
    heads = ["", "MSE", "MAE", "MASE", "model less it", f"{per_cent} interval", "model better in"]
    table = plain_table(heads, rows, ["", *["number"] * 6])
    picture = [paragraph(says), draw(points_chart("The model beside each baseline", points))] if points else []
    return [*picture, table]


def _name(found: Backtest, name: str) -> str:
    return label(str(found["model"])) if name == MODEL else baseline_name(name)


def _styles(found: Backtest) -> dict[str, str]:
    """The model, then the baselines by their MSE, with the style of each."""
    styles = ("forecast", "baseline", *(f"other{i}" for i in range(1, 6)))
    return {name: styles[min(i, len(styles) - 1)] for i, name in enumerate((MODEL, *rivals(found)))}


def _places(of: Made) -> tuple[list[int], Chart]:
    """Where the folds lie on an x axis: their times, or numbers where series of a panel end at different ones."""
    found, sums, _, counted, _ = of
    times = milliseconds(pd.DatetimeIndex([fold["cutoff"] for fold in found["by_fold"]]), counted)
    if not sums.apart:
        return times, time_axis(counted, "made from step" if counted else "")
    return list(range(1, len(times) + 1)), {"kind": "number", "label": "fold"}


def _folds(of: Made) -> list[str]:
    found, _, made_from, _, draw = of
    folds, styles = found["by_fold"], _styles(found)
    x, axis = _places(of)
    panels = {
        f"{key.upper()}{', scaled' * (key != 'mase')}": {
            _name(found, name): [errors_in(fold, name)[key] for fold in folds] for name in styles
        }
        for key in METRICS
    }
    named = {_name(found, name): style for name, style in styles.items()}
    drawn = with_far(folds_chart("Error by fold", x, panels, named, axis=axis))
    shown = folds if len(folds) <= MOST_ROWS else folds[-MOST_ROWS:]
    rows = [
        [moment, *(short_number(errors_in(fold, name)["mse"]) for name in styles)]
        for moment, fold in zip(made_from[-len(shown) :], shown, strict=True)
    ]
    heads = ["made from", *(_name(found, name) for name in styles)]
    table = plain_table(heads, rows, ["", *["number"] * len(styles)], f"MSE; the last {len(rows)} of {len(folds)}")
    return [far_note(drawn), draw(drawn), folded("as a table", table)]


def _steps(found: Backtest, sums: FoldSums, draw: Drawing) -> list[str]:
    names = rivals(found)
    by_step = sums.by_step(names)
    drawn = steps_chart(by_step, names[0] if names else "")
    return [far_note(drawn), draw(drawn), html_table(steps_table(by_step))]


def _intervals(of: Made) -> list[str]:
    found, sums, _, _, draw = of
    levels = [level for level, share in found["coverage"].items() if share is not None]
    if not levels:
        return []
    x, axis = _places(of)
    lines: dict[str, list[float | None]] = {}
    styles: dict[str, str] = {}
    for i, level in enumerate(levels):
        held = [fold["coverage"][level] for fold in found["by_fold"]]
        lines[f"{level} %"] = [None if share is None else 100 * share for share in held]
        lines[f"{level} % as it says"] = [float(level)] * len(held)
        styles |= {f"{level} %": COVERAGE_STYLES[min(i, 3)], f"{level} % as it says": "past"}
    drawn = folds_chart("Coverage by fold", x, {"share of truths inside": lines}, styles, axis=axis, per_cent=True)
    return [
        "<h3>Coverage by fold</h3>",
        draw(drawn),
        "<h3>Coverage by step</h3>",
        draw(coverage_chart(sums.by_step([]))),
    ]


def _series(sums: FoldSums, draw: Drawing) -> list[str]:
    if "id" not in sums.scales:
        return []
    scales, errors = sums.scales, sums.by_series()
    several = scales["target"].nunique() > 1
    names = [
        f"{series}, {target}" if several else str(series)
        for series, target in zip(scales["id"], scales["target"], strict=True)
    ]
    return ranked_series(names, {key.upper(): errors[key] for key in ("mase", "mse", "mae")}, draw)


def _settings(found: Backtest) -> list[str]:
    trained = [("a training learns from", WINDOWS[found["window"]])] if found["refit"] != "never" else []
    rows = [
        ("forecasts", f"{found['folds']}, {found['step']} rows apart, of {found['pred_len']} steps"),
        ("trainings", REFITS[found["refit"]]),
        *trained,
        ("seed", str(found["seed"])),
    ]
    return ["<h3>The backtest</h3>", facts(rows)]
