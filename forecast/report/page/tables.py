"""The tables that a run prints, as HTML."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from forecast.report.page.document import paragraph, text


class Strong(str):
    """The words of a cell that are set in bold."""


def html_table(table: Table | None, *, titled: bool = True) -> str:
    """A table of `report.tables`, with the same words; nothing for None."""
    if table is None:
        return ""
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    kinds = ["number" if column.justify == "right" else "" for column in table.columns]
    headings = [_plain(column.header).strip() for column in table.columns]
    title = f"<h3>{text(_plain(table.title))}</h3>\n" if titled and table.title is not None else ""
    return title + plain_table(headings, list(zip(*columns, strict=True)), kinds, _plain(table.caption))


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str], caption: str = "") -> str:
    """A table whose first column names its rows. kinds: the class of each column, `number` or none."""
    head = "".join(
        f'<th scope="col"{_class(kind)}>{text(name)}</th>' for name, kind in zip(headings, kinds, strict=True)
    )
    lines = []
    for row in rows:
        cells = "".join(f"<td{_class(kind)}>{_cell(cell)}</td>" for cell, kind in zip(row[1:], kinds[1:], strict=True))
        lines.append(f'<tr><th scope="row"{_class(kinds[0])}>{text(row[0])}</th>{cells}</tr>\n')
    below = f"\n{paragraph(caption)}" if caption else ""
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(lines)}</tbody>"
    return f'<div class="wide"><table>{body}</table></div>{below}'


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else "" if cell is None else str(cell)


def _cell(cell: str) -> str:
    return f"<strong>{text(cell)}</strong>" if isinstance(cell, Strong) else text(cell)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
