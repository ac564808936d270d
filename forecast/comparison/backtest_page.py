"""report.html of a backtest: whether it would have worked first, then its forecasts, errors and origin."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.comparison.backtests import METRICS, MODEL, FoldSums, forecaster_names, rivals, scale_places, sentences
from forecast.comparison.bootstrap import LEVEL
from forecast.report.drawn import LEAST_PAST, step_numbers
from forecast.report.page.charts import (
    FEW_WINDOWS,
    LONGEST_CHOICE,
    MOST_CHOICES,
    Chart,
    column_names,
    coverage_chart,
    coverage_lines,
    evenly,
    forecast_lines,
    forecast_panel,
    forecast_spec,
    lines_chart,
    milliseconds,
    points_chart,
    room,
    steps_chart,
    time_axis,
)
from forecast.report.page.document import Card, Cards, Drawn, PageTable, Piece, Section, chart, facts, render
from forecast.report.page.parts import ZOOM, data_section, figure, held, origin_section, ranked_series, table, verdict
from forecast.report.tables import short_number, steps_table
from forecast.run_folder.shapes import Backtest, Origin
from forecast.text.terminal import label

Floats = npt.NDArray[np.float64]
MOST_ROWS = 400  # of the table of folds
REFITS = {
    "never": "one training before the first forecast",
    "every_fold": "a training before each forecast",
}
WINDOWS = {"expanding": "all rows before it", "sliding": "as many rows as the first"}
STYLES = ("forecast", "baseline", *(f"other{i}" for i in range(1, 6)))
UNITS = "in standard deviations of the train rows of the first model"


class PageContent(NamedTuple):
    """What the sections are made from.

    document: backtest.json. made_from: names of the folds. counted: whether rows have numbers in place of times.
    """

    document: Backtest
    sums: FoldSums
    made_from: Sequence[str]
    counted: bool

    @property
    def levels(self) -> list[str]:
        """Of its intervals, those that were measured."""
        return [level for level, share in self.document["coverage"].items() if share is not None]

    @property
    def names(self) -> dict[str, str]:
        """The model, then the baselines by their MSE, by what a reader sees of them."""
        return forecaster_names(self.document)

    @property
    def places(self) -> tuple[list[int], Chart]:
        """Where folds lie on an x axis: their times, or numbers where series of a panel end at different ones."""
        cutoffs = pd.DatetimeIndex([fold["cutoff"] for fold in self.document["by_fold"]])
        if self.sums.apart:
            return list(range(1, len(cutoffs) + 1)), {"kind": "number", "label": "fold"}
        return milliseconds(cutoffs, self.counted), time_axis(self.counted, "made from step" if self.counted else "")


def backtest_page(
    document: Backtest, sums: FoldSums, tables: Callable[[], Iterable[pd.DataFrame]], origin: Origin
) -> str:
    """The page, from backtest.json, the sums over its table and the table itself, part by part.

    origin: `config`, `choices`, `data` and `versions` of the first training's checkpoint, or of the one
    that looked back.
    """
    counted = is_counted(next(iter(tables())))
    cutoffs = [fold["cutoff"] for fold in document["by_fold"]]
    made_from = [cutoff.removesuffix(" 00:00:00").removesuffix(":00") for cutoff in cutoffs]
    verdict_of = document
    if counted:  # folds are made from steps in place of times that no clock has measured
        made_from = list(map(str, milliseconds(pd.DatetimeIndex(cutoffs), counted)))
        steps = [{**fold, "cutoff": f"step {name}"} for fold, name in zip(document["by_fold"], made_from, strict=True)]
        verdict_of = {**document, "by_fold": steps}
    if sums.apart:
        made_from = [f"{number}: {moment} on" for number, moment in enumerate(made_from, start=1)]
    of, by_step = PageContent(document, sums, made_from, counted), sums.by_step(rivals(document))
    trained = [("a training learns from", WINDOWS[document["window"]])] if document["refit"] != "never" else []
    settings = [
        ("forecasts", f"{document['folds']}, {document['step']} rows apart, of {document['pred_len']} steps"),
        ("trainings", REFITS[document["refit"]]),
        *trained,
        ("seed", str(document["seed"])),
    ]
    return render(
        title=f"Backtest of {label(str(document['model']))} on {label(str(document['data']))}",
        subtitle=[
            f"{len(made_from)} forecasts of {document['pred_len']} steps from the last {document['seq_len']}, every "
            f"{document['step']}: {REFITS[document['refit']]}",
            f"errors {UNITS}",
        ],
        terms={"scaled": UNITS},
        sections=[
            Section("", "", [verdict(sentences(verdict_of)), _cards(of)]),
            Section("forecasts", "Forecasts", [_forecasts(of, tables)]),
            Section("baselines", "Beside the baselines", _baselines(of)),
            Section("folds", "Error by fold", _folds(of)),
            Section(
                "steps",
                "Error by step",
                [Drawn(steps_chart(by_step, next(iter(rivals(document)), ""))), table(steps_table(by_step))],
            ),
            Section("intervals", "Intervals", _intervals(of)),
            Section("series", "Series", _series(sums)),
            data_section(origin["data"], origin["scale"], {"data": document["data"], "test": {}}, "test"),
            origin_section(origin, facts(settings, title="The backtest")),
        ],
    )


def metric_name(key: str) -> str:
    """A metric of backtest.json with its unit."""
    return f"{key.upper()}{', scaled' * (key != 'mase')}"


def _cards(of: PageContent) -> Cards:
    """The error in the file's own units first, where there is one target or one to name."""
    document, cards = of.document, []
    targets = list(dict.fromkeys(map(str, of.sums.scales["target"])))
    names = [name for name in targets if len(targets) == 1 or name == document.get("target")]
    for name in names:
        error = figure(of.sums.original_mae(name))
        cards.append(Card(f"mean error of {label(name, 30)}", error, "mean absolute error in the units of the file"))
    beside = ""
    for best in rivals(document)[:1]:
        often = document["differences"][best]
        meaning = f"forecasts in which its MSE is below that of {of.names[best]}, the best baseline"
        cards.append(Card("better in", f"{often['better_in']} of {often['folds']}", meaning))
        beside = f"; {short_number(document['overall'][best]['mse'])} of {of.names[best]}"
    meanings = {
        "mase": "mean absolute error, as a multiple of that of the value one season before",
        "mae": f"mean absolute error, {UNITS}",
        "mse": f"mean squared error, in the same units{beside}",
    }
    ours = document["overall"][MODEL]
    errors = [Card(metric_name(key), short_number(ours[key]), meanings[key]) for key in reversed(METRICS)]
    return Cards([*cards, errors[0], *held(document["coverage"]), *errors[1:]])


def _forecasts(of: PageContent, tables: Callable[[], Iterable[pd.DataFrame]]) -> Piece:
    document, sums = of.document, of.sums
    ranked = ranked_places(sums.scales, sums.by_series(), document.get("target"))
    drawn, chosen = fold_forecasts_chart(
        tables(),
        sums.scales,
        made_from={fold["fold"]: name for fold, name in zip(document["by_fold"], of.made_from, strict=True)},
        pred_len=document["pred_len"],
        ranked=ranked,
        best=next(iter(rivals(document)), None),
        levels=of.levels,
        counted=of.counted,
    )
    shown, count = len(drawn["picks"][0]["names"]), len(of.made_from)
    which = [f"{shown} of {count} forecasts, evenly spread."] if shown < count else []
    if chosen < len(ranked):
        kind = "series, from the worst to the best by MASE" if "id" in sums.scales else "target columns"
        which.append(f"{chosen} of {len(ranked):,} {kind}.")
    return Drawn(drawn, " ".join([*which, "What was known before is drawn as far as earlier forecasts reach.", ZOOM]))


def _baselines(of: PageContent) -> list[Piece | None]:
    """All errors beside one another, and how sure the differences are."""
    per_cent, rows = f"{100 * LEVEL:.0f} %", list[list[str]]()
    points: list[tuple[str, float, float, float]] = []
    for key, name in of.names.items():
        errors, difference = of.document["overall"][key], of.document["differences"].get(key)
        cells = [name, *(short_number(errors[metric]) for metric in METRICS)]
        if key == MODEL or difference is None:
            rows.append([*cells, "", "", ""])
            continue
        low, high, mse = difference["low"], difference["high"], errors["mse"]
        interval = "-" if low is None else f"{low:+.4f} to {high:+.4f}"
        often = f"{difference['better_in']} of {difference['folds']}"
        rows.append([*cells, f"{difference['mse']:+.4f}", interval, often])
        if mse and low is not None and high is not None:
            points.append((name, 100 * difference["mse"] / mse, 100 * low / mse, 100 * high / mse))
    says = (
        f"By how many per cent of a baseline's MSE the model's lies below it (left of the line) or above, with the "
        f"{per_cent} interval over the forecasts, paired. A filled point: the interval leaves 0 out."
    )
    heads = ["", "MSE", "MAE", "MASE", "model less it", f"{per_cent} interval", "model better in"]
    drawn = points_chart("The model beside each baseline", points) if points else None
    return [chart(drawn, says), PageTable(rows, heads)]


def _folds(of: PageContent) -> list[Piece | None]:
    folds, names = of.document["by_fold"], of.names
    x, axis = of.places
    panels = {
        metric_name(metric): {name: [fold[key][metric] for fold in folds] for key, name in names.items()}
        for metric in METRICS
    }
    styles = {name: STYLES[min(i, len(STYLES) - 1)] for i, name in enumerate(names.values())}
    shown = folds[-MOST_ROWS:]
    rows = [
        [moment, *(short_number(fold[key]["mse"]) for key in names)]
        for moment, fold in zip(of.made_from[-len(shown) :], shown, strict=True)
    ]
    caption = f"MSE; the last {len(rows)} of {len(folds)}" if len(rows) < len(folds) else "MSE"
    return [
        Drawn(lines_chart("Error by fold", x, panels, styles, axis=axis)),
        PageTable(rows, ["made from", *names.values()], caption=caption, folded="as a table"),
    ]


def _intervals(of: PageContent) -> list[Piece | None]:
    if not of.levels:
        return []
    x, axis = of.places
    shares = {level: [fold["coverage"][level] for fold in of.document["by_fold"]] for level in of.levels}
    by_fold = lines_chart("Coverage by fold", x, *coverage_lines(shares), axis=axis, per_cent=True)
    by_step = coverage_chart(of.sums.by_step([]))
    return [Drawn(by_fold, title="Coverage by fold"), chart(by_step, title="Coverage by step")]


def _series(sums: FoldSums) -> list[Piece | None]:
    if "id" not in sums.scales:
        return []
    errors = sums.by_series()
    return ranked_series(_names(sums.scales), {key.upper(): errors[key] for key in ("mase", "mse", "mae")})


def is_counted(table: pd.DataFrame) -> bool:
    """Whether rows have numbers in place of times, by the first window of a table."""
    first = table[(table["fold"] == table["fold"].iloc[0]) & (table["cutoff"] == table["cutoff"].iloc[0])]
    return step_numbers(pd.DatetimeIndex([first["cutoff"].iloc[0], *first["time"].unique()])) is not None


def fold_forecasts_chart(
    tables: Iterable[pd.DataFrame],
    scales: pd.DataFrame,
    *,
    made_from: Mapping[int, str],
    pred_len: int,
    ranked: Sequence[int],
    best: str | None,
    levels: Sequence[str],
    counted: bool,
) -> tuple[Chart, int]:
    """The chart, and how many series or columns can be chosen.

    tables: the parts of the table. made_from: names of the folds by their numbers. ranked: rows of `scales`, of which
    as many as there is room for are shown: the first ones, of a panel evenly spread. best: the best baseline's column.
    """
    lines, known, folds = forecast_lines(best), max(pred_len, LEAST_PAST), len(made_from)
    stride, pictures = room(known, pred_len, len(lines) - 1 + 2 * len(levels))
    most = min(len(ranked), MOST_CHOICES, max(1, pictures // min(folds, FEW_WINDOWS * 4)))
    chosen = [ranked[i] for i in (evenly(len(ranked), most) if "id" in scales else range(most))]
    numbers = list(made_from)
    shown = [numbers[i] for i in evenly(folds, max(1, min(MOST_CHOICES, pictures // len(chosen))))]
    ends = [f"{end}-{level}" for level in reversed(levels) for end in ("lo", "hi")]
    columns = ["y", *list(lines)[2:-1], "forecast", *ends]
    rows = _chosen_rows(tables, scales, chosen)
    names = [label(name, LONGEST_CHOICE) for name in _names(scales.iloc[chosen])]
    truths = {place: _truth(of) for place, of in rows.groupby("place")}
    windows = dict(iter(rows[rows["fold"].isin(shown)].groupby(["fold", "place"])))

    def panel(fold: int, place: int, name: str) -> Chart:
        window = windows.get((fold, place))
        if window is None:
            of_fold = rows.loc[rows["fold"] == fold, "cutoff"]
            (at,) = milliseconds(pd.DatetimeIndex([(of_fold if len(of_fold) else rows["cutoff"]).min()]), False)
            blank = {"x": [at, at + 1], "lines": [None] * len(lines), "bands": []}
            return blank | {"label": "no forecast of it from here"}
        past = truths[place].loc[: window["cutoff"].iloc[0]].iloc[-known:]
        times = pd.DatetimeIndex(past.index.append(pd.DatetimeIndex(window["time"])))
        after = list(window[columns].to_numpy(dtype=np.float64).T)
        return forecast_panel(
            times, past.to_numpy(), after, bands=len(levels), stride=stride, name=name, counted=counted
        )

    picks = [
        {"label": "Made from", "names": [made_from[fold] for fold in shown], "first": len(shown) - 1},
        column_names(names) | ({"label": "Series"} if "id" in scales else {}),
    ]
    panels = [panel(fold, place, name) for fold in shown for place, name in zip(chosen, names, strict=True)]
    parts = [float(level) for level in levels]
    return forecast_spec(lines, parts, picks=picks, panels=panels, counted=counted), len(chosen)


def _names(scales: pd.DataFrame) -> list[str]:
    """Of each row its target, of a panel its id, and the target too where there are several."""
    if "id" not in scales:
        return [str(name) for name in scales["target"]]
    several = scales["target"].nunique() > 1
    return [
        f"{series}, {target}" if several else str(series)
        for series, target in zip(scales["id"], scales["target"], strict=True)
    ]


def _chosen_rows(tables: Iterable[pd.DataFrame], scales: pd.DataFrame, chosen: Sequence[int]) -> pd.DataFrame:
    """The rows of a table, whose parts come one by one, of some rows of `scales`, and of which, as `place`."""
    parts = []
    for part in tables:
        place = scale_places(part, scales)
        kept = np.isin(place, chosen)
        parts.append(part[kept].assign(place=place[kept]))
    return pd.concat(parts, ignore_index=True)


def _truth(rows: pd.DataFrame) -> "pd.Series[float]":
    """The truth of all folds by time; at a cutoff that no fold has forecast NaN, so that no line spans a gap."""
    known = pd.Series(rows["y"].to_numpy(dtype=np.float64), pd.DatetimeIndex(rows["time"]))
    whole: pd.Series[float] = pd.concat([known, pd.Series(np.nan, pd.DatetimeIndex(rows["cutoff"].unique()))])
    return whole[~whole.index.duplicated()].sort_index()


def ranked_places(scales: pd.DataFrame, errors: Mapping[str, Floats], first: str | None) -> list[int]:
    """The rows of `scales` by how soon a reader wants to see them.

    Of one series the target `first`; of a panel the largest MASE first, and those without one last.
    """
    if "id" not in scales:
        return sorted(range(len(scales)), key=lambda i: scales["target"].iloc[i] != first)
    known = np.flatnonzero(np.isfinite(errors["mse"]))
    mase = np.where(np.isfinite(errors["mase"][known]), errors["mase"][known], -1.0)
    return known[np.argsort(-mase, kind="stable")].tolist()
