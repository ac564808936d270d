"""docs/tutorials/python.ipynb: every cell runs, in order, in an empty folder."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "python.ipynb"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # they would be figures that nothing checks
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    errors, forecast = names["forecaster"].evaluate(), names["forecaster"].predict()
    assert list(errors.index) == [
        "dlinear",
        "last_value",
        "seasonal_naive",
        "train_mean",
        "closed_form_nlinear",
        "ridge",
        "smoothing",
    ]
    assert len(forecast) == 12 and forecast["load"].between(80, 120).all()
    assert "the DataFrame has the frequency '2h'" in capsys.readouterr().out
