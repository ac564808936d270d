"""A file that changes while it is read: the checksum is that of the rows which were read, or nothing is read."""

import hashlib
import os
import threading

import numpy as np
import pandas as pd
import pytest

from forecast.data.guessing.check import check_file
from forecast.data.reading import csv_columns, unpacked
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.unpacked import FileBytes
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit
from forecast.errors import UserError

N = 307
STAMPS = pd.date_range("2021-03-01", periods=5 * N, freq="h")
LINES = [f"{stamp},{i}.5,{i % 7}\n" for i, stamp in enumerate(STAMPS)]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "my.csv"
    file.write_text("".join(["date,a,b\n", *LINES[:N]]))
    return file


@pytest.fixture
def source(path):
    return CsvSource(path=str(path), split=ShareSplit(), target=None)


def md5(content):
    return hashlib.md5(content).hexdigest()


def append(path, text):
    with path.open("a") as file:
        file.write(text)


MOMENTS = {
    "before the header is read": (CsvText, "header"),
    "before the numbers are read": (csv_columns, "_quick_chunks"),
}


@pytest.fixture(params=MOMENTS)
def at(request, monkeypatch):
    """Something happens once in the middle of reading."""

    def then(happens):
        owner, name = MOMENTS[request.param]
        read_on = getattr(owner, name)

        def interrupted(*arguments):
            monkeypatch.setattr(owner, name, read_on)
            happens()
            return read_on(*arguments)

        monkeypatch.setattr(owner, name, interrupted)

    return then


def test_rows_that_are_appended_meanwhile_are_neither_read_nor_in_the_checksum(path, source, at):
    before = path.read_bytes()
    at(lambda: append(path, "".join(LINES[N : 3 * N])))
    frame = source.frame()
    assert len(frame) == N and frame.values[-1].tolist() == [N - 1 + 0.5, (N - 1) % 7]
    assert source.describe(frame) == {"name": "csv", "path": str(path), "checksum": md5(before)}
    assert source.checksum() == md5(path.read_bytes()) != md5(before)


@pytest.mark.parametrize(
    "lines",
    [["date,a,b\n", *LINES[: N // 2]], [], ["date,b,a\n", *LINES[:N]], ["date,a,b\n", *LINES[1 : N + 99]]],
    ids=["shorter", "empty", "two columns exchanged", "other and more rows"],
)
@pytest.mark.parametrize("block", [1 << 20, 1 << 9], ids=["in one piece", "in pieces"])
def test_a_file_that_is_written_anew_meanwhile_is_refused(source, at, lines, block, monkeypatch):
    path = source.path_used()
    monkeypatch.setattr(unpacked, "_BLOCK", block)
    at(lambda: path.write_text("".join(lines)))
    with pytest.raises(UserError, match=rf"{path} was changed while it was read.*cp {path} {path}.copy.csv"):
        source.frame()


def test_a_last_line_that_is_still_being_written_is_refused(path, source, at):
    append(path, LINES[N][:-6])
    at(lambda: append(path, LINES[N][-6:]))
    with pytest.raises(UserError, match=r"my.csv was changed while it was read"):
        source.frame()


def test_a_last_line_without_a_line_end_is_read(path, source):
    append(path, LINES[N].rstrip())
    assert len(source.frame()) == N + 1


def test_a_check_lists_what_the_file_held_at_first_and_has_a_sentence_for_one_written_anew(path, at):
    at(lambda: append(path, "".join(LINES[N : 3 * N])))
    check = check_file(str(path))
    assert (check.rows, check.findings.texts("error")) == (N, [])


def test_a_check_of_a_file_written_anew_meanwhile_says_so(path, at):
    at(lambda: path.write_text("date,b,a\n" + "".join(LINES[:N])))
    assert "was changed while it was read" in check_file(str(path)).findings.texts("error")[-1]


def test_each_reading_of_a_file_that_grows_and_grows_has_the_checksum_of_its_own_rows(path, source):
    def grow():
        for line in LINES[N:]:
            append(path, line)

    writer = threading.Thread(target=grow)
    writer.start()
    frames = [source.frame() for _ in range(8)]
    writer.join()
    lines = path.read_bytes().splitlines(keepends=True)
    for frame in frames:
        assert frame.checksum == md5(b"".join(lines[: 1 + len(frame)]))
        np.testing.assert_array_equal(frame.values[:, 0], np.arange(len(frame)) + 0.5)
    assert len(source.frame()) == 5 * N


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a file that waits for what may come")
def test_a_file_that_waits_for_more_is_read_as_it_is(tmp_path):
    # of /proc/kmsg and its like nobody can tell beforehand; opened as all files, a pipe waits for its other end
    os.mkfifo(tmp_path / "waits.csv")
    assert FileBytes.of(tmp_path / "waits.csv").size == 0
