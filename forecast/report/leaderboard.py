"""The leaderboard of `forecast auto` as a table, for a terminal and for a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from forecast.report.tables import short_number, titled_table


def board_table(rows: Sequence[Mapping[str, Any]], *, error: str) -> Table:
    """A row for each model; error: mse or mae, of its figures on validation and test windows, scaled units."""
    table = titled_table(Text("Leaderboard"))
    for name in ("model", f"validation\n{error.upper()}", f"test\n{error.upper()}", "test\nMASE", "weight", "seconds"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=name != "model")
    table.add_column("", overflow="fold")
    for row in rows:
        weight = "-" if row.get("weight") is None else f"{100 * row['weight']:.0f} %"
        seconds = "-" if row["seconds"] is None else f"{row['seconds']:.1f}"
        figures = [short_number(row[key]) for key in ("validation", "test", "mase")]
        said = "chosen" if row["chosen"] else str(row.get("reason", ""))
        table.add_row(Text(row["model"]), *figures, weight, seconds, Text(said))
    return table
