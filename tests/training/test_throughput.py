"""How fast a training was, and whether data held it up: on a clock that the tests set."""

import json
import logging
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from program import TINY, call

from forecast.data.windows import WindowDataset
from forecast.training.loader import WindowLoader
from forecast.training.module import ForecastModule
from forecast.training.throughput import Throughput, speed_sentences

CPU = torch.device("cpu")


class Clock:
    """Stands still between calls of `advance`."""

    now = 1000.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Training:
    """Calls a Throughput as Lightning does."""

    def __init__(self, *, world=1, bar="a bar"):
        self.clock = Clock()
        self.throughput = Throughput(clock=self.clock)
        self.bar = []
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
        self.module = SimpleNamespace(log=lambda name, value, **options: self.bar.append((name, value, options)))

    def start(self):
        self.throughput.on_train_start(self.trainer, self.module)

    def step(self, *, fetching, inside, after=0.0, windows=13):
        self.clock.advance(fetching)
        self.loader.waited = fetching
        self.throughput.on_train_batch_start(self.trainer, self.module)
        self.clock.advance(inside)
        batch = SimpleNamespace(target=torch.zeros(windows, 3, 2))
        self.throughput.on_train_batch_end(self.trainer, self.module, None, batch, 0)
        self.clock.advance(after)

    def validate(self, seconds):
        self.throughput.on_validation_start()
        self.clock.advance(seconds)
        self.throughput.on_validation_end()

    def end(self):
        self.throughput.on_train_end(self.trainer, self.module)

    def metrics(self):
        return self.throughput.metrics(self.trainer)


def test_the_limit_counts_the_seconds_inside_steps_alone_and_the_rest_is_split():
    training = Training()
    training.start()
    training.step(fetching=1.0, inside=5.0, after=2.0)
    training.validate(100.0)  # in the middle of an epoch: neither step nor waiting
    for _ in range(2):
        training.step(fetching=1.0, inside=5.0, after=2.0)
    training.clock.advance(2.0)  # writes a checkpoint
    training.end()
    training.clock.advance(1000.0)  # evaluates
    metrics = training.metrics()
    assert metrics["train_seconds"] == pytest.approx(126.0)
    assert metrics["train_samples_per_second"] == pytest.approx(39 / 26)
    assert metrics["train_limit_samples_per_second"] == pytest.approx(39 / 15)
    assert training.throughput.sentences() == [
        "Speed: 2 samples/s, 58 % of what the model alone allows (3): 12 % waited for data, 30 % in checkpoints, "
        "pictures and logging."
    ]


def test_the_hint_comes_above_a_fifth_and_shares_never_add_up_to_more_than_all():
    assert [len(speed_sentences(100.0, idle=0.5, waiting=waiting)) for waiting in (0.2, 0.21)] == [1, 2]
    assert speed_sentences(321.4, idle=0.009, waiting=0.0055) == [
        "Speed: 321 samples/s, 99 % of what the model alone allows (324): 1 % waited for data, 0 % in checkpoints, "
        "pictures and logging."
    ]


def test_a_training_without_a_step_has_no_speed():
    training = Training()
    training.start()
    training.clock.advance(3.0)
    training.end()
    assert training.throughput.sentences() == []
    assert training.metrics()["train_limit_samples_per_second"] is None


def test_the_sums_go_on_in_the_next_leg_and_the_pause_between_does_not_count():
    first, second = Training(), Training()
    first.start()
    first.step(fetching=1.0, inside=4.0, after=5.0)
    first.end()
    second.throughput.load_state_dict(first.throughput.state_dict())
    second.clock.advance(1e6)
    second.start()
    second.step(fetching=1.0, inside=4.0, after=5.0)
    second.end()
    assert second.metrics()["train_seconds"] == pytest.approx(20.0)
    assert second.metrics()["train_limit_samples_per_second"] == pytest.approx(26 / 8)
    assert "10 % waited for data, 50 % in" in second.throughput.sentences()[0]


@pytest.mark.parametrize(("more", "limit"), [({}, 2.0), ({"idle_seconds": 4.0, "waiting_seconds": 1.0}, 2.5)])
def test_checkpoints_of_earlier_releases_go_on(more, limit):
    """Format 1 holds the seconds between steps; the first releases did not, so their legs count as spent in steps."""
    training = Training()
    training.throughput.load_state_dict({"seconds": 30.0, "validation_seconds": 10.0, "samples": 40, **more})
    assert training.metrics()["train_limit_samples_per_second"] == pytest.approx(limit)
    assert training.throughput.state_key == "Cost"


def test_the_clock_stops_when_the_training_is_interrupted_and_the_windows_of_all_processes_count():
    training = Training(world=3)
    training.start()
    training.step(fetching=1.0, inside=4.0, windows=13)
    training.throughput.on_exception(training.trainer, training.module, KeyboardInterrupt())
    training.clock.advance(500.0)  # evaluates best.ckpt
    assert training.metrics()["train_seconds"] == pytest.approx(5.0)
    assert training.metrics()["train_samples_per_second"] == pytest.approx(39 / 5)


def test_the_bar_shows_the_rate_of_the_last_second_or_more():
    training = Training()
    training.start()
    for inside in (0.6, 0.6, 0.3, 0.9):
        training.step(fetching=0.0, inside=inside, windows=12)
    training.validate(50.0)
    training.step(fetching=0.0, inside=2.0, windows=12)
    assert [(name, pytest.approx(rate)) for name, rate, _ in training.bar] == [
        ("samples/s", 24 / 1.2),
        ("samples/s", 24 / 1.2),
        ("samples/s", 12 / 2.0),
    ]
    assert all(options["prog_bar"] and not options["logger"] for *_, options in training.bar)


@pytest.mark.parametrize(("bar", "first", "lines"), [(None, True, 2), ("a bar", True, 0), (None, False, 0)])
def test_without_a_bar_the_first_process_logs_the_rate_of_each_epoch(caplog, bar, first, lines):
    training = Training(bar=bar)
    training.trainer.is_global_zero = first
    training.start()
    with caplog.at_level(logging.INFO):
        for epoch, inside in enumerate((2.0, 4.0)):
            training.trainer.current_epoch = epoch
            training.step(fetching=0.0, inside=inside, windows=60)
            training.throughput.on_train_epoch_end(training.trainer, training.module)
    assert [r.getMessage() for r in caplog.records] == ["Epoch 1: 30 samples/s", "Epoch 2: 15 samples/s"][:lines]


class Event:
    """An event of a GPU whose queue the test sets: it is passed when the work queued before it is done."""

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
    """A training on a GPU that passes its next event at `queue.at`."""
    queue = SimpleNamespace(at=0.0, waited=0)
    monkeypatch.setattr(Event, "passed_until", 0.0)
    monkeypatch.setattr(Throughput, "moment", lambda self: Event(queue.at))

    def synchronize(device):
        queue.waited += 1
        Event.passed_until = queue.at

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    training = Training()
    training.trainer.strategy.root_device = torch.device("cuda")
    training.start()
    return training, queue


def step_on(gpu, begin, end, *, fetching=0.0, program=0.0):
    """A step between two events of the queue; the program fetched a batch before it, and works on for so long."""
    training, queue = gpu
    training.clock.advance(fetching)
    training.loader.waited = fetching
    queue.at = begin
    training.throughput.on_train_batch_start(training.trainer)
    training.clock.advance(program)
    queue.at = end
    training.throughput.on_train_batch_end(
        training.trainer, training.module, None, SimpleNamespace(target=torch.zeros(13, 3, 2)), 0
    )


def test_no_step_waits_for_a_gpu_but_the_end_does(gpu):
    training, queue = gpu
    step_on(gpu, 1.0, 10.0)
    step_on(gpu, 10.0, 20.0)
    assert (training.throughput.computing, queue.waited, len(training.throughput.steps)) == (0.0, 0, 2)
    Event.passed_until = 10.0
    step_on(gpu, 21.0, 30.0)
    assert (training.throughput.computing, queue.waited, len(training.throughput.steps)) == (9.0, 0, 2)
    training.end()
    assert (training.throughput.computing, queue.waited) == (28.0, 1)


def test_a_gpu_that_had_work_while_a_batch_was_fetched_did_not_wait(gpu):
    training, _ = gpu
    step_on(gpu, 0.0, 10.0, program=1.0)
    step_on(gpu, 10.0, 20.0, fetching=5.0, program=1.0)  # fetched while the GPU was busy
    training.clock.advance(13.0)  # the program waits for the GPU to finish, 20 s after it began
    training.end()
    (line,) = training.throughput.sentences()
    assert "100 % of what the model alone allows" in line and "0 % waited for data, 0 % in" in line


def test_a_gpu_waited_for_data_as_long_as_it_stood_idle_at_most(gpu):
    training, _ = gpu
    step_on(gpu, 0.0, 10.0, program=10.0)
    step_on(gpu, 12.0, 20.0, fetching=5.0, program=5.0)
    training.end()
    assert "90 % of what the model alone allows" in training.throughput.sentences()[0]
    assert "10 % waited for data, 0 % in" in training.throughput.sentences()[0]


def test_a_run_prints_its_speed_and_the_hint_once_and_writes_the_limit(tmp_path, capsys, monkeypatch):
    """A training whose windows take long to gather: their time is in the line, whatever the machine does."""
    clock = Clock()
    gather, train = WindowDataset.in_batches, ForecastModule.training_step

    def slow(self, *arguments):
        clock.advance(60.0)
        return gather(self, *arguments)

    def quick(self, batch):
        clock.advance(5.0)
        return train(self, batch)

    monkeypatch.setattr(WindowDataset, "in_batches", slow)
    monkeypatch.setattr(ForecastModule, "training_step", quick)
    monkeypatch.setattr("forecast.commands.train.Throughput", partial(Throughput, clock=clock))
    monkeypatch.setattr("forecast.training.datamodule.WindowLoader", partial(WindowLoader, clock=clock))
    call("train", *TINY, "trainer.limit_train_batches=4", f"hydra.run.dir={tmp_path}")
    out, log = capsys.readouterr().out, (tmp_path / "train.log").read_text()
    line = "Speed: 2 samples/s, 25 % of what the model alone allows (6): 75 % waited for data, 0 % in checkpoints"
    assert out.count(line) == out.count("Speed: ") == log.count("Speed: ") == 1
    assert out.count("Data, not the model, set the pace: try a larger data.batch_size") == 1
    cost = json.loads((tmp_path / "metrics.json").read_text())["cost"]
    assert cost["train_samples_per_second"] == 4 * 32 / 80
    assert cost["train_limit_samples_per_second"] == 4 * 32 / 20
