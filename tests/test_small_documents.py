"""A damaged document of ours, or one of another version, gives one sentence, whatever the damage."""

import pickle

import numpy as np
import pytest
from pydantic import BaseModel

from forecast.documents import DocumentError, read_arrays, read_document


class Model(BaseModel):
    count: int
    inner: dict[str, float | None] = {}


def test_a_document_comes_without_the_keys_that_its_model_lacks(tmp_path):
    path = tmp_path / "x.json"
    assert read_document(path, Model) is None
    path.write_text('{"count": 3, "inner": {"a": 1, "b": null}, "more": [true, "x"]}')
    assert read_document(path, Model) == Model(count=3, inner={"a": 1, "b": None})
    assert read_document(path, dict)["more"] == [True, "x"]


JSON = {
    '{"inner": {"a": 1}}': "count: Field required",
    '{"count": 3, "inner": {"a": "x"}}': "inner.a: Input should be a valid number, unable to parse string as a number",
    "[]": "Input should be a valid dictionary or instance of Model",
    "": "EOF while parsing a value at line 1 column 0",
    '{"count": 3': "EOF while parsing an object at line 1 column 11",
}


@pytest.mark.parametrize("text", JSON)
def test_json(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DocumentError) as refused:
        read_document(path, Model)
    assert str(refused.value) == f"{path} is damaged or was written by another version: {JSON[text]}"
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # as from another process


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


ARCHIVES = {
    "lacking": (lambda p: saved(p, n=np.int64(1)), "it has no array x"),
    "objects": (lambda p: saved(p, x=np.array([[{}]])), "Object arrays cannot be loaded"),
    "no archive": (lambda p: p.write_bytes(b"mine"), "pickled"),
    "empty": (lambda p: p.write_bytes(b""), "No data left in file"),
    "cut": (lambda p: p.write_bytes(saved(p, x=np.zeros((9, 9))).read_bytes()[:-50]), "not a zip file"),
    "gone": (lambda p: None, "there is no such file"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives(tmp_path, kind):
    make, reason = ARCHIVES[kind]
    make(tmp_path / "x.npz")
    with pytest.raises(DocumentError, match=reason):
        read_arrays(tmp_path / "x.npz", ["x"])
