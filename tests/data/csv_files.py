"""CSV files as the tests write them, and the message with which the reader refuses one."""

import re

import pandas as pd
import pytest

from forecast.data import frame
from forecast.data.guessing.check import check_file
from forecast.data.reading.layout import Layout
from forecast.errors import UserError

FREQUENCIES = [
    *("100ns", "250us", "100ms", "s", "30s", "min", "7min", "15min", "h", "3h", "D", "5D", "B", "W-SUN", "W-WED"),
    *("2W-TUE", "ME", "MS", "BME", "BMS", "QE-DEC", "QE-NOV", "QS-FEB", "YE-DEC", "YS-APR", "WOM-3FRI"),
]


def write(folder, text):
    path = folder / "my.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def hours(n=5):
    return [str(stamp) for stamp in pd.date_range("2016-07-01", periods=n, freq="h")]


def table(stamps, header="date,a,b", cells="1.5,2"):
    return "\n".join([header, *(f"{stamp},{cells}" for stamp in stamps)]) + "\n"


def changed(lines, changes):
    """The lines with some of them, by their numbers from 0, replaced."""
    return "\n".join(changes.get(number, line) for number, line in enumerate(lines))


def read_frame(path, *, columns=None, freq=None, **layout):
    """`frame.read_frame` with the keys of a layout as keywords; freq: the frequency trained on."""
    return frame.read_frame(path, Layout(**layout), columns=columns, freq=freq)


def refusal(path, **options):
    with pytest.raises(UserError) as caught:
        read_frame(path, **options)
    assert str(path) in str(caught.value), "the message names the file"
    return str(caught.value)


def assert_listed(path, message, **layout):
    """A check lists the error of the strict reader, with how often it is in the file, and has no command."""
    check = check_file(str(path), layout)
    count = r"; \d+ such (row|cell)s? of \d+(: [^.]*)?(, \d+ different words?)?"
    listed = [re.sub(count, "", text).lower() for text in check.findings.texts("error")]
    assert message.removeprefix(f"{path}: ").lower() in listed
    assert check.command is None


def assert_says(message, *parts):
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
