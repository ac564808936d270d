"""Which windows a process trains on and validates on, and in which order."""

import itertools

import numpy as np
import pytest
import torch

from forecast.errors import UserError
from forecast.training.datamodule import BatchesInOrder, DrawnOrder, EpochOrder, TrainBatches

SIZES = list(itertools.product((1, 2, 5, 64, 67), (1, 16), (1, 3)))


def taken(batches):
    """The window numbers of the batches of a pass, one by one as they are handed out."""
    first = batches.first_step
    for step, share in enumerate(batches.batch_indices(torch.device("cpu"))[first:], start=first):
        batches.advance(step, len(share))
        yield share.tolist()


def flat(lists):
    return list(itertools.chain(*lists))


def train_batches(windows, batch_size, *, seed=3, epoch=0, **process):
    order = EpochOrder(windows, seed=seed)
    order.set_epoch(epoch)
    return TrainBatches(order, batch_size=batch_size, **process)


def epoch_of(windows, batch_size, world, **order):
    """For each process the batches of an epoch."""
    return [list(taken(train_batches(windows, batch_size, rank=r, world=world, **order))) for r in range(world)]


@pytest.mark.parametrize(("windows", "batch_size", "world"), [s for s in SIZES if s[0] >= s[2]])
def test_the_processes_train_on_every_window_once(windows, batch_size, world):
    shares = epoch_of(windows, batch_size, world)
    assert sorted(flat(flat(shares))) == list(range(windows))
    assert {len(share) for share in shares} == {len(train_batches(windows, batch_size, world=world))}  # in every step
    assert all(flat(shares))


@pytest.mark.parametrize(("windows", "batch_size", "world"), [s for s in SIZES if s[0] >= s[2]])
@pytest.mark.parametrize("gathered", [1, 2, 3])
@pytest.mark.parametrize("left_out", [0, 1])
def test_a_gradient_of_several_steps_is_the_mean_over_their_windows(windows, batch_size, world, gathered, left_out):
    batches = train_batches(windows, batch_size, world=world)
    n_steps = len(batches) - left_out if len(batches) > 1 else 1  # trainer.limit_train_batches
    sizes, weights = [], []
    for step in range(n_steps):
        batches.advance(step, 1)
        sizes.append(len(batches.step_windows()))
        weights.append(batches.accumulated_weight(gathered, n_steps) / gathered)  # Lightning divides by it
    for first in range(0, n_steps, gathered):
        size = sum(sizes[first : first + gathered])
        for step in range(first, min(first + gathered, n_steps)):
            assert weights[step] == pytest.approx(sizes[step] / size)


@pytest.mark.parametrize("ends", [None, np.array([40, 40, 41, 311])], ids=["windows", "series"])
@pytest.mark.parametrize(("drawn", "world"), [(65, 2), (97, 3)])
def test_the_processes_share_a_draw_of_a_panel_so_that_each_of_its_windows_is_taken_once(drawn, world, ends):
    def order():
        return DrawnOrder(311, drawn=drawn, seed=3, ends=ends)

    shares = [list(taken(TrainBatches(order(), batch_size=4, rank=r, world=world))) for r in range(world)]
    assert sorted(flat(flat(shares))) == sorted(order().permutation().tolist())
    if ends is None:
        assert len(set(flat(flat(shares)))) == drawn  # none twice


@pytest.mark.parametrize(("windows", "world"), [(96, 2), (97, 2), (99, 3), (64, 1)])
def test_a_step_of_all_processes_is_the_step_of_one_with_their_batches_together(windows, world):
    alone = epoch_of(windows, 12, 1)[0]
    shares = epoch_of(windows, 12 // world, world)
    together = [sorted(flat(step)) for step in zip(*shares, strict=True)]
    assert together[:-1] == [sorted(batch) for batch in alone[: len(together) - 1]]


def test_one_process_takes_batches_of_the_requested_size_and_then_the_rest():
    assert [len(batch) for batch in epoch_of(67, 16, 1)[0]] == [16, 16, 16, 16, 3]
    # 65 = 2 * 2 * 16 + 1: the one window that two processes cannot share goes to the step before
    assert [[len(batch) for batch in share] for share in epoch_of(65, 16, 2)] == [[16, 17], [16, 16]]


def test_the_weighted_means_of_the_processes_average_to_the_mean_over_the_windows():
    batches = [train_batches(65, 16, rank=rank, world=2) for rank in range(2)]
    for mine in zip(*map(taken, batches), strict=True):
        windows = flat(mine)
        means = [b.weight * sum(part) / len(part) for b, part in zip(batches, mine, strict=True)]
        assert sum(means) / 2 == pytest.approx(sum(windows) / len(windows))


def test_the_order_depends_on_seed_and_epoch_alone():
    assert epoch_of(97, 16, 1, seed=5, epoch=3) == epoch_of(97, 16, 1, seed=5, epoch=3)
    orders = [tuple(flat(epoch_of(97, 16, 1, seed=s, epoch=e)[0])) for s in (5, 6) for e in (0, 1)]
    assert len(set(orders)) == 4
    assert tuple(range(97)) not in orders


def test_a_resumed_epoch_goes_on_after_the_batches_done_and_the_next_one_begins_anew():
    resumed = train_batches(67, 16, epoch=2)
    resumed.start = {"epoch": 2, "batches": 3}
    assert list(taken(resumed)) == list(taken(train_batches(67, 16, epoch=2)))[3:]
    assert resumed.position == {"epoch": 2, "batches": 5}
    resumed.sampler.set_epoch(3)
    assert list(taken(resumed)) == list(taken(train_batches(67, 16, epoch=3))) and resumed.position["batches"] == 5


def test_the_windows_of_the_last_step_are_those_of_all_processes():
    for rank in range(2):
        batches = train_batches(65, 16, rank=rank, world=2)
        for _, step in zip(taken(batches), taken(train_batches(65, 32)), strict=False):
            assert batches.step_windows()[:32] == step


def test_a_mean_of_batches_resumed_in_the_middle_has_its_weight():
    batches = train_batches(65, 16, rank=0, world=2)
    batches.start = {"epoch": 0, "batches": 1}
    assert len(next(taken(batches))) == 17
    assert batches.weight == pytest.approx(17 * 2 / 33)


@pytest.mark.parametrize(("windows", "batch_size", "world"), [s for s in SIZES if s[0] >= 2 * s[2]])
def test_the_processes_validate_every_window_once_in_equally_many_batches(windows, batch_size, world):
    shares = [list(taken(BatchesInOrder(windows, batch_size=batch_size, rank=r, world=world))) for r in range(world)]
    assert sorted(flat(flat(shares))) == list(range(windows))
    assert len({len(share) for share in shares}) == 1
    sizes = {len(batch) for batch in flat(shares)}
    assert min(sizes) >= 1 and max(sizes) <= max(batch_size, 2)


def test_one_process_takes_whole_batches_in_order_and_then_the_rest():
    assert list(taken(BatchesInOrder(7, batch_size=3))) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(taken(BatchesInOrder(1, batch_size=3))) == [[0]]


def test_more_processes_than_windows_are_refused():
    with pytest.raises(UserError, match=r"7 processes cannot share 5 train windows\. Start fewer"):
        train_batches(5, 2, world=7)
    with pytest.raises(UserError, match=r"3 processes cannot share 5 validation windows\. Start fewer"):
        BatchesInOrder(5, batch_size=2, rank=0, world=3)
