"""Each cure of a model that loses: figures that lead to it, and figures that do not."""

import pytest

from forecast.report.verdict import NAMED, cures

HEALTHY = {
    "windows": 8521,
    "batch_size": 32,
    "max_epochs": 6,
    "lr": 1e-4,
    "schedule": "constant",
    "instance_norm": False,
    "d_model": 512,
    "n_heads": 8,
    "d_ff": 2048,
}


def run(*, shift=0.4, parameters=130_000, best_epoch=4, **training):
    return {
        "test": {"level_shift": shift},
        "parameters": parameters,
        "best_epoch": best_epoch,
        "training": HEALTHY | training,
    }


def overrides(metrics):
    return [cure.overrides for cure in cures(metrics, "test")]


SMALL = "model.d_model=64 model.d_ff=128"
SMALL_BATCHES = "data.batch_size=8 trainer.max_epochs=112"
LEAD = {
    "a level that drifts": (run(shift=1.0), ["model.instance_norm=true"]),
    "a model too large for its windows": (run(parameters=11_000_000), [SMALL]),
    "and few steps for them": (run(parameters=71_000, windows=71), [f"{SMALL} {SMALL_BATCHES}"]),
    "of a small model the steps alone": (run(parameters=71_000, windows=71, d_model=64), [SMALL_BATCHES]),
    "heads of which each has a width": (run(parameters=1e9, n_heads=48), ["model.d_model=48 model.d_ff=96"]),
    "a model without widths": (run(parameters=71_000, windows=71, d_model=None, d_ff=None), [SMALL_BATCHES]),
    "the best epoch is the last": (run(best_epoch=6), ["trainer.max_epochs=18"]),
    "under a rate that is halved each epoch": (
        run(best_epoch=6, schedule="halve_each_epoch"),
        ["trainer.max_epochs=18 schedule=cosine"],
    ),
    "the only epoch": (run(best_epoch=1, max_epochs=1), ["trainer.max_epochs=3"]),
    "the best epoch is the first": (run(best_epoch=1), ["optim.lr=1e-05"]),
    "two of three": (run(shift=3.0, parameters=11_000_000, best_epoch=6), ["model.instance_norm=true", SMALL]),
}
LEAD_NOWHERE = {
    "a healthy run": run(),
    "the level is near": run(shift=0.99),
    "the level is followed already": run(shift=3.0, instance_norm=True),
    "the model cannot follow it": run(shift=3.0, instance_norm=None),
    "windows enough": run(parameters=8_520_999),
    "a small model with steps enough": run(parameters=11_000_000, d_model=64),
    "an epoch between": run(best_epoch=2),
    "no validation": run(best_epoch=None),
    "no rate": run(best_epoch=1, lr=None),
    "an older program": {"test": {}, "parameters": 11_000_000, "best_epoch": 1},
}


@pytest.mark.parametrize("case", LEAD)
def test_what_leads_to_a_cure(case):
    metrics, expected = LEAD[case]
    assert overrides(metrics) == expected and len(expected) <= NAMED


@pytest.mark.parametrize("case", LEAD_NOWHERE)
def test_what_leads_to_none(case):
    assert overrides(LEAD_NOWHERE[case]) == []


def test_the_reasons_have_the_numbers():
    assert [cure.reason for cure in cures(run(shift=3.04, parameters=71_000, windows=71), "test")] == [
        "the level drifts: the mean of the test rows lies 3.0 standard deviations of the train rows from theirs",
        "71,000 parameters are learned from 71 train windows",
    ]
    assert [cures(run(best_epoch=n), "test")[0].reason for n in (6, 1)] == [
        "its last epoch, 6, was its best",
        "its first epoch was its best",
    ]
