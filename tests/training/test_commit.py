"""The commit and the code that run.json names."""

import subprocess
from types import SimpleNamespace

import pytest

from forecast.commands import train
from forecast.config.code_hash import code_hash
from forecast.config.commit import commit


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with a package, its config, results and a note."""
    for name in ("forecast/__init__.py", "conf/train.yaml", "results/runs.jsonl", "note.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_it_is_the_short_hash_of_head(checkout):
    assert commit(checkout) == git(checkout, "rev-parse", "--short", "HEAD")


@pytest.mark.parametrize("name", ["forecast/__init__.py", "forecast/new.py", "conf/train.yaml", "conf/data/new.yaml"])
def test_changed_or_new_code_and_config_are_dirty(checkout, name):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("a = 2\n")
    assert commit(checkout) == git(checkout, "rev-parse", "--short", "HEAD") + "-dirty"


@pytest.mark.parametrize("name", ["results/runs.jsonl", "note.md", "new.md"])
def test_a_result_that_was_added_or_a_changed_document_is_not(checkout, name):
    (checkout / name).write_text("a = 2\n")
    assert commit(checkout) == git(checkout, "rev-parse", "--short", "HEAD")


def test_an_installed_package_inside_another_project_has_none(checkout):
    installed = checkout / "venv" / "forecast"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("a = 1\n")
    assert commit(checkout / "venv") is None


def test_without_a_repository_or_a_git_there_is_none(tmp_path, checkout, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    assert commit(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    assert commit(checkout) is None


NOW = {"commit": "5d6e7f8", "code": "b" * 12}
RESUMED = SimpleNamespace(start=SimpleNamespace(record={"versions": {"code": "a" * 12}}))


@pytest.mark.parametrize(
    ("plan", "first", "expected"),
    [
        (SimpleNamespace(start=None), {}, NOW),
        (RESUMED, NOW, NOW),
        (RESUMED, {**NOW, "commit": "1a2b3c4"}, {**NOW, "commit": "1a2b3c4+5d6e7f8"}),  # a commit of documents
        (RESUMED, {"commit": None, "code": "c" * 12}, {"commit": "unknown+5d6e7f8", "code": f"{'c' * 12}+{'b' * 12}"}),
        # the third leg, with the code of the second, is made by no other code than that
        (RESUMED, {"commit": "1+5d6e7f8", "code": f"c+{'b' * 12}"}, {"commit": "1+5d6e7f8", "code": f"c+{'b' * 12}"}),
        # a copy of last.ckpt, gone on with in a folder of its own
        (RESUMED, {}, {"commit": "unknown+5d6e7f8", "code": f"{'a' * 12}+{'b' * 12}"}),
    ],
)
def test_a_run_that_goes_on_with_other_code_names_both(monkeypatch, plan, first, expected):
    monkeypatch.setattr(train, "commit", lambda: NOW["commit"])
    monkeypatch.setattr(train, "code_hash", lambda: NOW["code"])
    assert train.made_by(plan, first) == expected


@pytest.mark.parametrize(("before", "warns"), [({"threads": "3"}, True), ({"threads": "1"}, False), ({}, False)])
def test_a_run_that_goes_on_with_another_number_of_threads_says_so_in_a_sentence(caplog, before, warns):
    start = SimpleNamespace(path="last.ckpt", record={"versions": {"code": code_hash(), **before}})
    train.warn_of_other_bits(start)
    says = (
        "last.ckpt was trained with 3 threads, here are 1: sums are rounded otherwise, so the run does not end with "
        "the bits that it would have had. For these: OMP_NUM_THREADS=3"
    )
    assert [record.getMessage() for record in caplog.records] == [says] * warns
