"""How fast a training was, and whether data held it up: on a clock that the tests set."""

import json
import logging
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from program import TINY, call

from forecast.data.windows import WindowDataset
from forecast.training import idle as idling
from forecast.training.cost import Cost, speed_sentences
from forecast.training.idle import Idle
from forecast.training.loader import WindowLoader
from forecast.training.module import ForecastModule

CPU = torch.device("cpu")


class Clock:
    """Stands still but when it is told to go on."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def go_on(self, seconds):
        self.now += seconds


class Training:
    """Calls a Cost as Lightning does."""

    def __init__(self, *, world=1, bar="a bar"):
        self.clock = Clock()
        self.cost = Cost(clock=self.clock)
        self.shown = []
        self.loader = SimpleNamespace(waited=0.0)
        self.trainer = SimpleNamespace(
            strategy=SimpleNamespace(root_device=CPU),
            world_size=world,
            train_dataloader=self.loader,
            precision="32-true",
            progress_bar_callback=bar,
            is_global_zero=True,
            current_epoch=0,
        )
        self.module = SimpleNamespace(log=lambda name, value, **options: self.shown.append((name, value, options)))

    def start(self):
        self.cost.on_train_start(self.trainer, self.module)

    def step(self, *, fetching, inside, after=0.0, windows=13):
        self.clock.go_on(fetching)
        self.loader.waited = fetching
        self.cost.on_train_batch_start(self.trainer, self.module)
        self.clock.go_on(inside)
        batch = SimpleNamespace(target=torch.zeros(windows, 3, 2))
        self.cost.on_train_batch_end(self.trainer, self.module, None, batch, 0)
        self.clock.go_on(after)

    def validate(self, seconds):
        self.cost.on_validation_start()
        self.clock.go_on(seconds)
        self.cost.on_validation_end()

    def end(self):
        self.cost.on_train_end(self.trainer, self.module)

    def figures(self):
        return self.cost.figures(self.trainer)


def test_the_limit_counts_the_seconds_inside_steps_alone_and_the_rest_is_split():
    training = Training()
    training.start()
    for _ in range(3):
        training.step(fetching=1.0, inside=5.0, after=2.0)
    training.validate(100.0)
    training.clock.go_on(2.0)  # writes a checkpoint
    training.end()
    training.clock.go_on(1000.0)  # evaluates
    figures = training.figures()
    assert figures["train_seconds"] == pytest.approx(126.0)
    assert figures["train_samples_per_second"] == pytest.approx(39 / 26)
    assert figures["train_limit_samples_per_second"] == pytest.approx(39 / 15)
    assert training.cost.speed() == [
        "Speed: 2 samples/s, 58 % of what the model alone allows (3): 12 % waited for data, 30 % in checkpoints, "
        "pictures and logging."
    ]


def test_a_training_whose_data_are_slow_is_told_so():
    training = Training()
    training.start()
    for _ in range(5):
        training.step(fetching=6.0, inside=4.0)
    training.end()
    line, hint = training.cost.speed()
    assert "40 % of what the model alone allows" in line and "60 % waited for data, 0 % in" in line
    assert hint.startswith("Data, not the model, set the pace: try a larger data.batch_size")


@pytest.mark.parametrize(("waiting", "lines"), [(0.2, 1), (0.21, 2)])
def test_the_hint_comes_above_a_fifth(waiting, lines):
    assert len(speed_sentences(100.0, idle=0.5, waiting=waiting)) == lines


def test_shares_never_add_up_to_more_than_all():
    (line,) = speed_sentences(321.4, idle=0.009, waiting=0.0055)
    assert line == (
        "Speed: 321 samples/s, 99 % of what the model alone allows (324): 1 % waited for data, 0 % in checkpoints, "
        "pictures and logging."
    )


def test_nothing_is_said_of_a_training_without_a_step():
    training = Training()
    assert training.cost.speed() == []
    training.start()
    training.clock.go_on(3.0)
    training.end()
    assert training.cost.speed() == []
    assert training.figures()["train_limit_samples_per_second"] is None


def test_a_validation_in_the_middle_of_an_epoch_is_neither_step_nor_waiting():
    training = Training()
    training.start()
    training.step(fetching=1.0, inside=5.0)
    training.validate(70.0)
    training.step(fetching=1.0, inside=5.0)
    training.step(fetching=1.0, inside=5.0)
    training.end()
    assert training.figures()["train_limit_samples_per_second"] == pytest.approx(39 / 15)
    assert "17 % waited for data, 0 % in" in training.cost.speed()[0]


def test_the_sums_go_on_in_the_next_leg_and_the_pause_between_does_not_count():
    first, second = Training(), Training()
    first.start()
    first.step(fetching=1.0, inside=4.0, after=5.0)
    first.end()
    second.cost.load_state_dict(first.cost.state_dict())
    second.clock.go_on(1e6)
    second.start()
    second.step(fetching=1.0, inside=4.0, after=5.0)
    second.end()
    assert second.figures()["train_seconds"] == pytest.approx(20.0)
    assert second.figures()["train_limit_samples_per_second"] == pytest.approx(26 / 8)
    assert "10 % waited for data, 50 % in" in second.cost.speed()[0]


def test_a_checkpoint_of_an_earlier_release_counts_its_leg_as_spent_in_steps():
    training = Training()
    training.cost.load_state_dict({"seconds": 30.0, "validation_seconds": 10.0, "samples": 40})
    assert training.figures()["train_limit_samples_per_second"] == pytest.approx(2.0)


def test_the_clock_stops_when_the_training_is_interrupted():
    training = Training()
    training.start()
    training.step(fetching=1.0, inside=4.0)
    training.cost.on_exception(training.trainer, training.module, KeyboardInterrupt())
    training.clock.go_on(500.0)  # evaluates best.ckpt
    assert training.figures()["train_seconds"] == pytest.approx(5.0)


def test_the_windows_of_all_processes_count():
    training = Training(world=3)
    training.start()
    training.step(fetching=0.0, inside=2.0, windows=13)
    training.end()
    assert training.figures()["train_samples_per_second"] == pytest.approx(39 / 2)


def test_the_bar_shows_the_rate_of_the_last_second_or_more():
    training = Training()
    training.start()
    for inside in (0.6, 0.6, 0.3, 0.9):
        training.step(fetching=0.0, inside=inside, windows=12)
    training.validate(50.0)
    training.step(fetching=0.0, inside=2.0, windows=12)
    assert [(name, pytest.approx(rate)) for name, rate, _ in training.shown] == [
        ("samples/s", 24 / 1.2),
        ("samples/s", 24 / 1.2),
        ("samples/s", 12 / 2.0),
    ]
    assert all(options["prog_bar"] and not options["logger"] for *_, options in training.shown)


@pytest.mark.parametrize(("bar", "first", "said"), [(None, True, 2), ("a bar", True, 0), (None, False, 0)])
def test_without_a_bar_the_first_process_says_the_rate_of_each_epoch(caplog, bar, first, said):
    training = Training(bar=bar)
    training.trainer.is_global_zero = first
    training.start()
    with caplog.at_level(logging.INFO):
        for epoch, inside in enumerate((2.0, 4.0)):
            training.trainer.current_epoch = epoch
            training.step(fetching=0.0, inside=inside, windows=60)
            training.cost.on_train_epoch_end(training.trainer, training.module)
    assert [r.getMessage() for r in caplog.records] == ["Epoch 1: 30 samples/s", "Epoch 2: 15 samples/s"][:said]


class Event:
    """An event of a GPU whose queue the test sets: it is passed when the work told before is done."""

    passed_until = 0.0

    def __init__(self, at):
        self.at = at

    def query(self):
        return self.at <= Event.passed_until

    def elapsed_time(self, other):
        assert self.query() and other.query(), "torch refuses an event that was not passed yet"
        return 1e3 * (other.at - self.at)


@pytest.fixture
def gpu(monkeypatch):
    """An Idle on a GPU that passes its next event at `queue.at`."""
    queue = SimpleNamespace(at=0.0, waited=0)
    monkeypatch.setattr(Event, "passed_until", 0.0)
    monkeypatch.setattr(Idle, "moment", lambda self: Event(queue.at))

    def synchronize(device):
        queue.waited += 1
        Event.passed_until = queue.at

    monkeypatch.setattr(idling.torch.cuda, "synchronize", synchronize)
    return Idle(torch.device("cuda"), clock=Clock()), queue


def test_a_gpu_that_had_work_while_a_batch_was_fetched_did_not_wait(gpu):
    idle, queue = gpu
    queue.at = 10.0
    idle.leave()  # the step will have ended at 10
    idle.enter(fetching=5.0, apart=0.0)  # fetched by then: the next one begins at once
    Event.passed_until = 20.0
    idle.settle(last=False)
    assert (idle.seconds, idle.waiting, queue.waited) == (0.0, 0.0, 0)


def test_a_gpu_waited_for_data_as_long_as_it_stood_idle_at_most(gpu):
    idle, queue = gpu
    queue.at = 10.0
    idle.leave()
    queue.at = 12.0
    idle.enter(fetching=5.0, apart=0.0)
    Event.passed_until = 12.0
    idle.settle(last=False)
    assert (idle.seconds, idle.waiting) == (2.0, 2.0)


def test_no_step_waits_for_a_gpu_but_the_end_does(gpu):
    idle, queue = gpu
    for at in (10.0, 20.0):
        queue.at = at
        idle.leave()
        queue.at = at + 3.0
        idle.enter(fetching=1.0, apart=0.5)
    assert (idle.seconds, queue.waited, len(idle.gaps)) == (0.0, 0, 2)
    idle.settle(last=True)
    assert (idle.seconds, idle.waiting, queue.waited) == (5.0, 2.0, 1)


def test_a_run_says_its_speed_once_and_keeps_the_limit(tmp_path, capsys, monkeypatch):
    """A training whose windows take long to gather: their time is in the line, whatever the machine does."""
    clock = Clock()
    gather, train = WindowDataset.in_batches, ForecastModule.training_step

    def slow(self, *arguments):
        clock.go_on(60.0)
        return gather(self, *arguments)

    def quick(self, batch):
        clock.go_on(5.0)
        return train(self, batch)

    monkeypatch.setattr(WindowDataset, "in_batches", slow)
    monkeypatch.setattr(ForecastModule, "training_step", quick)
    monkeypatch.setattr("forecast.commands.train.Cost", partial(Cost, clock=clock))
    monkeypatch.setattr("forecast.training.datamodule.WindowLoader", partial(WindowLoader, clock=clock))
    call("train", *TINY, "trainer.limit_train_batches=4", f"hydra.run.dir={tmp_path}")
    said, logged = capsys.readouterr().out, (tmp_path / "train.log").read_text()
    line = "Speed: 2 samples/s, 25 % of what the model alone allows (6): 75 % waited for data, 0 % in checkpoints"
    assert said.count(line) == said.count("Speed: ") == logged.count("Speed: ") == 1
    assert said.count("Data, not the model, set the pace") == 1
    cost = json.loads((tmp_path / "metrics.json").read_text())["cost"]
    assert cost["train_samples_per_second"] == 4 * 32 / 80
    assert cost["train_limit_samples_per_second"] == 4 * 32 / 20
