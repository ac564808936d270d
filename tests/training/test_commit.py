"""The commit and the code that run.json names."""

import subprocess
from types import SimpleNamespace

import pytest

import forecast
from forecast.apps.common import resumed
from forecast.run_folder import commit as module
from forecast.run_folder.commit import commit


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


def head(checkout):
    return git(checkout, "rev-parse", "HEAD")[:7]


def test_it_is_the_last_commit_that_changed_code_or_config(checkout):
    first = head(checkout)
    assert commit(checkout) == first
    (checkout / "note.md").write_text("a = 2\n")
    git(checkout, "commit", "-qam", "a document")
    commit.cache_clear()
    assert commit(checkout) == first != head(checkout)


@pytest.mark.parametrize("name", ["forecast/__init__.py", "forecast/new.py", "conf/train.yaml", "conf/data/new.yaml"])
def test_changed_or_new_code_and_config_are_dirty(checkout, name):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("a = 2\n")
    assert commit(checkout) == f"{head(checkout)}-dirty"


@pytest.mark.parametrize("name", ["results/runs.jsonl", "note.md", "new.md"])
def test_a_result_that_was_added_or_a_changed_document_is_not(checkout, name):
    (checkout / name).write_text("a = 2\n")
    assert commit(checkout) == head(checkout)


def test_an_installed_package_is_told_by_its_version_and_its_files(checkout, tmp_path, monkeypatch):
    installed = checkout / "venv" / "forecast"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("a = 1\n")
    monkeypatch.setattr(module, "installed_hash", lambda: "5f3a9c21")
    expected = f"{forecast.__version__}+5f3a9c21"
    assert commit(checkout / "venv") == commit(tmp_path / "nowhere") == expected
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))  # without git
    assert commit(checkout) == expected


@pytest.mark.parametrize(("before", "warns"), [({"threads": "3"}, True), ({"threads": "1"}, False), ({}, False)])
def test_a_run_that_goes_on_with_another_number_of_threads_says_so_in_a_sentence(caplog, before, warns):
    start = SimpleNamespace(path="last.ckpt", record=SimpleNamespace(versions={"commit": commit(), **before}))
    resumed.warn_of_other_bits(start)
    says = (
        "last.ckpt was trained with 3 threads, here are 1: sums are rounded otherwise, so the run does not end with "
        "the bits that it would have had. For these: OMP_NUM_THREADS=3"
    )
    assert [record.getMessage() for record in caplog.records] == [says] * warns
