"""The learning rate over a training, by epoch or by step."""

import functools

import pytest
import torch
from torch.optim import lr_scheduler

from forecast.training.module import is_stepwise, takes
from forecast.training.schedule import constant, cosine, decay_90, halve_each_epoch


def rates(schedule, steps, **arguments):
    """The rate at each step of an optimizer that begins with 1.0."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler, seen = schedule(optimizer, **arguments), []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (halve_each_epoch, [1, 1, 0.5, 0.25, 0.125, 0.0625]),
        (decay_90, [1, 1, 1, 1, 0.9, 0.81, 0.729]),
        (constant, [1, 1, 1]),
    ],
)
def test_a_schedule_has_its_published_factors(schedule, factors):
    assert rates(schedule, len(factors)) == pytest.approx(factors, rel=1e-12)


def test_a_cosine_falls_from_the_full_rate_to_its_floor_and_stays_there():
    expected = [1.0, 0.75 + 0.25 * 0.5**0.5, 0.75, 0.75 - 0.25 * 0.5**0.5, 0.5, 0.5, 0.5]
    assert rates(cosine, 7, total_steps=4, floor=0.5) == pytest.approx(expected, rel=1e-12)


def test_a_warm_up_rises_in_equal_steps_and_its_first_step_trains():
    found = rates(cosine, 10, total_steps=10, warmup=0.3)
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0], rel=1e-12)
    assert found[3:] == pytest.approx(rates(cosine, 7, total_steps=7), rel=1e-12)


@pytest.mark.parametrize(
    ("schedule", "stepwise"),
    [
        (functools.partial(cosine, floor=0.1), True),
        (functools.partial(lr_scheduler.OneCycleLR, max_lr=1.0), True),
        (functools.partial(lr_scheduler.OneCycleLR, max_lr=1.0, total_steps=7), True),
        (functools.partial(lr_scheduler.CyclicLR, base_lr=0.1, max_lr=1.0), True),
        (functools.partial(lr_scheduler.StepLR, step_size=2), False),
        (functools.partial(lr_scheduler.ReduceLROnPlateau), False),
        (halve_each_epoch, False),
    ],
)
def test_what_is_laid_out_over_batches_changes_the_rate_after_each(schedule, stepwise):
    assert is_stepwise(schedule) is stepwise


def test_a_total_that_the_user_gives_is_kept():
    assert takes(functools.partial(lr_scheduler.OneCycleLR, max_lr=1.0), "total_steps")
    assert not takes(functools.partial(lr_scheduler.OneCycleLR, max_lr=1.0, total_steps=7), "total_steps")
