"""CSV files of all kinds, and the ways they get damaged."""

import gzip
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from hypothesis import strategies as st

SEPARATORS = [(",", "."), (";", ","), (";", "."), ("\t", "."), ("\t", ","), ("|", ".")]
NAMES = ["load", "OT", "température", "wind speed", "a'b", "2", "x.y"]
FREQUENCIES = ["h", "15min", "D", "B", "W-SUN", "MS", "ME", "QE-DEC", "YS-JAN", "7min", "100ms", "30s"]
TIMES = ["%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y/%m/%d %H:%M:%S.%f", "%Y%m%d %H%M%S.%f"]
CELLS = [
    *("", " ", "NaN", "nan", "NA", " NaN ", "null", "-", "?", "n/a", "inf", "-inf", "1e999", "1e308", "1.8e308"),
    *("1e-400", "high", "True", "false", "0x1F", "1_000", "1,5", "1.5", "1.234,5", "1 000", "12%", "1e", "e5", "."),
    *("+", "--1", "٣", "１", "1\u00a0", "1\t", "\t1", "1 ", "'1'", '"', '"1', '1"', '""', '"1"2', "1\n2", "9" * 400),
    *("x" * 5000, "#", "=A1+1", "2016-07-01", "1;2", "1\x0b", "1\x1a", "\ufeff1", "now"),
]
STAMPS = [
    *("", "NaT", "NaN", "now", "today", "yesterday", "0", "1467331200", "42552.5", "2016", "2016-07", "2016-13-01"),
    *("2016-02-30", "01/07/2016", "7/1/2016 1:00 PM", "2016-07-01 24:00", "2016-07-01 23:59:60", "2016-W26"),
    *("0000-01-01", "-2016-01-01", "0001-01-01", "1500-01-01", "9999-12-31 23:59:59", "12016-01-01"),
    *("2016-07-01T00:00:00Z", "1678-01-01", "2261-12-31", "2016-07-01 00:00+02:00", "2016-07-01 02:00 CET"),
    *("2016-07-01 00:00:00.000000001", "٢٠١٦-07-01", "Jul 1 2016"),
]
OTHER_TIMES = ["%d/%m/%Y %H:%M", "%m/%d/%y", "%d.%m.%Y", "%b %d %Y", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%d", "%s", "%H:%M"]
ZONES = ["UTC", "Europe/Berlin", "+05:30"]
PIECES = [
    *(b'"', b"\0", b"\r", b"\n", b"\n\n", b" ", b"\t", b",", b";", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"1", b"\x1a"),
    b"e",
]
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "cp1252", "utf-8-sig", "cp037"]


class CsvCase(NamedTuple):
    """A file, how it is read, and the values and timestamps it holds; None when it was damaged."""

    content: bytes
    options: dict[str, Any]
    truth: tuple[np.ndarray, pd.DatetimeIndex] | None


@st.composite
def files(draw):
    separator, decimal = draw(st.sampled_from(SEPARATORS))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    stamps = pd.date_range(
        draw(st.sampled_from(["2016-02-28", "1969-12-30 22:00", "2199-12-31 23:00"])),
        periods=draw(st.integers(3, 60)),
        freq=draw(st.sampled_from(FREQUENCIES)),
    )
    values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(len(stamps), len(names)))
    values = (values * 10.0 ** draw(st.integers(-9, 9))).round(draw(st.integers(0, 9)))
    time, form = draw(st.integers(0, len(names))), draw(st.sampled_from(TIMES))
    rows = [[repr(float(v)).replace(".", decimal) for v in row] for row in values]
    for row, stamp in zip(rows, stamps.strftime(form), strict=True):
        row.insert(time, stamp)
    rows.insert(0, [*names[:time], "date", *names[time:]])
    options = {"separator": separator, "decimal": decimal}

    damages = draw(st.lists(st.sampled_from([*GRID, *BYTES]), max_size=4))
    for damage in damages:
        if damage in GRID:
            damage(draw, rows, time if time < len(rows[0]) else 0)
    content = written(rows, separator, draw(st.sampled_from(["\n", "\r\n", "\r"])), draw(st.booleans()))
    content = b"\xef\xbb\xbf" * draw(st.booleans()) + content
    for damage in damages:
        if damage in BYTES:
            content = damage(draw, content)
    if damages:
        options |= draw(other_options(names))
    return CsvCase(content, options, None if damages else (values, stamps))


def other_options(names):
    """Mostly none."""
    some = {
        "separator": st.sampled_from([",", ";", "\t", "|", " ", "\\t", ":", "-", "a", '"', "§"]),
        "decimal": st.sampled_from([".", ",", "-"]),
        "time_column": st.sampled_from(["date", "time", *names]),
        "gaps": st.sampled_from(["refuse", "interpolate", "forward_fill", "mask"]),
        "freq": st.sampled_from(FREQUENCIES),
        "columns": st.lists(st.sampled_from(names), min_size=1, unique=True),
    }
    one = st.sampled_from(list(some)).flatmap(lambda key: st.fixed_dictionaries({key: some[key]}))
    return st.one_of(st.just({}), st.just({}), one, st.fixed_dictionaries({"gaps": some["gaps"]}))


def written(rows, separator, end, quoted):
    """As a spreadsheet writes it; cells that are damaged may hold quotes, which stay as they are."""
    quote = '"' if quoted else ""
    return end.join(separator.join(f"{quote}{cell}{quote}" for cell in row) for row in rows).encode()


# damages of the rows; row 0 is the header


def place(draw, rows, first=0):
    return draw(st.integers(min(first, len(rows) - 1), len(rows) - 1))


def a_cell(draw, rows, time):
    row = rows[place(draw, rows, 1)]
    row[draw(st.integers(0, len(row) - 1))] = draw(st.sampled_from(CELLS))


def a_column(draw, rows, time):
    at, cell = draw(st.integers(0, len(rows[0]) - 1)), draw(st.sampled_from(CELLS))
    for row in rows[1:]:
        row[min(at, len(row) - 1)] = cell


def a_name(draw, rows, time):
    at = draw(st.integers(0, len(rows[0]) - 1))
    rows[0][at] = draw(st.sampled_from([*CELLS, "date", rows[0][-1], "Date", " date"]))


def a_stamp(draw, rows, time):
    row = rows[place(draw, rows, 1)]
    row[min(time, len(row) - 1)] = draw(st.sampled_from(STAMPS))


def all_stamps(draw, rows, time):
    """Another way to write them, or zoned; from some row on."""
    form, zone = draw(st.sampled_from([*OTHER_TIMES, *TIMES])), draw(st.sampled_from([None, *ZONES]))
    start = place(draw, rows, 1) if draw(st.booleans()) else 1
    stamps = pd.date_range("2016-03-27", periods=len(rows) - start, freq=draw(st.sampled_from(FREQUENCIES)), tz=zone)
    for row, stamp in zip(rows[start:], stamps, strict=True):
        row[min(time, len(row) - 1)] = str(stamp) if zone else stamp.strftime(form)


def a_line(draw, rows, time):
    """Cut, lengthened, deleted, doubled, moved, or blank."""
    i, j = place(draw, rows), place(draw, rows)
    kind = draw(st.sampled_from(["cut", "lengthen", "delete", "double", "swap", "blank"]))
    if kind == "cut":
        rows[i] = rows[i][: draw(st.integers(1, len(rows[i])))]
    elif kind == "lengthen":
        rows[i] = [*rows[i], draw(st.sampled_from(["", "1", "x"]))]
    elif kind == "delete" and len(rows) > 1:
        del rows[i]
    elif kind == "double":
        rows.insert(j, list(rows[i]))
    elif kind == "swap":
        rows[i], rows[j] = rows[j], rows[i]
    elif kind == "blank":
        rows.insert(i, [draw(st.sampled_from(["", " ", "\t ", '""']))])


def many_lines(draw, rows, time):
    """Only some rows are left, or all stand twice."""
    body = rows[1:]
    rows[1:] = draw(st.sampled_from([[], body[:1], body[:2], body[::2], body[::-1], [*body, *map(list, body)]]))


# damages of the bytes


def flipped(draw, content):
    at = draw(st.integers(0, max(0, len(content) - 1)))
    return content[:at] + bytes(b ^ draw(st.integers(1, 255)) for b in content[at : at + 1]) + content[at + 1 :]


def inserted(draw, content):
    at = draw(st.integers(0, len(content)))
    return content[:at] + draw(st.sampled_from(PIECES)) + content[at:]


def removed(draw, content):
    at = draw(st.integers(0, len(content)))
    return content[:at] + content[at + draw(st.integers(1, 99)) :]


def repeated(draw, content):
    at = draw(st.integers(0, len(content)))
    return content[: at + draw(st.integers(1, 99))] + content[at:]


def truncated(draw, content):
    return content[: draw(st.integers(0, len(content)))]


def other_ends(draw, content):
    lines, ends = content.splitlines(), [draw(st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\r"])) for _ in range(3)]
    return b"".join(line + ends[i % 3] for i, line in enumerate(lines))


def other_encoding(draw, content):
    return content.decode("utf-8", "replace").encode(draw(st.sampled_from(ENCODINGS)), "replace")


def compressed(draw, content):
    return gzip.compress(content, mtime=0) if draw(st.booleans()) else b"PK\x03\x04" + content


GRID = [a_cell, a_cell, a_column, a_name, a_stamp, a_stamp, all_stamps, a_line, a_line, many_lines]
BYTES = [flipped, inserted, inserted, removed, repeated, truncated, other_ends, other_encoding, compressed]
