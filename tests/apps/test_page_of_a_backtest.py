"""report.html of a backtest."""

import pytest
from apps.backtests import FOLDS, RIDGE, backtested

from forecast.run_folder import sha256


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A backtest of three folds with a training for each; its folder and backtest.json."""
    folder = tmp_path_factory.mktemp("backtest") / "nightly"
    return folder, backtested(folder, *RIDGE, *FOLDS, "backtest.refit=every_fold")[1]


def test_a_backtest_leaves_a_page_with_its_own_figures(done):
    folder, document = done
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert document["files"]["report.html"] == sha256(folder / "report.html")
    assert f"<dd>{document['overall']['model']['mse']:.4f}</dd>" in page and "Backtest of ridge on demo" in page
    assert f"made from {document['by_fold'][0]['cutoff']} to" in page and len(page) < 500_000
    assert str(folder) not in page and folder.name not in page


def test_one_training_and_its_checkpoint_give_the_same_pictures(tmp_path):
    backtested(tmp_path / "once", *RIDGE, *FOLDS)
    best = tmp_path / "once/folds/fold-all/checkpoints/best.ckpt"
    backtested(tmp_path / "again", f"ckpt_path={best}", *FOLDS[:2])
    data = [(tmp_path / name / "report.html").read_text().split("page-data")[1] for name in ("once", "again")]
    assert data[0] == data[1]
