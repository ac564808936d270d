"""The leaderboard of `forecast auto` as a table, for a terminal and for a page."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from forecast.report.tables import short_number, titled_table
from forecast.run_folder.shapes import BoardRow, Metrics
from forecast.text.terminal import label


def rests_on_tables(metrics: Metrics) -> list[Table]:
    """What the forecasts rest on: columns, and blocks of the past; none where that was not measured."""
    rests_on, tables = metrics.get("rests_on") or {}, []
    for key, title in (("columns", "By column"), ("blocks", "By block of the past, all columns")):
        if not rests_on.get(key):
            continue
        table = titled_table(Text(title), "how much the MAE grows when windows exchange it, scaled")
        table.add_column("", overflow="fold")
        for heading in ("MAE grows by", "+-"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("")
        for row in rests_on[key]:
            name = row["name"] if key == "columns" else f"{row['first']} to {row['last']} steps before"
            table.add_row(
                Text(label(name)), *(short_number(row[figure]) for figure in ("importance", "error")), row["use"]
            )
        tables.append(table)
    return tables


def board_table(rows: Sequence[BoardRow], *, error: str) -> Table:
    """A row for each model; error: mse or mae, of its figures on validation and test windows, scaled units."""
    table = titled_table(Text("Leaderboard"))
    for name in ("model", f"validation\n{error.upper()}", f"test\n{error.upper()}", "test\nMASE", "weight", "seconds"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=name != "model")
    table.add_column("", overflow="fold")
    for row in rows:
        weight = "-" if (share := row.get("weight")) is None else f"{100 * share:.0f} %"
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.1f}"
        figures = [short_number(row[key]) for key in ("validation", "test", "mase")]
        remark = "chosen" if row["chosen"] else str(row.get("reason", ""))
        table.add_row(Text(label(row["model"])), *figures, weight, seconds, Text(label(remark, 300)))
    return table
