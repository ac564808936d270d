"""Damaged files: the reader gives a valid series that the file really holds, or words that name the file; no third.

A check lists no error for the same files that the reader reads.
"""

import csv
import gzip
import io
import os
import re
import tempfile
from datetime import datetime
from itertools import dropwhile
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame
from data.damaged import files
from hypothesis import HealthCheck, given, settings
from hypothesis.configuration import set_hypothesis_home_dir

from forecast.data.describe.check import check_file
from forecast.data.describe.guess import settings_of
from forecast.errors import UserError

set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "forecast-hypothesis")  # nothing is left in the project's tree

EXAMPLES, FEW_EXAMPLES = int(os.environ.get("FORECAST_DAMAGED_FILES", "2000")), 40
# what is demanded


def assert_usable(message, path):
    """A person can act on it: it names the file, says more than that, and holds no name of an exception."""
    assert path in message or re.match(r"data\.\w+ (is|and) ", message)
    words = message.replace(path, "")
    assert len(re.findall(r"[.:?] [A-Z]", words)) >= 1, f"what is wrong and what to do are two sentences: {message}"
    assert len(words) < 900, message
    assert not re.search(r"\b\w+(Error|Exception|Warning)\b|C error|Traceback|<class|dtype|object at 0x", words), (
        message
    )


def assert_valid(frame, path):
    """What SeriesFrame promises of itself."""
    assert frame.values.shape == (len(frame.timestamps), len(frame.columns))
    assert frame.values.dtype == np.float64
    assert np.isfinite(frame.values).all()
    assert frame.timestamps.tz is None
    assert frame.name == path
    assert len(set(frame.columns)) == len(frame.columns) > 0
    regular = pd.date_range(frame.timestamps[0], periods=len(frame), freq=frame.freq)
    assert (frame.timestamps == regular).all()


STAMP = re.compile(
    r"\s*(\d{4})(?:[-/. ]?(\d\d?)(?:[-/. ]?(\d\d?))?)?"
    r"(?:[T ](\d\d?)(?::?(\d\d?)(?::?(\d\d?)(?:\.(\d*))?)?)?)?(?:(Z|[+-]00:?00)|([+-])(\d\d):?(\d\d))?\s*",
    re.ASCII,
)
OTHERS = ["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%m/%d/%y", "%d/%m/%y", "%d.%m.%Y", "%m.%d.%Y", "%b %d %Y", "%Y%m%d%H"]


def own_clock(cell):
    """As `iso`, by the clock that the cell shows, whatever its offset."""
    match = STAMP.fullmatch(cell)
    return iso(cell[: match.start(9)]) if match and match[9] else iso(cell)


def iso(cell):
    """The time of a cell with the year first, in UTC; None for another."""
    match = STAMP.fullmatch(cell)
    if match is None:
        return None
    year, month, day, hour, minute, second = (
        int(part or low) for part, low in zip(match.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    )
    fraction = (match[7] or "").ljust(9, "0")[:9]
    try:
        stamp = np.datetime64(f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction}")
    except ValueError:
        return None
    if match[9]:
        offset = np.timedelta64(int(match[10]) * 60 + int(match[11]), "m")
        stamp = stamp - offset if match[9] == "+" else stamp + offset
    return stamp


def in_format(time_format):
    """A reader of cells in one format of strptime, or of unix seconds."""

    def read(cell):
        cell = cell.strip()
        try:
            if time_format == "unix":
                return np.datetime64(int(cell), "ns") if not cell.isdigit() else np.datetime64(int(cell) * 10**9, "ns")
            return np.datetime64(datetime.strptime(cell, time_format), "ns")
        except ValueError:
            return None

    return read


READERS = [iso, in_format("unix"), *map(in_format, OTHERS)]


def number_of(cell, decimal):
    cell = cell.strip()
    if cell.lower() in {"true", "false"}:
        return float(cell.lower() == "true")
    assert cell.isascii() and "_" not in cell, f"{cell!r} was taken for a number"
    return (
        float(cell.replace(decimal, ".") or "nan")
        if cell.lower() not in {"na", "null", "n/a", "none"}
        else float("nan")
    )


def told_apart(names):
    """The names of a header, each once."""
    once = []
    for name in names:
        new, number = name, 0
        while new.strip() and new in once:
            number += 1
            new = f"{name}.{number}"
        once.append(new)
    return once


def text_in(content):
    """The text of a plain or a gzipped file, in one of the encodings that are read."""
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="surrogateescape")  # Latin-1 as Windows writes it


def rows_in(content, frame, options):
    """(cells of the time, values) of a file, read without pandas; a row of nothing but separators is none."""
    lines = csv.reader(
        io.StringIO(text_in(content), newline=None),
        delimiter=options["separator"].replace("\\t", "\t"),
        skipinitialspace=True,
    )
    rows = [*dropwhile(lambda row: len(row) < 2, (row for row in lines if "".join(row).strip()))]  # no title
    header = told_apart([name if name.strip() else f"column {place}" for place, name in enumerate(rows[0], start=1)])
    places, time = [header.index(name) for name in frame.columns], header.index(options.get("time_column", "date"))
    padded = [row + [""] * (len(header) - len(row)) for row in rows[1:]]
    values = ([number_of(cells[at], options["decimal"]) for at in places] for cells in padded)
    return [cells[time] for cells in padded], np.array([*values])


def without_ends(stamps, values):
    """Which rows are not, in the order of time, before the first or after the last that has all values."""
    whole = ~np.isnan(values).any(axis=1)
    times = stamps.to_numpy()
    return (times >= times[whole].min()) & (times <= times[whole].max()) if whole.any() else whole


def assert_is_what_the_file_holds(frame, content, options):
    cells, values = rows_in(content, frame, options)
    readings = [[read(cell) for cell in cells] for read in READERS]
    days = list(map(own_clock, cells))
    if None not in days and len({stamp - stamp.astype("datetime64[D]") for stamp in days}) == 1:
        readings.append(days)  # midnights by their own offsets are days
    readings = [pd.DatetimeIndex(stamps) for stamps in readings if None not in stamps]
    near = np.diff(frame.timestamps).min() / 100  # a time so near one of the grid is read as that
    refuse = options.get("gaps", "refuse") == "refuse"
    kept = [without_ends(stamps, values) if refuse else np.ones(len(stamps), bool) for stamps in readings]
    places = [
        frame.timestamps.get_indexer(stamps[rows], method="nearest", tolerance=near)
        for stamps, rows in zip(readings, kept, strict=True)
    ]
    fitting = [(at, rows) for at, rows in zip(places, kept, strict=True) if (at >= 0).all()]
    assert fitting, f"{cells[:3]} are no timestamps from {frame.timestamps[0]} on, one way to read them for all"
    at, rows = fitting[0]
    kept = ~pd.DataFrame(values[rows]).assign(at=at).duplicated().to_numpy()  # equal rows count once
    at, values = at[kept], values[rows][kept]
    there = np.isfinite(values)
    assert not np.isinf(values).any()
    np.testing.assert_allclose(frame.values[at][there], values[there], rtol=1e-14, atol=1e-300)
    assert len(set(at.tolist())) == len(at)
    if options.get("gaps", "refuse") == "refuse":
        assert there.all()
        assert sorted(at.tolist()) == list(range(len(frame)))
    else:
        untouched = np.ones(len(frame), bool) if frame.missing is None else ~frame.missing.any(axis=1)
        assert untouched.sum() == there.all(axis=1).sum()
        assert untouched[at[there.all(axis=1)]].all()


def generated(examples):
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[hypothesis.Phase.generate],
    )


@pytest.mark.slow
@generated(EXAMPLES)
@given(case=files())
def test_a_damaged_file_is_read_as_it_is_or_refused_in_words(tmp_path_factory, case):
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    path.write_bytes(case.content)
    try:
        frame = read_frame(path, **case.options)
    except UserError as error:
        assert case.truth is None, error
        assert_usable(str(error), str(path))
        return
    assert_valid(frame, str(path))
    assert_is_what_the_file_holds(frame, case.content, case.options)
    if case.truth is not None:
        values, stamps = case.truth
        np.testing.assert_allclose(frame.values, values, rtol=1e-15)
        assert (frame.timestamps == stamps).all()


def reads(path, **options):
    try:
        read_frame(path, **options)
    except UserError:
        return False
    return True


def assert_agree(path, layout):
    """layout: what the check is told; what the reader takes so, a check never refuses."""
    check = check_file(str(path), layout)
    readable = not check.findings.texts("error")
    assert readable or not reads(path, gaps="mask", **layout), check.findings
    found = settings_of(check.layout) | {"time_column": check.layout.time_column}
    gaps = found.pop("gaps", "refuse")
    assert all(getattr(check.layout, key) == value for key, value in layout.items() if key != "separator")
    assert readable == reads(path, gaps="mask", **found), check.findings
    strict = reads(path, gaps="refuse", **found)
    assert (readable and not check.findings.texts("mend")) == strict, check.findings
    assert (check.command is None) == bool(check.findings.texts("error")), check.findings
    in_command = strict if gaps == "refuse" else check.command is None or reads(path, gaps=gaps, **found)
    assert check.command is None or in_command, check.findings


def layout_of(case):
    layout = {key: value for key, value in case.options.items() if key in ("separator", "decimal", "time_column")}
    return {"time_column": "date", **layout}


def assert_checked(folder, case):
    path = folder / "checked.csv"
    path.write_bytes(case.content)
    assert_agree(path, layout_of(case))
    guess = check_file(str(path))  # neither an exception nor a warning where it guesses the layout
    assert (guess.command is None) == bool(guess.findings.texts("error")), guess.findings


@generated(FEW_EXAMPLES)
@given(case=files())
def test_a_check_finds_an_error_in_just_the_files_that_the_reader_refuses(tmp_path_factory, case):
    assert_checked(tmp_path_factory.getbasetemp(), case)


def test_a_grid_that_would_leave_the_years_of_pandas_is_no_frequency(tmp_path):
    """Found among the files below: a year from the last December on lies after 2262-04-11."""
    stamps = [*pd.date_range("2199-12-31 23:00", periods=31, freq="ME").delete(1), pd.Timestamp("2261-12-31")]
    lines = [f"{stamp.isoformat()}.0000000;{number}" for number, stamp in enumerate(stamps)]  # read in nanoseconds
    (tmp_path / "far.csv").write_text("\n".join(["date;a", *lines]))
    assert_agree(tmp_path / "far.csv", {"time_column": "date", "separator": ";"})
