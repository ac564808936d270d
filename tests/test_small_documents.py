"""The reader of documents: sizes, depth and types are bounded, and nothing is unpacked to find out."""

import pickle
import struct
import zipfile

import numpy as np
import pytest
from typing_extensions import TypedDict

from forecast import documents
from forecast.documents import Array, DocumentError, bare_name, fitting, read_arrays, read_json, read_yaml
from forecast.errors import UserError

SHAPE = {"x": Array("f", 2), "n": Array("i", 0, optional=True)}


class Shape(TypedDict, total=False):
    count: documents.Count
    inner: dict[str, float | None]


def test_a_document_comes_as_it_is_with_keys_that_nobody_reads(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path, Shape) is None and read_yaml(path, Shape) is None
    assert read_arrays(path, SHAPE, most=1) is None
    path.write_text('{"count": 3, "inner": {"a": 1, "b": null}, "more": [true, "x"]}')
    assert read_json(path, Shape) == {"count": 3, "inner": {"a": 1, "b": None}, "more": [True, "x"]}


JSON = {
    "[" * 100_000: "recursion limit exceeded",
    '{"more": ' + "[" * 60 + "]" * 60 + "}": "it is nested too deeply",
    '{"count": true}': "count: must be a valid integer",
    '{"count": 3.0}': "count: must be a valid integer",
    '{"count": "3"}': "count: must be a valid integer",
    '{"count": -1}': "count: must be greater than or equal to 0",
    '{"inner": {"a": "x"}}': r"inner\.a: must be a valid number",
    '{"more": NaN}': "it is no JSON",
    '{"more": Infinity}': "it is no JSON",
    '{"more": 1e999}': "a number in it is inf",
    '{"more": 1e300}': r"a number in it is 1e\+300",
    f'{{"more": {2**63}}}': "more than 64 bits",
    '{"more": ' + "9" * 5000 + "}": "number out of range",
    '{"more": "a\\u0000b"}': "a text in it has a NUL",
    '{"a\\u0000b": 1}': "a text in it has a NUL",
    '{"more": "\\ud800"}': "it is no JSON",
    "[]": "it must be a valid dictionary",
    "": "it is no JSON",
    '{"count": 3': "it is no JSON",
}  # fmt: skip


@pytest.mark.parametrize("text", JSON, ids=lambda text: text[:20])
def test_json(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DocumentError, match=rf"x\.json cannot be read: .*{JSON[text]}.*\. Restore the file, or move"):
        read_json(tmp_path / "x.json", Shape)


def test_a_large_file_is_not_read(tmp_path):
    (tmp_path / "x.json").write_bytes(b" " * 1_100_000)
    with pytest.raises(DocumentError, match=r"it has 1 MB, and none of its kind more than 1"):
        read_json(tmp_path / "x.json", Shape, most=1)


YAML = {
    "[" * 1000: "it is nested too deeply",
    "a: &x [1]\nb: *x\n": "an alias",
    "a: !!python/object/apply:os.system [ls]\n": "could not determine a constructor",
    "count: 2020-01-01\n": "it holds a date",
    "count: 2020-99-99\n": "it is no plain YAML",
    "? [a]\n: 1\n": "it is no plain YAML",
    "count: x\n": "count: must be a valid integer",
    "a: [\n": "it is no plain YAML",
}


@pytest.mark.parametrize("text", YAML, ids=lambda text: text[:20])
def test_yaml(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(DocumentError, match=YAML[text]):
        read_yaml(tmp_path / "x.yaml", Shape)


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def headed(path, header, data=b"", **options):
    """An archive with one array of that header."""
    head = header.encode()
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("x.npy", member)
    return path


FLOATS = "{{'descr': '<f8', 'fortran_order': False, 'shape': {}}}\n"
ARCHIVES = {
    "lacking": (lambda p: saved(p, n=np.int64(1)), "it has no array x"),
    "of another type": (lambda p: saved(p, x=np.array([["a"]])), "the array x has another type"),
    "of other axes": (lambda p: saved(p, x=np.zeros(3)), "the array x has another type"),
    "objects": (lambda p: saved(p, x=np.array([[{}]])), "the array x has another type"),
    "structured": (lambda p: saved(p, x=np.zeros((1, 1), [("a", "f8")])), "the array x has another type"),
    "of any size": (lambda p: headed(p, FLOATS.format((10**12, 10**6))), "is not as large as it says"),
    "below zero": (lambda p: headed(p, FLOATS.format((-1, -1)), b"\0" * 8), "is not as large as it says"),
    "of an axis of any length": (lambda p: headed(p, FLOATS.format((10**15, 0))), "has an axis of any length"),
    "a head that is code": (lambda p: headed(p, "__import__('os').system('ls')\n"), "it is no archive of arrays"),
    "a head that is deep": (lambda p: headed(p, "[" * 9000 + "\n"), "it is no archive of arrays"),
    "a head of minus signs": (lambda p: headed(p, "-" * 9000 + "1\n"), "it is no archive of arrays"),
    "packed": (
        lambda p: headed(p, FLOATS.format((1, 1)), b"\0" * 8, compression=zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
    "no archive": (lambda p: p.write_bytes(b"mine"), "it is no archive of arrays"),
    "cut": (lambda p: p.write_bytes(saved(p, x=np.zeros((9, 9))).read_bytes()[:-50]), "it is no archive of arrays"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives(tmp_path, kind):
    make, reason = ARCHIVES[kind]
    make(tmp_path / "x.npz")
    with pytest.raises(DocumentError, match=reason):
        read_arrays(tmp_path / "x.npz", SHAPE, most=1)


def test_what_is_packed_is_not_unpacked(tmp_path, monkeypatch):
    """100 MB of zeros in a file of 100 kB: nothing of it is read."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        for _ in range(100):
            file.write(bytes(10**6))
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("a member is read"))
    for most in (1, 1000):
        with pytest.raises(DocumentError, match="it is compressed, which none of its kind is"):
            read_arrays(path, SHAPE, most=most)


def test_a_directory_that_lies_about_sizes(tmp_path):
    content = bytearray(saved(tmp_path / "x.npz", x=np.zeros((2, 2))).read_bytes())
    place = content.rindex(b"PK\x01\x02") + 20
    content[place : place + 8] = struct.pack("<II", 2**31, 2**31)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DocumentError, match="at most its file's, or 10000, are read"):
        read_arrays(tmp_path / "x.npz", SHAPE, most=10_000)


def test_too_many_members_and_two_of_one_name(tmp_path):
    names = {"many": [f"{i}.npy" for i in range(200)], "twice": ["x.npy", "x"]}
    for kind, members in names.items():
        with zipfile.ZipFile(tmp_path / f"{kind}.npz", "w") as archive:
            for name in members:
                archive.writestr(name, b"")
        with pytest.raises(DocumentError, match="more than 100 arrays, or two of one name"):
            read_arrays(tmp_path / f"{kind}.npz", SHAPE, most=1)


def test_arrays_come_as_they_were_saved_empty_ones_too(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3).T, "n": np.int64(7), "more": np.zeros(3)}
    found = read_arrays(saved(tmp_path / "x.npz", **arrays), SHAPE, most=1)
    assert found.keys() == {"x", "n"} and found["n"] == 7
    np.testing.assert_array_equal(found["x"], arrays["x"])
    assert read_arrays(saved(tmp_path / "y.npz", x=np.zeros((0, 5))), SHAPE, most=1)["x"].shape == (0, 5)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "a\\b", "..", ".", "", "a\0", "a\nb", "x" * 300])
def test_a_name_is_bare(name):
    assert bare_name("2020-01-01T00-00.csv") == "2020-01-01T00-00.csv"
    with pytest.raises(ValueError, match="is no name of a file"):
        bare_name(name)


def test_parts_that_do_not_fit_together_are_a_sentence_and_a_users_error_stays(tmp_path):
    with pytest.raises(DocumentError, match=r"its parts do not fit together \(KeyError: 'a'\)"), fitting(tmp_path):
        {}["a"]
    assert str(pickle.loads(pickle.dumps(DocumentError("x", "y")))) == str(DocumentError("x", "y"))
    with pytest.raises(UserError, match=r"^as it is$"), fitting(tmp_path):
        raise UserError("as it is")
    with pytest.raises(OSError, match="no room"), fitting(tmp_path):
        raise OSError("no room")


def test_a_folder_a_link_to_nothing_and_a_name_that_none_can_have_are_no_documents(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for path in (tmp_path, tmp_path / "link", tmp_path / "a\0b", tmp_path / ("x" * 1000)):
        assert read_json(path, Shape) is None and read_arrays(path, SHAPE, most=1) is None
