"""report.html of a training, and the same page made anew from the files of the folder."""

import shutil
from pathlib import Path

import pytest

from forecast.apps.common.page import remake
from forecast.errors import UserError
from forecast.run_folder import sha256


@pytest.fixture
def run(csv_run, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(csv_run, tmp_path / "run"))


def test_a_training_leaves_a_page_with_its_own_figures(csv_run, trained):
    page = (csv_run / "report.html").read_text(encoding="utf-8")
    assert trained["files"]["report.html"] == sha256(csv_run / "report.html")
    assert trained["files"]["metrics_by_step.csv"] == sha256(csv_run / "metrics_by_step.csv")
    assert f"<dd>{trained['test']['scaled']['mse']:.4f}</dd>" in page and "informer on own.csv" in page
    assert "own.csv, checksum" in page and str(csv_run) not in page.split('id="run"')[1]
    assert len(page) < 1_000_000


def test_the_page_made_anew_is_the_same_to_the_byte(run):
    before, metrics = (run / "report.html").read_bytes(), (run / "metrics.json").read_bytes()
    (run / "report.html").unlink()
    remake(run)
    assert (run / "report.html").read_bytes() == before
    assert (run / "metrics.json").read_bytes() == metrics


def test_of_a_run_without_results_no_page_is_made(run):
    (run / "metrics_by_step.csv").write_text("x")
    with pytest.raises(UserError, match=r"has no results to report: metrics_by_step.csv is not the one that metrics"):
        remake(run)


def test_the_page_does_not_say_where_the_data_lay(csv_run):
    config = (csv_run / "report.html").read_text().split("every key")[1]
    assert "optim.lr" in config and "data.time_column" in config
    assert "data.path" not in config and "logger" not in config and str(csv_run.parent) not in config
