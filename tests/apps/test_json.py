"""--json: one JSON document on stdout, everything else on stderr, and the exit status as without it."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from apps.files import read_forecast, write_csv
from script import call_script

from forecast.__main__ import main


def answer(capfd, *command):
    """The exit status, the one document on stdout, and stderr."""
    status, output, errors = call_script(capfd, *command, "--json")
    return status, json.loads(output), errors


def test_an_evaluation_is_its_metrics_and_its_folder(capfd, best, tmp_path):
    status, document, errors = answer(capfd, "evaluate", f"ckpt_path={best}", f"hydra.run.dir={tmp_path}/out")
    written = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (status, document) == (0, {"folder": f"{tmp_path}/out", **written})
    assert "closed-form NLinear" in errors and "Everything about this evaluation" in errors


def test_several_evaluations_are_a_list(capfd, best, tmp_path):
    sweep = ["-m", f"ckpt_path={best}", "split=val,test", f"hydra.sweep.dir={tmp_path}"]
    status, documents, _ = answer(capfd, "evaluate", *sweep)
    assert status == 0 and [("val" in document, "test" in document) for document in documents] == [
        (True, False),
        (False, True),
    ]


def test_a_forecast_is_its_rows_with_all_digits_and_iso_times(capfd, best, tmp_path):
    output = tmp_path / "out.csv"
    command = ("predict", f"ckpt_path={best}", f"output={output}", f"hydra.run.dir={tmp_path}/out")
    status, document, errors = answer(capfd, *command)
    assert status == 0 and f"steps from 2021-03-05 04:00:00 to 2021-03-05 05:00:00 are in {output}" in errors
    table, rows = read_forecast(output), pd.DataFrame(document["rows"])
    assert rows.columns.tolist() == table.columns.tolist() == ["when", "load", "wind"]
    assert rows["when"].tolist() == table["when"].tolist()
    np.testing.assert_allclose(rows[["load", "wind"]], table[["load", "wind"]], rtol=0, atol=0.5e-3)
    assert (document["output"], document["frequency"]) == (str(output), "15min")
    assert document["verdict"][0].startswith("Forecasts of ")


def test_a_file_that_can_be_trained_on(capfd, tmp_path):
    write_csv(tmp_path / "own.csv")
    status, document, errors = answer(capfd, "check-data", tmp_path / "own.csv")
    assert status == 0 and document["usable"]
    assert document["command"][:4] == ["forecast", "train", "model=ridge", "data=csv"]
    assert document["command"] == shlex.split(errors.splitlines()[-3])
    assert document["informer_command"] == shlex.split(errors.splitlines()[-1])
    assert document["drift"] is None or document["drift"]["column"] in ("load", "wind")
    layout = {"separator": ";", "decimal": ",", "time_column": "when"}
    expected = {"layout": layout, "rows": 400, "columns": ["load", "wind"]}
    expected |= {"frequency": "15min", "first": "2021-03-01 00:00:00", "last": "2021-03-05 03:45:00", "findings": []}
    lengths = {"seq_len": 96, "label_len": 48, "pred_len": 96}  # of four days the last two judge
    expected |= {"lengths": lengths, "windows": {"train": 400 - 2 * 96 - 96 - 96 + 1, "val": 1, "test": 1}}
    expected |= {"gaps": "refuse"}
    assert {key: document[key] for key in expected} == expected
    assert document["seasons"][0]["period"] == 96


def test_a_file_that_cannot_ends_with_status_1_and_the_findings(capfd, tmp_path):
    (tmp_path / "bad.csv").write_text("date,load\n2021-03-01 00:00,1\n2021-03-01 01:00,x\n2021-03-01 02:00,3\n")
    status, document, _ = answer(capfd, "check-data", tmp_path / "bad.csv")
    assert status == 1 and not document["usable"] and document["command"] is None
    first = document["findings"][0]
    assert first["severity"] == "error" and "'x'" in first["text"]


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("evaluate", "ckpt_path=none.ckpt"), "It is RUN/checkpoints/last.ckpt or best.ckpt"),
        (("predict", "ckpt_path=none.ckpt", "devise=cpu"), "Did you mean 'device'?"),
        (("report", "none"), None),
        (("inspect_checkpoint", "none.ckpt"), "Checkpoints lie in RUN/checkpoints/best.ckpt and last.ckpt"),
    ],
)
def test_what_the_user_can_mend_is_a_document_with_a_hint(capfd, monkeypatch, tmp_path, command, hint):
    monkeypatch.chdir(tmp_path)
    status, document, errors = answer(capfd, *command)
    assert status == 1 and document["status"] == "error" and document["error"] + "\n" == errors
    assert document["error"].rstrip(".").endswith(document["hint"]) and hint in (document["hint"], None)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (("check_data", "my.csv", "--sep", "x", "--wrong"), "unrecognized arguments"),
        (("inspect_checkpoint",), "the following arguments are required"),
        (("evaluate", "--wrong"), "unrecognized arguments: --wrong"),
    ],
)
def test_a_wrong_option_is_a_document_too_and_ends_with_status_2(capfd, command, error):
    status, document, errors = answer(capfd, *command)
    assert status == 2 and document["status"] == "error"
    assert error in document["error"] and document["error"] in errors


def test_so_is_a_command_that_is_none(capfd, monkeypatch):
    monkeypatch.setattr("sys.argv", ["forecast", "evalute", "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    document = json.loads(capfd.readouterr().out)
    assert document["error"].startswith("forecast evalute: no such command. Did you mean 'evaluate'?")
