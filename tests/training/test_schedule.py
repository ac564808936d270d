"""The factor on the learning rate in each epoch."""

import pytest

from forecast.training.schedule import constant, decay_90, halve_each_epoch


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (halve_each_epoch, [1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16]),
        (decay_90, [1, 1, 1, 1, 0.9, 0.81, 0.729]),
        (constant, [1, 1, 1, 1, 1, 1]),
    ],
    ids=["halve_each_epoch", "decay_90", "constant"],
)
def test_a_schedule_has_its_published_factors(schedule, factors):
    assert [schedule(epoch) for epoch in range(len(factors))] == pytest.approx(factors, rel=1e-12)
