"""The tables of errors that a finished run prints.

The input is the plain dict that becomes metrics.json; its layout is a contract that other programs read.
"""

import copy
import dataclasses
import io
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecast.report.forecasters import ScoredForecaster, baseline_name, best_baseline, forecasters, models_of
from forecast.run_folder.shapes import Block, Metrics, is_many
from forecast.text.terminal import label, paragraph, terminal_width

STEP_MSE = "mse_scaled"
# What errors are measured in, by data.scaling.
# Over which MASE is scaled, by `mase_scale.rows`.
ROWS = {
    "train": "the train rows",
    "split": "all rows before the first forecast",
    "window": "all rows before each window",
}
UNITS = {
    "series": "in deviations of each series",
    "season": "in seasonal differences of each series",
    "global": "in one deviation for all, so that large series decide",
    "none": "in the units of the file, so that large series decide",
}
LOG_WIDTH = 100  # of a table where no terminal sets one
MOST_COLUMNS = 8  # of a table with a line for each target column


class ReportTable(Table):
    """A table of a report. spare: headings of columns that a narrow terminal does without, the first one first."""

    spare: Sequence[str] = ()


def scores_table(metrics: Metrics, split: str) -> ReportTable:
    """The scores of the model and of the baselines on the windows of `split`, one row a forecaster.

    Raises ValueError when `split` was not evaluated.
    """
    rows = forecasters(metrics, split)
    reference = next((row.mse for row in rows if row.key == "seasonal_naive"), None)
    caption = _caption(metrics, many=is_many(metrics, split))
    spare = ("WAPE\n", "sMAPE\n%", "MAE\nscaled", "MASE\n")
    result = titled_table(Text(_title(metrics, split)), caption, spare=spare)
    result.add_column("", no_wrap=True)
    panel = is_many(metrics, split)
    for heading in ("MSE\nscaled", "MAE\nscaled", "MASE\n", *(("sMAPE\n%", "WAPE\n") if panel else ()), "skill\n"):
        result.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        skill = None if row.mse is None or not reference else 1.0 - row.mse / reference
        if number == 0:  # the model's own skill is the recorded one, so that the table cannot contradict metrics.json
            skill = row.scores.get("skill")
        cells = [row.mse, row.error("scaled", "mae"), row.error("mase")]
        cells += [row.error("smape"), row.error("wape")] if panel else []
        name = f"{row.name} ({row.note})" if row.note else row.name
        result.add_row(Text(name), *map(short_number, cells), "-" if skill is None else f"{skill:.3f}")
    return result


def columns_table(metrics: Metrics, split: str) -> ReportTable | None:
    """The model's errors of each target column, and the MASE of the best baseline beside its own.

    None for more than MOST_COLUMNS columns, and for figures of an older program, which has none by column.
    """
    columns = metrics[split].get("columns") or {}
    if not 0 < len(columns) <= MOST_COLUMNS:
        return None
    best = best_baseline(metrics)
    headings = ["MAE\noriginal", "RMSE\noriginal", "bias\noriginal", "sMAPE\n%", "RMSSE\n", "MASE\n"]
    caption = "" if best is None else f"at the right the MASE of {best.name}"
    result = titled_table("The model by target column", caption, spare=(headings[4], *headings[3:0:-1]))
    result.add_column("", no_wrap=True)
    for heading in [*headings, *(["MASE\nbaseline"] if best is not None else [])]:
        result.add_column(heading, justify="right", no_wrap=True)
    places = [("original", "mae"), ("original", "rmse"), ("original", "bias"), ("smape",), ("rmsse",), ("mase",)]
    for name, block in columns.items():
        row = ScoredForecaster("", name, "", block)
        cells = [row.error(*place) for place in places]
        cells += [best.error("columns", name, "mase")] if best is not None else []
        result.add_row(Text(label(name)), *map(short_number, cells))
    return result


def series_table(metrics: Metrics, split: str) -> ReportTable | None:
    """The series with the largest and the least MASE, and how many have none; None for one series."""
    if not is_many(metrics, split):
        return None
    block = metrics[split]["series"]
    caption = f"{block['evaluated']} of {block['count']} series evaluated, {block['without_mase']} without a MASE"
    result = titled_table("The worst and the best series", caption, spare=("WAPE", "sMAPE %", "RMSSE"))
    result.add_column("", no_wrap=True)
    for heading in ("MASE", "RMSSE", "sMAPE %", "WAPE"):
        result.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate([*block["worst"], *reversed(block["best"])]):
        cells = [short_number(row[key]) for key in ("mase", "rmsse", "smape", "wape")]
        result.add_row(Text(label(row["id"])), *cells, end_section=number == len(block["worst"]) - 1)
    return result


def covariates_table(metrics: Metrics, split: str) -> ReportTable | None:
    """What each column beside the targets is worth to the model; None where none was named."""
    covariates = metrics[split].get("covariates")
    if not covariates:
        return None
    caption = "when windows exchange the column, scaled"
    result = titled_table("What the other columns are worth", caption, spare=("+-\n", "change of the\nforecast"))
    result.add_column("", no_wrap=True)
    result.add_column("role")
    for heading in ("change of the\nforecast", "MAE grows by\n", "+-\n"):
        result.add_column(heading, justify="right", no_wrap=True)
    result.add_column("")
    for name, row in covariates.items():
        figures = (short_number(row[key]) for key in ("change", "importance", "error"))
        result.add_row(Text(label(name)), row["role"], *figures, row["use"])
    return result


def steps_table(by_step: Mapping[str, Sequence[float]]) -> ReportTable:
    """How the error grows: the MSE, scaled units, of every forecaster at a few of the P steps.

    by_step: the columns of metrics_by_step.csv, P figures each; those that end in STEP_MSE are shown.
    """
    series = {name.removesuffix(STEP_MSE).strip("_"): v for name, v in by_step.items() if name.endswith(STEP_MSE)}
    n_steps = max(map(len, series.values()))
    steps = sorted({max(1, round(n_steps * part / 4)) for part in range(5)})
    result = titled_table("MSE by step, scaled", spare=[f"step {step}" for step in steps[1:-1]])
    result.add_column("", no_wrap=True)
    for step in steps:
        result.add_column(f"step {step}", justify="right", no_wrap=True)
    for name, values in series.items():
        result.add_row(label(baseline_name(name)) or "the model", *(short_number(values[step - 1]) for step in steps))
    return result


def offsets_table(metrics: Metrics, split: str) -> ReportTable:
    """The MSE, scaled units, of the model and the naive baselines at each offset, one row an offset, 0 first.

    An offset without figures shows dashes.
    """
    own = {**metrics[split], "baselines": metrics["baselines"]}
    blocks = {"0": own, **metrics["offsets"]}
    baselines = ("last_value", "seasonal_naive")
    caption = "offset: steps between the window and its forecast"
    result = titled_table("MSE at offset, scaled", caption, spare=("windows",))
    names = [baseline_name(key, models_of(metrics)) for key in baselines]
    for heading in ("offset", "windows", label(str(metrics["model"])), *names):
        result.add_column(Text(heading), justify="right", no_wrap=True)
    for offset, block in blocks.items():
        if block is None:
            result.add_row(offset, *"-" * (2 + len(baselines)))
            continue
        scores = [block, *(block["baselines"][name] for name in baselines)]
        result.add_row(offset, str(block["windows"]), *(short_number(score["scaled"]["mse"]) for score in scores))
    return result


def _title(metrics: Metrics, split: str) -> str:
    """Three lines that say what was evaluated; keys that a run does not have are left out."""

    def line(*keys: str) -> str:
        return ", ".join(f"{key} {label(str(metrics[key]))}" for key in keys if metrics.get(key) is not None)

    file = metrics.get("evaluated_file")  # another file than the one trained on
    trained_on = label(str(metrics.get("data", "?")))
    data = line("data") if file is None else f"evaluated on {label(file)}, trained on {trained_on}"
    slots = dict(metrics.get("attention_slots") or {})
    others = [f"{slot} {label(name)}" for slot, name in slots.items() if name != metrics.get("attention")]
    exceptions = f" ({', '.join(others)})" if others else ""
    lines = (
        [line("model", "variant", "attention") + exceptions, data, line("features")],
        [line("seq_len", "label_len", "pred_len", "seed")],
        [f"{metrics[split].get('windows', '?')} windows of {split}", line("protocol")],
    )
    return "\n".join(filter(None, (", ".join(filter(None, parts)) for parts in lines)))


def _caption(metrics: Metrics, *, many: bool) -> str:
    skill, scale = "skill: 1 - MSE / MSE of seasonal naive, scaled", metrics.get("mase_scale")
    if not scale:
        return skill
    rows, scaling = ROWS.get(scale.get("rows", ""), "earlier rows"), metrics.get("scaling") or "series"
    if many:
        units, of = UNITS.get(scaling, ""), f"mean difference from {scale['period']} steps before, in {rows}"
        judged = f"MSE, MAE: over the cells of all series, {units}; the verdict is by MSE\n" if units else ""
        return f"{judged}{skill}\nMASE: of each series MAE / {of}"
    other = "" if scaling == "series" else f"MSE, MAE: {UNITS.get(scaling, scaling)}\n"
    return f"{other}{skill}\nMASE: MAE / MAE over {rows} of the value {scale['period']} steps before"


def titled_table(title: str | Text, caption: str = "", *, spare: Sequence[str] = ()) -> ReportTable:
    """An empty table as all of a report look."""
    table = ReportTable(title=title, caption=caption or None, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.spare = spare
    return table


def table_lines(table: ReportTable) -> str:
    """A table as text: names and numbers are never cut or folded, remarks and what stands around the table may be."""
    width, shown, spare = terminal_width(), copy.copy(table), list(table.spare)
    shown.title = shown.caption = None
    console = Console(width=100 * LOG_WIDTH, file=(text := io.StringIO()), color_system=None)
    for column in shown.columns:
        if column.no_wrap:
            column.min_width = max(console.measure(cell).maximum for cell in (column.header, *column.cells))
    while width and spare and console.measure(shown).minimum > width:
        heading = spare.pop(0)
        kept = [column for column in shown.columns if str(column.header) != heading]
        shown.columns = [dataclasses.replace(column, _index=place) for place, column in enumerate(kept)]
    console.width = max(width or LOG_WIDTH, console.measure(shown).minimum)
    console.print(shown)
    rows = [line.rstrip() for line in text.getvalue().splitlines()]
    around = [paragraph(str(part)) if part else "" for part in (table.title, table.caption)]
    return "\n".join([around[0], "", *rows, "", *([around[1], ""] if around[1] else [])])


def short_number(value: float | None) -> str:
    """Four decimals, or as a power of ten where those would say little; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.4f}" if value == 0.0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3e}"


def board_table(rows: Sequence[Block], *, error: str) -> ReportTable:
    """A row for each model; error: mse or mae, of its figures on validation and test windows, scaled units."""
    table = titled_table("Leaderboard", spare=("weight", "seconds"))
    for name in ("model", f"validation\n{error.upper()}", f"test\n{error.upper()}", "test\nMASE", "weight", "seconds"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        weight = "-" if (share := row.get("weight")) is None else f"{100 * share:.0f} %"
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.1f}"
        figures = [short_number(row[key]) for key in ("validation", "test", "mase")]
        remark = "chosen" if row["chosen"] else str(row.get("reason", ""))
        table.add_row(Text(label(row["model"])), *figures, weight, seconds, Text(label(remark, 300)))
    return table
