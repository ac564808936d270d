"""A faulty file is refused with place, value and fix; a rule for gaps changes no message, a check lists the same."""

import re

import pytest
from data.csv_files import assert_listed, changed, hours, read_frame, refusal, table, write

from forecast.errors import UserError

HOURS = hours(11)
LINES = table(HOURS).split("\n")
SEMICOLONS = {"separator": ";", "decimal": ","}


def steps(*stamps):
    return "\n".join(["date,a", *(f"{stamp},1" for stamp in stamps)])


def with_cell(cell):
    return changed(LINES, {3: f"{HOURS[2]},1,{cell}"})


# name: (text, the message, its parts in order, options of the reader)
FAULTS = {
    # the file and its header
    "nothing": ("", "is empty ... date,a,b"),
    "blank lines": ("\n \n", "is empty ... date,a,b"),
    "a byte order mark": ("\ufeff", "is empty ... date,a,b"),
    "a header alone": ("date,a\n\n", "a header and no rows ... Add one line per time step"),
    "a header and lines of blanks": ("date,a\n \t\n\t\n", "a header and no rows"),
    "a row for a header": (
        "\n".join(LINES[1:]),
        f"line 1: the time column is named '{HOURS[0]}', which looks like a row. Add a line",
        {"time_column": HOURS[0]},
    ),
    "a time column alone": ("date\n2016-07-01\n", "no column of numbers beside the time"),
    "another encoding": (b"date,a,\x81\n2016-07-01,1,2\n", "no text in UTF-8 ... CSV in UTF-8"),
    # rows
    "points between thousands": (
        "date;a\n2016-07-01;1.234,5\n2016-07-02;2\n2016-07-03;3\n",
        "line 2, column 'a' ... '1.234,5' is no number",
        SEMICOLONS,
    ),
    "decimal points for commas": (
        "date;a\n2016-07-01;1.5\n2016-07-02;2\n2016-07-03;3\n",
        "line 2, column 'a' ... '1.5' is no number with ',' before decimals ... data.decimal=\"'.'\"",
        SEMICOLONS,
    ),
    # to pandas 2 the cell 1NUL5 is the number 1
    "a NUL byte": (changed(LINES, {4: f"{HOURS[3]},1\0005,2"}), "is damaged, or no text in UTF-8"),
    "an open quotation mark": (
        changed(LINES, {5: f'{HOURS[4]},"1.5,2'}),
        "line 6: a quotation mark opens a cell that is never closed. Close or remove it.",
    ),
    # timestamps
    "a time zone from some row on": (
        table(HOURS[:6] + [f"{t}+02:00" for t in HOURS[6:]]),
        "line 8, column 'date': '2016-07-01 06:00:00+02:00' has an offset from UTC and other timestamps have none",
    ),
    # months to one reader, days to another: pandas would just choose
    "days first": (
        table(f"01/{month:02d}/2016" for month in range(1, 6)),
        "'01/02/2016' ... %d/%m/%Y ... %m/%d/%Y",
    ),
    "one timestamp twice": (
        table([*HOURS, *hours(21)[10:]]).replace("2016-07-01 10:00:00,1.5,2", "2016-07-01 10:00:00,1,2", 1),
        "line 13: 2016-07-01 10:00:00 stands already (line 12), with other values; so do 1 of 22 ... =mean",
    ),
    "many timestamps twice": (
        table(HOURS) + table(HOURS, cells="3,4").partition("\n")[2],
        "line 13: ... (line 2) ... 11 of 22 rows ... several series stand ... data.id_column=NAME ... data.where=",
    ),
    "a row off the grid": (
        table("2016-07-01 05:01:30" if i == 5 else t for i, t in enumerate(HOURS)),
        "line 7: the times are not regular: 2016-07-01 05:01:30 ... 'h' expects 2016-07-01 05:00:00",
    ),
    "one row": (table(HOURS[:1]), "1 row are too short ... At least 3"),
    "two rows": (table(HOURS[:2]), "2 rows are too short ... At least 3"),
}
# pandas alone would take surplus cells in row 1 for an index, in silence
for row in (1, 2, 5):
    says = f"line {row + 1} has 4 cells, the header names 3 columns. Remove ... data.decimal"
    FAULTS[f"surplus cells in row {row}"] = (changed(LINES, {row: LINES[row] + ",5"}), says)
CELLS = {
    "oops": "'oops' is no number. Correct it",
    "True": "'True' is no number",
    "0x1F": "'0x1F' is no number",
    '"1,5"': "'1,5' is no number with '.' before decimals. Set data.decimal=\"','\", or",
    **{cell: f"{cell!r} is no number" for cell in ("inf", "-Infinity", "1e999")},
    "x" * 9999: f"'{'x' * 60}'... is no number",
    **{
        cell: f"{cell!r} is no number"
        for cell in ("1\u00a0", "\u00a01", "١", "１", "1_000")
        # numbers to Python alone
    },
}
for cell, says in CELLS.items():
    FAULTS[f"a cell {cell[:9]!r}"] = (with_cell(cell), f"line 4, column 'b': {says}")
NO_STAMPS = (
    "yesterday",
    "2016-13-01",
    "2016-02-30",
    "01/07/2016 02:00",
    "01-02-03",
    "1467331200",
    "now",
    "-2016-01-01",
)
# 9999-12-31 means "open": all days until then were listed, in each of a dozen frequencies
OUT_OF_REACH = ("0000-01-01", "0001-01-01", "1677-12-31", "2262-01-01", "9999-12-31")
STAMPS = {
    "": "the timestamp is missing ... drop the line",
    **{stamp: f"{stamp!r} is no timestamp ... Correct it, or set data.time_format" for stamp in NO_STAMPS},
    "-0": "'-0' is no timestamp",  # to pandas the year 0
    "2016-07-01 02:00:00Z": "'2016-07-01 02:00:00Z' has an offset from UTC and other timestamps have none ... or none",
    "2016-07-01T02:00+02:00": "'2016-07-01T02:00+02:00' has an offset from UTC",
    "2016-07-01 02:00 CET": "'2016-07-01 02:00 CET' is no timestamp ... of a zone's letters, '%Y-%m-%d %H:%M CET'",
    **{stamp: f"{stamp!r} is no timestamp of the years 1678 to 2261" for stamp in OUT_OF_REACH},
}
for stamp, says in STAMPS.items():
    FAULTS[f"a timestamp {stamp!r}"] = (changed(LINES, {3: f"{stamp},1,2"}), f"line 4, column 'date': {says}")

STRICT_FAULTS = {  # a check finds out how the file is written, a rule for gaps fills it, or meets another fault
    "no time column": (
        table(HOURS, header="dates,a,b"),
        "line 1 ... 'date' ... dates, a, b ... Did you mean 'dates'? ... data.time_column=NAME ... data.separator",
    ),
    "another separator": ("date;a\n2016-07-01;1\n", "no time column 'date' ... date;a ... data.separator=';'"),
    "an unknown column": (
        table(HOURS, header="date,HUFL,OT"),
        "'HUFLL' ... HUFL, OT ... Did you mean 'HUFL'?",
        {"columns": ["HUFLL"]},
    ),
    "a short row": (
        table(HOURS) + "2016-07-01 11:00:00,7\n2016-07-01 12:00:00,7,8\n",
        "line 14: before it 1 row of 'h' is missing (no value of b), from 2016-07-01 11:00:00 on. Set data.gaps=",
    ),
    "unequal steps": (
        steps("2016-07-01", "2016-07-02", "2016-07-05"),
        "line 4: before it 2 rows of 'D' are missing, from 2016-07-03",
    ),
    # found among the damaged files: the step from any day of a quarter leads to its end, so that every row follows
    # in nanoseconds the first step is beyond 64 bits
    "steps of centuries": (
        steps("1678-01-01", "1978-01-01", "2261-01-01"),
        "line 3: the times are not regular: 1978-01-01 00:00:00 follows 1678-01-01 00:00:00, where the "
        "usual step '103364D'",
    ),
}
for cell in ("", "NaN", "NA"):
    says = "line 5: before it 1 row of 'h' is missing (no value of b), from 2016-07-01 02:00:00 on. Set data.gaps="
    STRICT_FAULTS[f"a gap {cell!r}"] = (with_cell(cell), says)


@pytest.mark.parametrize("case", FAULTS | STRICT_FAULTS)
def test_a_fault_is_refused_with_its_place_and_a_fix(tmp_path, case):
    text, says, *options = (FAULTS | STRICT_FAULTS)[case]
    message = refusal(write(tmp_path, text), **(options or [{}])[0])
    assert re.search(".*".join(map(re.escape, says.split(" ... "))), message), message
    assert len(message) < 450, "a long cell is cut"


@pytest.mark.parametrize("case", list(FAULTS)[::3])  # of each kind some
def test_no_rule_for_gaps_changes_a_fault_and_a_check_lists_it_with_its_count(tmp_path, case):
    text, _, *options = FAULTS[case]
    path, layout = write(tmp_path, text), {"separator": ",", "decimal": ".", "time_column": "date"}
    layout["duplicates"] = "error"  # a check would take their mean
    for changes in options:
        layout |= changes
    message = refusal(path, gaps="mask", **layout)
    assert_listed(path, message, **layout)
    assert message == refusal(path, **layout) or "not regular" in message


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(({"separator": mark}, f"data.separator is {mark!r}. Choose ','") for mark in ("::", "a", "1", '"', "\n")),
        ({"decimal": "-"}, "data.decimal is '-' and data.thousands None. Set data.decimal to '.' or ','"),
    ],
)
def test_separator_and_decimal_are_two_signs(tmp_path, options, says):
    with pytest.raises(UserError, match=re.escape(says)):
        read_frame(write(tmp_path, table(HOURS)), **options)


def test_each_column_with_a_fault_has_a_line_with_its_first(tmp_path):
    faulty = {2: f"{HOURS[1]},1,x", 4: f"{HOURS[3]},y,z", 5: "soon,1,2"}
    lines = refusal(write(tmp_path, changed(LINES, faulty))).splitlines()
    places = ["line 3, column 'b': 'x'", "line 5, column 'a': 'y'", "line 6, column 'date': 'soon'"]
    for line, place in zip(lines, places, strict=True):
        assert f"my.csv: {place} is no " in line
