"""report.html of a training and of an evaluation, and the same page made anew from the files of the folder."""

import json
import shutil
from pathlib import Path

import pytest
from program import call
from script import call_script

from forecast.run_folder import sha256


@pytest.fixture
def run(csv_run, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(csv_run, tmp_path / "run"))


@pytest.fixture
def report(capsys):
    def call_it(folder, *more, status=0):
        found, output, errors = call_script(capsys, "report", folder, "--page", *more)
        assert found == status, errors
        assert errors.count("\n") == bool(status)  # one sentence, or two on a line
        return errors if status else output

    return call_it


def test_a_training_leaves_a_page_with_its_own_figures(csv_run, trained):
    page = (csv_run / "report.html").read_text(encoding="utf-8")
    assert trained["files"]["report.html"] == sha256(csv_run / "report.html")
    assert trained["files"]["metrics_by_step.csv"] == sha256(csv_run / "metrics_by_step.csv")
    assert f"<dd>{trained['test']['scaled']['mse']:.4f}</dd>" in page and "informer on own.csv" in page
    assert "own.csv, checksum" in page and str(csv_run) not in page.split('id="run"')[1]
    assert len(page) < 1_000_000


def test_the_page_made_anew_is_the_same_to_the_byte(run, report):
    before, metrics = (run / "report.html").read_bytes(), (run / "metrics.json").read_bytes()
    (run / "report.html").unlink()
    assert report(run).startswith(f"{run}/report.html: ")
    assert (run / "report.html").read_bytes() == before
    assert (run / "metrics.json").read_bytes() == metrics


def test_of_an_evaluation_too(best, run, tmp_path, report, capsys):
    call("evaluate", f"ckpt_path={run}/checkpoints/best.ckpt", "split=val", f"hydra.run.dir={tmp_path}/val")
    capsys.readouterr()
    before = (tmp_path / "val" / "report.html").read_bytes()
    assert b"windows of val" in before
    report(tmp_path / "val")
    assert (tmp_path / "val" / "report.html").read_bytes() == before
    shutil.rmtree(run)
    error = report(tmp_path / "val", status=1)
    assert f"{tmp_path}/val: the checkpoint that was evaluated, {run}/checkpoints/best.ckpt, is not there" in error


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


REFUSED = {
    "killed": (lambda run: edit(run / "run.json", status="running"), "results to report: it is running, or was killed"),
    "failed": (lambda run: edit(run / "run.json", status="failed", error="no room"), "no results to report: no room"),
    "no metrics": (lambda run: (run / "metrics.json").unlink(), "has no results to report: there is no metrics.json"),
    "torn": (lambda run: (run / "metrics_by_step.csv").write_text("x"), "by_step.csv is not the one that metrics"),
    "cut metrics": (lambda run: (run / "metrics.json").write_text('{"test": '), "metrics.json is damaged or was"),
    "no folder": (shutil.rmtree, "there is no such folder"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_run_without_results_is_refused_in_a_sentence(run, report, kind):
    change, words = REFUSED[kind]
    change(run)
    before = (run / "report.html").read_bytes() if run.exists() else b""
    error = report(run, status=1)
    assert error.startswith(str(run)) and words in error
    assert not run.exists() or (run / "report.html").read_bytes() == before


def test_a_strangers_page_is_replaced_only_on_request(run, report):
    metrics = json.loads((run / "metrics.json").read_text())
    del metrics["files"]["report.html"]
    (run / "metrics.json").write_text(json.dumps(metrics))
    (run / "report.html").write_text("mine")
    assert "report.html is there and is not a page of this run" in report(run, status=1)
    report(run, "--overwrite")
    assert (run / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((run / "metrics.json").read_text())["files"]["report.html"] == sha256(run / "report.html")


def test_the_page_does_not_say_where_the_data_lay(csv_run):
    config = (csv_run / "report.html").read_text().split("every key")[1]
    assert "optim.lr" in config and "data.time_column" in config
    assert "data.path" not in config and "logger" not in config and str(csv_run.parent) not in config
