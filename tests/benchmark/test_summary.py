"""The short table: what was asked, and what came beside the authors' code."""

import pytest

from benchmarks.summary import ASKED, rows


def step(sizes, fp32, megabytes):
    seq_len, batch = sizes
    found = {
        "ours informer2020 fp32": {"ratios": {"informer2020 fp32": {"median": fp32}}, "megabytes": megabytes[0]},
        "informer2020 fp32": {"ratios": {}, "megabytes": megabytes[1]},
    }
    return {"seq_len": seq_len, "label_len": 5, "pred_len": 3, "batch": batch, "contenders": found}


def duel(length, prob, full):
    return {
        "L": length,
        "causal": False,
        "contenders": {
            "ours prob": {"seconds": prob, "ratios": {"informer2020": {"median": 4.5}}},
            "ours full": {"seconds": full},
        },
    }


PARTS = {
    "step": [step((7, 2), 1.234, (10.0, 25.0)), step((11, 3), 2.0, (30.0, 40.0))],
    "duel": [duel(96, 0.5, 1.0), duel(1440, 0.5, 3.5)],
    "attention": {"prob": {"growth": {"forward+backward": 1.125}}},
}


def test_a_row_has_what_was_measured_what_was_asked_and_what_came():
    found = {what: (asked, came) for what, asked, came in rows(PARTS, "cpu")}
    assert found == {
        "training step 7/5/3 x 2, 11/5/3 x 3, fp32": ("1.1", "1.23, 2.00"),
        "`attention=prob`, L 96, 1,440": ("4, from 1,440 on 8", "4.50, 4.50"),
        "`attention=prob` beside our full attention, the same": ("1", "2.0, 7.0"),
        "memory of a step 11/5/3 x 3 by theirs, fp32": ("at most 0.5", "0.750"),  # of the longest window
        "growth of prob's time with the length": ("exponent 1.2", "1.12"),
    }


@pytest.mark.parametrize("kind", ASKED)
def test_nothing_is_said_of_what_was_not_measured(kind):
    assert list(rows({}, kind)) == []
