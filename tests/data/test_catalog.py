"""Named data sets: the published bytes, or an error that says how to get them."""

import logging
import socket
import threading
import time
from pathlib import Path

import pooch
import pytest
import requests
from data.csv_files import assert_says

from forecast.data import catalog
from forecast.data.catalog import CATALOG, PublishedFile, file_md5, locate
from forecast.errors import UserError

HELLO_MD5 = "5d41402abc4b2a76b9719d911017c592"  # of b"hello", RFC 1321's algorithm


@pytest.fixture(autouse=True)
def hello(monkeypatch):
    monkeypatch.setitem(CATALOG, "hello", PublishedFile(5, HELLO_MD5, "https://example.org/hello.csv"))


def refused(name, root):
    with pytest.raises(UserError) as caught:
        locate(name, root)
    return str(caught.value)


def no_download(monkeypatch, error):
    def retrieve(*args, **kwargs):
        raise error

    monkeypatch.setattr(pooch, "retrieve", retrieve)


def test_a_file_that_is_there_is_verified_and_used(tmp_path, monkeypatch):
    no_download(monkeypatch, AssertionError("must not be called"))
    (tmp_path / "hello.csv").write_bytes(b"hello")
    assert locate("hello", str(tmp_path)) == tmp_path / "hello.csv"
    assert file_md5(tmp_path / "hello.csv") == HELLO_MD5


def test_a_wrong_file_is_refused_with_both_sizes_and_checksums(tmp_path):
    path = tmp_path / "hello.csv"
    path.write_bytes(b"hello\n")
    message = refused("hello", tmp_path)
    assert_says(message, str(path), "5 bytes", HELLO_MD5, "6 bytes", file_md5(path), "Remove it", "data=csv")
    assert path.read_bytes() == b"hello\n", "a user's file is never replaced"
    path.write_bytes(b"hallo")  # of the right size
    assert "not the published file" in refused("hello", tmp_path)


def test_an_absent_file_is_downloaded_to_its_place_with_its_checksum(tmp_path, monkeypatch, caplog):
    request = {}

    def retrieve(url, known_hash, fname, path, downloader):
        request.update(url=url, known_hash=known_hash, progressbar=downloader.progressbar)
        path.mkdir(parents=True)
        (path / fname).write_bytes(b"hello")
        return str(path / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with caplog.at_level(logging.INFO):
        assert locate("hello", tmp_path / "deep" / "data").read_bytes() == b"hello"
    assert request == {"url": "https://example.org/hello.csv", "known_hash": f"md5:{HELLO_MD5}", "progressbar": False}
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (requests.ConnectionError("HTTPSConnectionPool()\nand more"), "no network, or the server cannot be reached"),
        (requests.HTTPError("404 Client Error"), "404 Client Error"),
        (ValueError("MD5 hash of downloaded file does not match the known hash"), "does not match the known hash"),
        (PermissionError("read-only file system"), "read-only file system"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_failed_download_says_where_to_get_the_file_and_where_to_put_it(tmp_path, monkeypatch, error, reason):
    no_download(monkeypatch, error)
    message = refused("hello", tmp_path)
    place, failure = str(tmp_path / "hello.csv"), f"its download failed: {reason}" if "hash" not in reason else reason
    assert_says(message, place, "https://example.org/hello.csv", "5 bytes", HELLO_MD5, failure)
    assert_says(message, "FORECAST_DATA", "data.root", "data=demo needs no download")
    assert "\n" not in message


@pytest.fixture
def server(monkeypatch):
    """A server that takes connections and says nothing; the catalog's address is its."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(catalog, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setitem(
            CATALOG, "hello", PublishedFile(5, HELLO_MD5, f"http://127.0.0.1:{server.getsockname()[1]}/hello")
        )
        yield server


@pytest.mark.parametrize(
    ("there", "reason"),
    [(True, "the server does not answer"), (False, "no network, or the server cannot be reached")],
)
def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path, server, there, reason):
    if not there:
        server.close()
    started = time.monotonic()
    assert f"download failed: {reason}" in refused("hello", tmp_path)
    assert time.monotonic() - started < 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("sent", "says"), [(b"hello", None), (b"hell", "does not match the known hash")])
def test_a_download_stays_only_when_it_is_the_published_file(tmp_path, server, monkeypatch, sent, says):
    monkeypatch.setattr(catalog, "_PATIENCE", 30)

    def answer():
        connection, _ = server.accept()
        with connection:
            connection.recv(10_000)
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(sent), sent))

    thread = threading.Thread(target=answer)
    thread.start()
    if says is None:
        assert locate("hello", tmp_path).read_bytes() == b"hello"
    else:
        assert says in refused("hello", tmp_path)
        assert list(tmp_path.iterdir()) == [], "neither the file nor a part of it"
    thread.join()


def test_an_unknown_name_is_refused_with_the_nearest_and_a_folder_in_the_place_of_the_file(tmp_path):
    assert_says(refused("ETTh3", tmp_path), "'ETTh3', only ETTh1, ETTh2", "Did you mean 'ETTh", "data=csv")
    (tmp_path / "hello.csv").mkdir()
    assert_says(refused("hello", tmp_path), "hello.csv is not a file", "FORECAST_DATA")


def test_data_readme_names_every_file_with_its_checksum():
    text = (Path(catalog.__file__).parents[2] / "data" / "README.md").read_text()
    for name in ("ETTh1", "ETTh2", "ETTm1", "ETTm2"):
        size, md5, url = CATALOG[name]
        row = next(line for line in text.splitlines() if f"{name}.csv" in line)
        assert md5 in row and f"{size:,}" in row
        assert url.rsplit("/", 1)[0] in text
