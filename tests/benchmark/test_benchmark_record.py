"""The JSON file: parts measured earlier stay, another machine's are not mixed in."""

import json

import pytest

from benchmarks import record
from forecast.errors import UserError

MACHINE = {"device": "a CPU", "kind": "cpu", "threads": 3, "torch": "2.0", "commit": "new"}


def rates(*parts):
    return {part: {"before": {"fp32": 7.0}, "after": {"fp32": 5.0}} for part in parts}


def test_a_later_run_replaces_what_it_measured_and_keeps_the_rest(tmp_path):
    file = tmp_path / "cpu.json"
    record.write(file, {**MACHINE, "commit": "old", "rates": rates("step", "data")}, {"step": [1], "data": {"x": 2}})
    record.write(file, {**MACHINE, "rates": {"step": {"before": {"fp32": 3.0}}}}, {"step": [11, 13]})
    content = json.loads(file.read_text())
    assert content["parts"] == {"step": [11, 13], "data": {"x": 2}}
    assert content["machine"]["commit"] == "new"
    assert content["machine"]["rates"] == {"step": {"before": {"fp32": 3.0}}, **rates("data")}


@pytest.mark.parametrize("key", ["device", "kind", "threads", "torch"])
def test_figures_of_another_machine_are_not_mixed(tmp_path, key):
    file = tmp_path / "cpu.json"
    record.write(file, {**MACHINE, "rates": {}}, {})
    record.check_same_machine(file, MACHINE)
    with pytest.raises(UserError, match=f"measured with {key} {MACHINE[key]}, now it is other. Name another file"):
        record.check_same_machine(file, {**MACHINE, key: "other"})


def test_what_is_no_number_becomes_null_and_six_digits_stay():
    assert record.significant({"a": float("nan"), "b": (1234567.89, 0.000123456789)}) == {
        "a": None,
        "b": [1.23457e6, 1.23457e-4],
    }
