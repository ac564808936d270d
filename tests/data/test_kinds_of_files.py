"""A file may be compressed or in another encoding: it is read as the plain one, or refused with a sentence."""

import gzip
import hashlib
import io
import logging
import zipfile

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame

from forecast.errors import UserError

STAMPS = pd.date_range("2021-03-01", periods=31, freq="h")
TEXT = "date,Läufe,b\n" + "".join(f"{stamp},{i}.5,{i % 7}\n" for i, stamp in enumerate(STAMPS))


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return buffer.getvalue()


KINDS = {
    "my.csv.gz": gzip.compress(TEXT.encode(), mtime=0),
    "named otherwise.csv": gzip.compress(TEXT.encode(), mtime=0),
    "two members.gz": gzip.compress(TEXT[:200].encode()) + gzip.compress(TEXT[200:].encode()),
    "my.zip": zipped(**{"my.csv": TEXT}),
    "with a folder.zip": zipped(**{"data__": "", "data__my.csv": TEXT}),
    "utf-16.csv": TEXT.encode("utf-16"),
    "utf-16 big endian.csv": b"\xfe\xff" + TEXT.encode("utf-16-be"),
    "marked.csv": TEXT.encode("utf-8-sig"),
    "latin-1.csv": TEXT.encode("latin-1"),
    "latin-1.csv.gz": gzip.compress(TEXT.encode("latin-1")),
}


def file_of(folder, name, content):
    (folder / name).write_bytes(content)
    return folder / name


def refused(path, match):
    with pytest.raises(UserError, match=match):
        read_frame(path)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_read_as_the_plain_file(tmp_path, name):
    frame = read_frame(file_of(tmp_path, name, KINDS[name]))
    assert (frame.columns, frame.freq, frame.name) == (("Läufe", "b"), "h", str(tmp_path / name))
    assert frame.values[:, 0].tolist() == (np.arange(31) + 0.5).tolist()
    assert frame.timestamps.tolist() == STAMPS.tolist()
    assert frame.checksum == hashlib.md5(KINDS[name]).hexdigest(), "that of the file which a user has"


def test_faults_are_told_with_the_name_and_the_line_of_the_users_file(tmp_path):
    text = TEXT.replace("3.5,3", "3.5,x")
    refused(file_of(tmp_path, "my.csv.gz", gzip.compress(text.encode())), r"my\.csv\.gz: line 5, column 'b': 'x' is no")


def test_another_encoding_is_said_in_one_line(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    read_frame(file_of(tmp_path, "latin.csv", TEXT.encode("latin-1")))
    read_frame(file_of(tmp_path, "wide.csv", TEXT.encode("utf-16")))
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(": ")[2] for text in said if "read as" in text] == [
        "It is read as Windows-1252 text, for it is not UTF-8.", "It is read as UTF-16 text, for it is not UTF-8.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (
            KINDS["my.csv.gz"][:-20],
            r"my\.gz is compressed with gzip, and cannot be read: .*Copy it again, or save its content as CSV",
        ),
        (KINDS["my.csv.gz"][:99] + b"\x00\xff" * 9 + KINDS["my.csv.gz"][117:], "cannot be read"),
        (KINDS["my.zip"][:-40], "cannot be read: .*File is not a zip file"),
        (KINDS["my.zip"][:99] + b"\x00\xff" * 9 + KINDS["my.zip"][117:], "cannot be read"),
        (
            zipped(**{"a.csv": TEXT, "b.csv": TEXT}),
            r"zip archive of 2 files\. Unpack it, and name one",
        ),
        (gzip.compress(KINDS["my.csv.gz"], mtime=0), "is damaged, or no text"),
        (TEXT.encode("utf-16")[:-1], "is damaged, or no text in UTF-8"),
        ((TEXT + "2021-03-02 07:00:00,\0,1\n").encode("utf-16"), "is damaged, or no text in UTF-8"),
        (TEXT.encode("latin-1") + b"\x81\x8d\n", "is damaged, or no text in UTF-8"),
    ],
)
def test_what_is_damaged_or_no_text_is_refused(tmp_path, content, match):
    refused(file_of(tmp_path, "my.gz", content), match)
