"""What ends a training before its time leaves a good checkpoint, and says what to do."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from program import TINY, call, heed_ctrl_c, refusal

from forecast.checkpoint.load import load_checkpoint
from forecast.commands.train import write_run_info
from forecast.errors import UserError
from forecast.training.lightning_errors import errors_for_users
from forecast.training.stopping import StopOnNonFinite

ENDLESS = ["trainer.max_epochs=100000", "callbacks.early_stopping.patience=100000"]


def run_json(run):
    return json.loads((run / "run.json").read_text())


def test_a_loss_that_is_not_finite_stops_the_run_with_step_windows_and_checkpoint(tmp_path, capsys):
    run = tmp_path / "run"
    overrides = [*TINY, "optim.lr=1e18", "callbacks.checkpoint.every_n_train_steps=1", f"hydra.run.dir={run}"]
    text = refusal(capsys, "train", *overrides)
    assert "step 2 (epoch 1): the loss is nan, on 32 windows whose last known timestamps lie between" in text
    last = run / "checkpoints" / "last.ckpt"
    assert f"go on from the last good checkpoint: python train.py ckpt_path={last}" in text
    assert all(value.isfinite().all() for value in load_checkpoint(last).weights.values() if value.is_floating_point())
    assert torch.load(last, weights_only=True)["global_step"] == 1
    assert run_json(run)["status"] == "failed" and "the loss is nan" in run_json(run)["error"]
    log = (run / "train.log").read_text()
    # the demo begins on 2016-07-01 00:00 and seq_len is 19: the first window ends at 18:00
    stamps = re.search(r"by their last known timestamps: (.*)", log)[1].split(", ")
    assert len(stamps) == 32 and min(stamps) >= "2016-07-01 18:00:00" and stamps == sorted(stamps)


class Module:
    """Just enough of a module to see what the guard looks at."""

    def __init__(self, loss, gradient):
        self.loss = torch.tensor(loss)
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.weight.grad = torch.tensor([0.0, gradient, 1e30])

    def named_parameters(self):
        return [("model.head.weight", self.weight)]


class Trainer:
    global_step, current_epoch, default_root_dir = 6, 2, "RUN"

    class datamodule:
        @staticmethod
        def origins_of_step():
            return None

    def __init__(self, precision):
        self.precision = precision


@pytest.mark.parametrize("gradient", [float("nan"), float("inf"), float("-inf")])
def test_a_gradient_that_is_not_finite_stops_the_run_and_is_named(gradient):
    with pytest.raises(UserError, match=r"step 7 \(epoch 3\): the gradient of head\.weight is not finite"):
        StopOnNonFinite().on_before_optimizer_step(Trainer("32-true"), Module(1.0, gradient))


def test_a_large_gradient_is_no_fault():
    StopOnNonFinite().on_before_optimizer_step(Trainer("32-true"), Module(1.0, 3e38))


def test_in_float16_an_overflow_of_gradients_is_left_to_the_scaler_but_not_one_of_the_loss():
    StopOnNonFinite().on_before_optimizer_step(Trainer("16-mixed"), Module(1.0, float("inf")))
    with pytest.raises(UserError, match="the loss is inf"):
        StopOnNonFinite().on_before_optimizer_step(Trainer("16-mixed"), Module(float("inf"), 0.0))


@contextmanager
def ctrl_c_when(condition):
    """Sends this process a real SIGINT as soon as the condition holds."""
    ended = threading.Event()

    def wait():
        while not condition() and not ended.is_set():
            time.sleep(0.01)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_ctrl_c_ends_with_the_best_checkpoint_evaluated_and_says_so(tmp_path, capsys):
    run = tmp_path / "run"
    best = run / "checkpoints" / "best.ckpt"
    heed_ctrl_c()
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c_when(best.exists), pytest.raises(SystemExit) as stop:
        call("train", *TINY, *ENDLESS, f"hydra.run.dir={run}")
    assert stop.value.code == 130
    assert signal.getsignal(signal.SIGINT) == before
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["status"] == run_json(run)["status"] == "interrupted"
    assert metrics["test"]["windows"] == 136 and metrics["best_epoch"] >= 1
    assert (
        f"python train.py ckpt_path={run}/checkpoints/last.ckpt"
        in capsys.readouterr().err + (run / "train.log").read_text()
    )
    # between two steps: going on from there is exact
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["random_states"]


def last_words(process):
    """The output of a process; one that does not end within a minute is killed."""
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def start(*arguments):
    heed_ctrl_c()
    command = [sys.executable, Path(__file__).parents[2] / "train.py", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(file, process):
    while not file.exists():
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]


@pytest.mark.slow
def test_ctrl_c_before_any_checkpoint_ends_at_once_without_figures(tmp_path):
    run = tmp_path / "run"
    process = start(*TINY, "data.rows=200000", f"hydra.run.dir={run}")
    wait_for(run / "run.json", process)
    time.sleep(0.5)  # the data are being read
    process.send_signal(signal.SIGINT)
    text = last_words(process)
    assert process.returncode == 130, text
    assert text.endswith("Interrupted.\n") and "Traceback" not in text
    assert run_json(run)["status"] == "interrupted"
    assert not (run / "metrics.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_training_after_its_step_with_a_checkpoint_to_go_on_from(tmp_path, number, status):
    run = tmp_path / "run"
    last = run / "checkpoints" / "last.ckpt"
    process = start(*TINY, *ENDLESS, f"hydra.run.dir={run}")
    wait_for(last, process)
    process.send_signal(number)
    text = last_words(process)
    assert process.returncode == status, text
    assert f"python train.py ckpt_path={last}" in text and "Traceback" not in text
    if number == signal.SIGINT:
        assert text.rstrip().endswith("Interrupted.")
        assert json.loads((run / "metrics.json").read_text())["status"] == "interrupted"
    assert run_json(run)["status"] == "interrupted"
    before = torch.load(last, weights_only=True)
    assert before["random_states"]
    call("train", f"ckpt_path={last}", f"trainer.max_epochs={before['epoch'] + 1}")
    metrics = json.loads((run / "metrics.json").read_text())
    assert run_json(run)["status"] == metrics["status"] == "finished"


@contextmanager
def files_of_at_most(size):
    """The operating system refuses longer files, as a full disk refuses all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, capsys):
    run = tmp_path / "run"
    call("train", *TINY, f"hydra.run.dir={run}")
    last = run / "checkpoints" / "last.ckpt"
    before = last.read_bytes()
    with files_of_at_most(len(before) // 2):
        said = refusal(capsys, "train", f"ckpt_path={last}", "trainer.max_epochs=2", "callbacks.figures=null")
    # the first file of the new epoch is best.ckpt or last.ckpt
    assert re.search(r"(best|last)\.ckpt cannot be written at step \d+: File too large\. Make room", said)
    assert f"go on from the last good checkpoint: python train.py ckpt_path={last}" in said
    assert last.read_bytes() == before
    assert not list(run.glob("checkpoints/*.part"))
    assert run_json(run)["status"] == "failed"
    call("train", f"ckpt_path={last}", "trainer.max_epochs=2")
    assert run_json(run)["status"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("options", ["size=400k", "ro"])
def test_on_a_real_file_system_that_is_full_or_read_only_nothing_is_lost_and_no_traceback_shown(
    tmp_path, capsys, options
):
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o {options} tmpfs {disk} 2>/dev/null"):
        pytest.skip("needs the right to mount a file system")
    try:
        often = ["trainer.max_epochs=99", "callbacks.checkpoint.every_n_train_steps=1"]
        text = refusal(capsys, "train", *TINY, *often, "trainer.log_every_n_steps=1000", f"hydra.run.dir={disk}/run")
        if options == "ro":
            assert "Read-only file system. Make room or choose a folder that you can write to: hydra.run.dir" in text
        else:
            last = disk / "run" / "checkpoints" / "last.ckpt"
            assert "No space left on device" in text
            assert f"go on from the last good checkpoint: python train.py ckpt_path={last}" in text
            load_checkpoint(last).model()
    finally:
        os.system(f"umount {disk}")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("CUDA error: an illegal memory access\nhints"), "the GPU failed: CUDA error: an illegal memory"),
        (RuntimeError("NCCL was aborted"), "the GPU failed: NCCL was aborted. See that it works"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "too little memory: CUDA out of memory.*data.batch_size"),
    ],
)
def test_a_gpu_that_is_lost_or_full_is_refused_with_what_to_do(tmp_path, error, words):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    with pytest.raises(UserError, match=words) as refused, errors_for_users(tmp_path):
        raise error
    if "too little" not in words:
        assert f"python train.py ckpt_path={tmp_path}/checkpoints/last.ckpt" in str(refused.value)


def test_without_a_compiler_the_message_names_what_to_install(tmp_path):
    from torch._inductor.exc import InvalidCxxCompiler

    words = r"^compile: .*No working C\+\+ compiler.*Leave compile= out, or install"
    with pytest.raises(UserError, match=words), errors_for_users(tmp_path):
        raise InvalidCxxCompiler


def test_a_bug_is_not_taken_for_a_lost_gpu(tmp_path):
    with pytest.raises(RuntimeError, match="ours"), errors_for_users(tmp_path):
        raise RuntimeError("ours")


def test_a_run_json_that_cannot_be_written_does_not_hide_what_happened(tmp_path):
    write_run_info(tmp_path / "missing", {"status": "failed"})
    with pytest.raises(OSError, match="missing"):
        write_run_info(tmp_path / "missing", {"status": "finished"})
