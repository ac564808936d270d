"""How fast a training was, and whether data held it up: on a clock that the tests set."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from program import BRIEF, call

from forecast.data.windows import Windows
from forecast.training.datamodule import WindowLoader
from forecast.training.module import ForecastModule
from forecast.training.throughput import Throughput


class Clock:
    """Stands still between calls of `advance`."""

    now = 1000.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Training:
    """Calls a Throughput as Lightning does."""

    def __init__(self, *, world=1, device="cpu"):
        self.clock = Clock()
        self.throughput = Throughput(clock=self.clock)
        self.trainer = SimpleNamespace(
            strategy=SimpleNamespace(root_device=torch.device(device)),
            world_size=world,
            train_dataloader=SimpleNamespace(waited=0.0),
            precision="32-true",
            current_epoch=0,
        )

    def start(self):
        self.throughput.on_train_start(self.trainer)
        return self

    def step(self, *, fetching=0.0, inside=0.0, after=0.0, windows=13, on_gpu=(0.0, 0.0)):
        """on_gpu: when a GPU begins and ends the step that the program queues."""
        self.clock.advance(fetching)
        self.trainer.train_dataloader.waited = fetching
        Event.queued = on_gpu[0]
        self.throughput.on_train_batch_start(self.trainer)
        self.clock.advance(inside)
        Event.queued = on_gpu[1]
        batch = SimpleNamespace(target=torch.zeros(windows, 3, 2))
        self.throughput.on_train_batch_end(self.trainer, None, None, batch, 0)
        self.clock.advance(after)

    def validate(self, seconds):
        self.throughput.on_validation_start()
        self.clock.advance(seconds)
        self.throughput.on_validation_end()

    def end(self):
        self.throughput.on_train_end(self.trainer)
        return self

    def metrics(self):
        return self.throughput.metrics(self.trainer)


class Event:
    """An event of a GPU whose queue the test sets: it is passed when the work queued before it is done."""

    queued = passed_until = 0.0

    def __init__(self):
        self.at = Event.queued

    def query(self):
        return self.at <= Event.passed_until

    def elapsed_time(self, other):
        assert self.query() and other.query(), "torch refuses an event that was not passed yet"
        return 1e3 * (other.at - self.at)


def test_the_limit_counts_the_seconds_inside_steps_alone_and_the_rest_is_split():
    training = Training().start()
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


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (
            {"fetching": 3.0, "inside": 15.0, "after": 8.0, "windows": 39},
            "2 samples/s, 58 % of what the model alone allows (3): 12 % waited for data, 30 % in checkpoints",
        ),
        (  # shares never add up to more than all
            {"fetching": 5.5, "inside": 991.0, "after": 3.5, "windows": 321400},
            "321 samples/s, 99 % of what the model alone allows (324): 1 % waited for data, 0 % in checkpoints",
        ),
    ],
)
def test_the_sentence_has_rate_limit_and_shares(step, sentence):
    training = Training().start()
    training.step(**step)
    assert training.end().throughput.sentences() == [f"Speed: {sentence}, pictures and logging."]


def test_the_hint_comes_above_a_fifth():
    counts = []
    for fetching in (200.0, 210.0):
        training = Training().start()
        training.step(fetching=fetching, inside=500.0, after=500.0 - fetching)
        counts.append(len(training.end().throughput.sentences()))
    assert counts == [1, 2]


def test_a_training_without_a_step_has_no_speed():
    training = Training().start()
    training.clock.advance(3.0)
    assert training.end().throughput.sentences() == []
    assert training.metrics()["train_limit_samples_per_second"] is None


def test_the_sums_go_on_in_the_next_leg_and_the_pause_between_does_not_count():
    first, second = Training().start(), Training()
    first.step(fetching=1.0, inside=4.0, after=5.0)
    second.throughput.load_state_dict(first.end().throughput.state_dict())
    second.clock.advance(1e6)
    second.start().step(fetching=1.0, inside=4.0, after=5.0)
    assert "10 % waited for data, 50 % in" in second.end().throughput.sentences()[0]
    assert second.metrics()["train_seconds"] == pytest.approx(20.0)
    assert second.metrics()["train_limit_samples_per_second"] == pytest.approx(26 / 8)


def test_the_clock_stops_when_the_training_is_interrupted_and_the_windows_of_all_processes_count():
    training = Training(world=3).start()
    training.step(fetching=1.0, inside=4.0, windows=13)
    training.throughput.on_exception(training.trainer, None, KeyboardInterrupt())
    training.clock.advance(500.0)  # evaluates best.ckpt
    assert training.metrics()["train_seconds"] == pytest.approx(5.0)
    assert training.metrics()["train_samples_per_second"] == pytest.approx(39 / 5)


def test_the_rate_of_an_epoch_counts_its_steps_alone():
    training = Training().start()
    training.step(inside=0.5, windows=12)
    training.throughput.on_train_epoch_start()
    for inside in (0.5, 1.0):
        training.step(inside=inside, windows=12)
    training.validate(50.0)
    training.clock.advance(1.5)
    assert training.throughput.epoch_rate() == 24 / 3.0


@pytest.fixture
def on_gpu(monkeypatch):
    """A training on a GPU, which passes all that is queued when the training waits for it."""
    monkeypatch.setattr(Event, "passed_until", 0.0)
    monkeypatch.setattr(Throughput, "moment", lambda self: Event())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: setattr(Event, "passed_until", Event.queued))
    return Training(device="cuda").start()


def test_no_step_waits_for_a_gpu_but_the_end_does(on_gpu):
    def progress():
        return on_gpu.throughput.computing, len(on_gpu.throughput.steps), Event.passed_until

    on_gpu.step(on_gpu=(1.0, 10.0))
    on_gpu.step(on_gpu=(10.0, 20.0))
    assert progress() == (0.0, 2, 0.0)
    Event.passed_until = 10.0
    on_gpu.step(on_gpu=(21.0, 30.0))
    assert progress() == (9.0, 2, 10.0)
    on_gpu.end()
    assert progress() == (28.0, 0, 30.0)


def test_a_gpu_that_had_work_while_a_batch_was_fetched_did_not_wait(on_gpu):
    on_gpu.step(on_gpu=(0.0, 10.0), inside=1.0)
    on_gpu.step(on_gpu=(10.0, 20.0), fetching=5.0, inside=1.0)  # fetched while the GPU was busy
    on_gpu.clock.advance(13.0)  # the program waits for the GPU to finish, 20 s after it began
    (line,) = on_gpu.end().throughput.sentences()
    assert "100 % of what the model alone allows" in line and "0 % waited for data, 0 % in" in line


def test_a_gpu_waited_for_data_as_long_as_it_stood_idle_at_most(on_gpu):
    on_gpu.step(on_gpu=(0.0, 10.0), inside=10.0)
    on_gpu.step(on_gpu=(12.0, 20.0), fetching=5.0, inside=5.0)
    (line,) = on_gpu.end().throughput.sentences()
    assert "90 % of what the model alone allows" in line and "10 % waited for data, 0 % in" in line


def test_a_run_prints_its_speed_and_the_hint_once_and_writes_the_limit(tmp_path, capsys, monkeypatch):
    """A training whose windows take long to gather: their time is in the line, whatever the machine does."""
    clock = Clock()
    gather, train = Windows.in_batches, ForecastModule.training_step

    def slow(self, *arguments):
        clock.advance(60.0)
        return gather(self, *arguments)

    def quick(self, batch):
        clock.advance(5.0)
        return train(self, batch)

    monkeypatch.setattr(Windows, "in_batches", slow)
    monkeypatch.setattr(ForecastModule, "training_step", quick)
    monkeypatch.setattr("forecast.training.fit.Throughput", partial(Throughput, clock=clock))
    monkeypatch.setattr("forecast.training.datamodule.WindowLoader", partial(WindowLoader, clock=clock))
    call("train", *BRIEF, "trainer.limit_train_batches=4", f"hydra.run.dir={tmp_path}")
    out, log = capsys.readouterr().err, (tmp_path / "train.log").read_text()
    line = "Speed: 2 samples/s, 25 % of what the model alone allows (6): 75 % waited for data, 0 % in checkpoints"
    assert out.count(line) == out.count("Speed: ") == log.count("Speed: ") == 1
    assert out.count("Data, not the model, set the pace: try a larger data.batch_size") == 1
    cost = json.loads((tmp_path / "metrics.json").read_text())["cost"]
    assert cost["train_samples_per_second"] == 4 * 32 / 80
    assert cost["train_limit_samples_per_second"] == 4 * 32 / 20
