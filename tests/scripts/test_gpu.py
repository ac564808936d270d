"""scripts/gpu.py in tiny sizes on a CPU: the same steps as on a card."""

import json

import pytest
from script import call_script


@pytest.mark.slow
def test_the_table_has_the_tests_the_rates_and_where_a_training_s_seconds_go(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("OUT", str(tmp_path))
    status, output, _ = call_script(capsys, "gpu", "--device", "cpu", "--quick", "--minutes", "20")
    rows = {row["step"].strip(): row for row in json.loads((tmp_path / "gpu.json").read_text())}
    assert status == 0 and len(output.splitlines()) == len(rows)
    assert rows["tests/test_cuda.py"]["result"].startswith("2 passed")
    assert float(rows["windows/s, float32"]["result"]) > 0 and float(rows["windows/s, bf16"]["result"]) > 0
    assert float(rows["windows/s, float32, eager"]["result"]) > 0
    whole, stages = rows["a whole training"], list(rows.values())[7:]
    assert whole["result"] == "finished"
    assert sum(row["seconds"] for row in stages) == pytest.approx(whole["seconds"])
    assert rows["imports"]["seconds"] > 0 and rows["fit"]["seconds"] > 0


def test_a_step_for_which_no_time_is_left_says_so(capsys):
    status, output, _ = call_script(capsys, "gpu", "--device", "cpu", "--quick", "--minutes", "0.01")
    assert status == 0 and output.count("no time left") == 6
