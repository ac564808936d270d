"""Named data sets: the published bytes, or an error that says how to get them."""

import logging
import socket
import threading
from pathlib import Path

import pytest
from data.csv_files import assert_says

from forecast.data import sources
from forecast.data.sources import CATALOG, file_md5, locate
from forecast.errors import UserError

HELLO_MD5 = "5d41402abc4b2a76b9719d911017c592"  # of b"hello", RFC 1321's algorithm


@pytest.fixture
def server(monkeypatch):
    """A server of the catalog's files; the only one is `hello`."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(CATALOG, "hello", HELLO_MD5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(sources, "FOLDER", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield server


def refused(name, root):
    with pytest.raises(UserError) as caught:
        locate(name, root)
    return str(caught.value)


def test_a_file_that_is_there_is_verified_and_used(tmp_path, server):
    (tmp_path / "hello.csv").write_bytes(b"hello")
    assert locate("hello", str(tmp_path)) == tmp_path / "hello.csv"


def test_a_wrong_file_is_refused_with_both_checksums(tmp_path, server):
    path = tmp_path / "hello.csv"
    path.write_bytes(b"hello\n")
    assert_says(refused("hello", tmp_path), str(path), HELLO_MD5, file_md5(path), "Remove it", "data=csv")
    assert path.read_bytes() == b"hello\n", "a user's file is never replaced"


@pytest.mark.parametrize(("sent", "says"), [(b"hello", None), (b"hell", "does not match the known hash")])
def test_a_download_stays_only_when_it_is_the_published_file(tmp_path, server, caplog, sent, says):
    caplog.set_level(logging.INFO)

    def answer():
        connection, _ = server.accept()
        with connection:
            assert connection.recv(10_000).startswith(b"GET /hello.csv ")
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(sent), sent))

    thread = threading.Thread(target=answer)
    thread.start()
    if says is None:
        assert locate("hello", tmp_path / "deep" / "data").read_bytes() == b"hello"
        assert len(caplog.records) == 1
    else:
        assert says in refused("hello", tmp_path)
        assert list(tmp_path.iterdir()) == [], "neither the file nor a part of it"
    thread.join()


def test_a_failed_download_says_where_to_get_the_file_and_where_to_put_it(tmp_path, server):
    server.close()
    message = refused("hello", tmp_path)
    assert_says(message, str(tmp_path / "hello.csv"), "its download failed: ", "refused", f"{sources.FOLDER}/hello.csv")
    assert_says(message, HELLO_MD5, "FORECAST_DATA", "data.root", "data=demo needs no download")
    assert "\n" not in message and list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_refused_with_the_nearest_and_a_folder_in_the_place_of_the_file(tmp_path, server):
    assert_says(refused("ETTh3", tmp_path), "'ETTh3', only ETTh1, ETTh2", "Did you mean 'ETTh", "data=csv")
    (tmp_path / "hello.csv").mkdir()
    assert "hello.csv cannot be read: Is a directory" in refused("hello", tmp_path)


def test_data_readme_names_every_file_with_its_checksum():
    text = (Path(sources.__file__).parents[2] / "data" / "README.md").read_text()
    assert sources.FOLDER in text
    for name, md5 in CATALOG.items():
        assert md5 in next(line for line in text.splitlines() if f"{name}.csv" in line)
