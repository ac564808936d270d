"""CSV files as the tests write them, and the message with which the reader refuses one."""

from dataclasses import replace

import pandas as pd
import pytest

from forecast.data.describe.check import check_file
from forecast.data.panel import PanelFrame, Repair
from forecast.data.read import read_panel
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit
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


def series_frame(values, stamps, columns, freq, name, *, missing=None, repair=None):
    """One series, of which cells (N, C) were filled by a rule."""
    frame = PanelFrame.single(values, stamps, columns, freq, name)
    measured = None if missing is None else ~missing
    return replace(frame, measured=measured, repair=repair or Repair())


class OneSeries:
    """The panel that a file of one series is, with what there is of that series as such."""

    def __init__(self, panel):
        self.panel, self.timestamps = panel, panel.timestamps(0)
        self.missing = None if panel.measured is None else ~panel.measured

    def __getattr__(self, key):
        return getattr(self.panel, key)

    def __len__(self):
        return len(self.panel.values)


def read_frame(path, layout=None, *, freq=None, **keys):
    """The one series of a file, by the keys of a layout; freq: the frequency trained on."""
    keys = {**({} if layout is None else vars(layout)), **keys}
    return OneSeries(read_panel(CsvSource(path=str(path), split=ShareSplit(), **keys), freq=freq))


def refusal(path, **options):
    with pytest.raises(UserError) as caught:
        read_frame(path, **options)
    assert str(path) in str(caught.value), "the message names the file"
    return str(caught.value)


def assert_listed(path, message, **layout):
    """A check lists the error of the reader, and has no command."""
    check = check_file(str(path), layout)
    listed = [text.lower() for text in check.findings.texts("error")]
    assert message.removeprefix(f"{path}: ").lower() in listed
    assert check.command is None


def assert_says(message, *parts):
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
