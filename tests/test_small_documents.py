"""A damaged document of ours gives one sentence, whatever the damage."""

import pickle

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
    assert read_json(path, Shape) is None and read_yaml(path, Shape) is None and read_arrays(path, SHAPE) is None
    path.write_text('{"count": 3, "inner": {"a": 1, "b": null}, "more": [true, "x"]}')
    assert read_json(path, Shape) == {"count": 3, "inner": {"a": 1, "b": None}, "more": [True, "x"]}


JSON = {
    '{"count": true}': "count: must be a valid integer",
    '{"count": -1}': "count: must be greater than or equal to 0",
    '{"inner": {"a": "x"}}': r"inner\.a: must be a valid number",
    "[]": "it must be a valid dictionary",
    "": "it is no JSON",
    '{"count": 3': "it is no JSON",
}


@pytest.mark.parametrize("text", JSON)
def test_json(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DocumentError, match=rf"x\.json cannot be read: .*{JSON[text]}.*\. Restore the file, or move"):
        read_json(tmp_path / "x.json", Shape)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
        ("count: x\n", "count: must be a valid integer"),
        ("a: [\n", "it is no YAML"),
    ],
)
def test_yaml(tmp_path, text, reason):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(DocumentError, match=reason):
        read_yaml(tmp_path / "x.yaml", Shape)


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


ARCHIVES = {
    "lacking": (lambda p: saved(p, n=np.int64(1)), "it has no array x"),
    "of another type": (lambda p: saved(p, x=np.array([["a"]])), "the array x has another type"),
    "of other axes": (lambda p: saved(p, x=np.zeros(3)), "the array x has another type"),
    "objects": (lambda p: saved(p, x=np.array([[{}]])), "it is no archive of arrays"),
    "no archive": (lambda p: p.write_bytes(b"mine"), "it is no archive of arrays"),
    "empty": (lambda p: p.write_bytes(b""), "it is no archive of arrays"),
    "cut": (lambda p: p.write_bytes(saved(p, x=np.zeros((9, 9))).read_bytes()[:-50]), "it is no archive of arrays"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives(tmp_path, kind):
    make, reason = ARCHIVES[kind]
    make(tmp_path / "x.npz")
    with pytest.raises(DocumentError, match=reason):
        read_arrays(tmp_path / "x.npz", SHAPE)


def test_arrays_come_as_they_were_saved_empty_ones_too(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3).T, "n": np.int64(7), "more": np.zeros(3)}
    found = read_arrays(saved(tmp_path / "x.npz", **arrays), SHAPE)
    assert found.keys() == {"x", "n"} and found["n"] == 7
    np.testing.assert_array_equal(found["x"], arrays["x"])
    assert read_arrays(saved(tmp_path / "y.npz", x=np.zeros((0, 5))), SHAPE)["x"].shape == (0, 5)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "a\\b", "..", ".", "", "a\nb"])
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
