"""report.html of a backtest, and the same page made anew from the files of its folder."""

import shutil
from pathlib import Path

import pytest
from apps.backtests import FOLDS, RIDGE, backtested
from script import call_script

from forecast.run_folder import sha256


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A backtest of three folds with a training for each; its folder and backtest.json."""
    folder = tmp_path_factory.mktemp("backtest") / "nightly"
    return folder, backtested(folder, *RIDGE, *FOLDS, "backtest.refit=every_fold")[1]


@pytest.fixture
def run(done, tmp_path):
    return Path(shutil.copytree(done[0], tmp_path / "copy"))


@pytest.fixture
def report(capsys):
    def call_it(folder, *more, status=0):
        found, output, errors = call_script(capsys, "report", folder, *more)
        assert found == status, errors
        assert errors.count("\n") == bool(status)  # one sentence, or two on a line
        return errors if status else output

    return call_it


def test_a_backtest_leaves_a_page_with_its_own_figures(done):
    folder, document = done
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert document["files"]["report.html"] == sha256(folder / "report.html")
    assert f"<dd>{document['overall']['model']['mse']:.4f}</dd>" in page and "Backtest of ridge on demo" in page
    assert f"made from {document['by_fold'][0]['cutoff']} to" in page and len(page) < 500_000
    assert str(folder) not in page and folder.name not in page


def test_the_page_made_anew_is_the_same_to_the_byte_wherever_the_folder_lies(run, report):
    before, document = (run / "report.html").read_bytes(), (run / "backtest.json").read_bytes()
    (run / "report.html").unlink()
    assert report(run, "--page").startswith(f"{run}/report.html: ")
    assert (run / "report.html").read_bytes() == before and (run / "backtest.json").read_bytes() == document


def test_one_training_and_its_checkpoint_give_the_same_pictures(tmp_path, report):
    backtested(tmp_path / "once", *RIDGE, *FOLDS)
    best = tmp_path / "once/folds/fold-all/checkpoints/best.ckpt"
    backtested(tmp_path / "again", f"ckpt_path={best}", *FOLDS[:2])
    data = [(tmp_path / name / "report.html").read_text().split("page-data")[1] for name in ("once", "again")]
    assert data[0] == data[1]
    report(tmp_path / "again", "--page")
    best.unlink()
    assert f"its checkpoint, {best}, is not there" in report(tmp_path / "again", "--page", status=1)


def unfinished(run):
    (run / "backtest.json").unlink()


REFUSED = {
    "killed": (unfinished, "this backtest has not finished. The same forecast backtest command, with hydra.run.dir="),
    "no parts": (lambda run: shutil.rmtree(run / "parts"), "parts/scales.npz is gone, from which the page is made"),
    "torn": (lambda run: (run / "backtest.parquet").write_text("x"), "is not the one that backtest.json was written"),
    "no JSON": (
        lambda run: (run / "backtest.json").write_text("{"),
        "backtest.json is damaged or was written",
    ),
    "no checkpoint": (lambda run: shutil.rmtree(run / "folds"), "folds/fold-0/checkpoints/last.ckpt, is not there"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_backtest_without_results_is_refused_in_a_sentence(run, report, kind):
    change, words = REFUSED[kind]
    change(run)
    before = (run / "report.html").read_bytes()
    error = report(run, "--page", status=1)
    assert error.startswith(str(run)) and words in error
    assert (run / "report.html").read_bytes() == before


def test_a_backtest_is_no_sweep_and_a_sweep_has_its_page_without_the_option(run, report, tmp_path):
    assert f"{run} is a single run: say the folder that holds the runs, or --page" in report(run, status=1)
    (tmp_path / "sweep" / "a").mkdir(parents=True)
    (tmp_path / "sweep" / "a" / "run.json").write_text("{}")
    error = report(tmp_path / "sweep", "--page", status=1)
    assert "has no results to report" in error and f"forecast report {tmp_path}/sweep" in error
