"""The baseline that a verdict advises is trained with the roles that it can use, and is that baseline."""

import json

import pytest
from config.composed import composed
from program import TINY, call

from forecast.config.check import check_config
from forecast.report.forecasters import baselines_of
from forecast.report.verdict import advised, verdict, without_roles

KNOWN, PAST, FILE = "data.known=[a,b]", "data.past=[w]", "data.path=README.md"


@pytest.mark.parametrize(
    "option, data, kept",
    [
        ("ridge", [FILE, KNOWN, PAST], [FILE, KNOWN]),
        ("ridge", [FILE, PAST], [FILE, "data.features=S"]),
        ("ridge", [FILE, "data.target=[x,y]", PAST], [FILE, "data.target=[x,y]"]),
        ("boosted_trees", [FILE, KNOWN, PAST], [FILE, KNOWN]),
        ("seasonal_naive", [FILE, KNOWN, PAST, "data.static=[c]"], [FILE, "data.features=S"]),
        ("nlinear", [FILE, "data.target=[x,y]", KNOWN], [FILE, "data.target=[x,y]"]),
        ("nlinear", [FILE, "data.features=MS"], [FILE, "data.features=MS"]),
    ],
)
def test_the_advised_keys_are_accepted(option, data, kept):
    assert without_roles(option, data) == kept
    check_config(composed("data=csv", f"model={option}", *kept))


BASELINES = ("last_value", "seasonal_naive", "closed_form_nlinear", "ridge")


@pytest.mark.parametrize("best", BASELINES)
@pytest.mark.parametrize("roles", [[], [KNOWN], [KNOWN, PAST]])
def test_the_advised_command_is_accepted_for_each_baseline_that_can_win(best, roles):
    metrics = {"seq_len": 96, "baselines": {best: {"scaled": {"mse": 1.0}}}, "protocol": "apart"}
    (row,) = baselines_of(metrics)
    words = advised(metrics, row, [FILE, *roles, "seq_len=96", "pred_len=24"])
    config = composed("data=csv", *words)
    check_config(config)
    assert config.model._target_.rsplit(".")[-1] == {"closed_form_nlinear": "Ridge"}.get(best, row_class(best))
    assert config.model.get("look_back") == (96 if best == "closed_form_nlinear" else None)
    assert bool(config.data.known) == (best == "ridge" and KNOWN in roles)


def row_class(name):
    return "".join(part.title() for part in name.split("_"))


@pytest.mark.parametrize("features", ["M", "S"])
@pytest.mark.parametrize("best", BASELINES)
def test_what_is_advised_is_that_baseline_and_advises_nothing_more(tmp_path, best, features):
    """Of made-up data on which the model, last value of all, loses to all that is better."""
    data = [*TINY[:5], f"data.features={features}", "calibration=none", "logger=none", "trainer.accelerator=cpu"]

    def trained(name, *words):
        call("train", *data, *words, f"hydra.run.dir={tmp_path / name}")
        return json.loads((tmp_path / name / "metrics.json").read_text())

    first = trained("first", "model=ridge", "model.look_back=2", "model.strength=1e6", "model.naive=mean")
    rows = {row.key: row for row in baselines_of(first)}
    again = trained("again", *advised(first, rows[best], first["same_data"]))
    assert again["test"]["scaled"]["mse"] == pytest.approx(rows[best].mse, rel=1e-5)
    others = {**again, "baselines": {best: again["baselines"][best]}}
    assert verdict(others, "test")[1].startswith("No baseline was evaluated")
