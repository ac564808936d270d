"""What ends a training before its time leaves a good checkpoint, and says what to do."""

import errno
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace

import forked
import lightning.pytorch as pl
import pytest
import torch
from permissions import heeded
from program import BRIEF, ONE_COLUMN, TINY, call, heed_ctrl_c, refusal

from forecast.apps.train import write_run_info
from forecast.checkpoint.load import load_checkpoint
from forecast.config.hydra_errors import FOLDER
from forecast.errors import UserError
from forecast.training.fit import limit_waiting
from forecast.training.lightning_errors import errors_for_users
from forecast.training.stopping import StopOnNonFinite, StopOnSignal

ENDLESS = ["trainer.max_epochs=100000", "callbacks.early_stopping.patience=100000"]


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def last(run):
    return run / "checkpoints" / "last.ckpt"


def run_json(run):
    return json.loads((run / "run.json").read_text())


def goes_on_from(last):
    return f"forecast train ckpt_path={last}"


def test_a_loss_that_is_not_finite_stops_the_run_with_step_windows_and_checkpoint(run, last, capsys):
    overrides = [*BRIEF, "optim.lr=1e18", "callbacks.checkpoint.every_n_train_steps=1", f"hydra.run.dir={run}"]
    text = refusal(capsys, "train", *overrides)
    assert "step 2 (epoch 1): the loss is nan, on 32 windows whose last known timestamps lie between" in text
    assert f"go on from the last good checkpoint: {goes_on_from(last)}" in text
    assert all(value.isfinite().all() for value in load_checkpoint(last).weights.values() if value.is_floating_point())
    assert torch.load(last, weights_only=True)["global_step"] == 1
    assert run_json(run)["status"] == "failed" and "the loss is nan" in run_json(run)["error"]
    log = (run / "train.log").read_text()
    # the demo begins on 2016-07-01 00:00 and seq_len is 19: the first window ends at 18:00
    stamps = re.search(r"by their last known timestamps: (.*)", log)[1].split(", ")
    assert len(stamps) == 32 and min(stamps) >= "2016-07-01 18:00:00" and stamps == sorted(stamps)


def before_a_step(precision, loss, gradient):
    """The guard before step 7 of a training with this loss and such an element of a gradient."""
    weight = torch.nn.Parameter(torch.zeros(3))
    weight.grad = torch.tensor([0.0, gradient, 1e30])
    module = SimpleNamespace(loss=torch.tensor(loss), named_parameters=lambda: [("model.head.weight", weight)])
    state = {"global_step": 6, "current_epoch": 2, "default_root_dir": "RUN", "precision": precision}
    trainer = SimpleNamespace(**state, datamodule=SimpleNamespace(origins_of_step=lambda _: None))
    StopOnNonFinite().on_before_optimizer_step(trainer, module, torch.optim.SGD([weight]))


@pytest.mark.parametrize(
    ("precision", "loss", "gradient", "fault"),
    [
        *(("32-true", 1.0, value, "the gradient of head.weight is not finite") for value in (nan, inf, -inf)),
        ("16-mixed", inf, 0.0, "the loss is inf"),
    ],
)
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run_and_is_named(precision, loss, gradient, fault):
    with pytest.raises(UserError, match=rf"step 7 \(epoch 3\): {fault}"):
        before_a_step(precision, loss, gradient)


@pytest.mark.parametrize(("precision", "gradient"), [("32-true", 3e38), ("16-mixed", inf)])
def test_a_large_gradient_is_no_fault_nor_in_float16_one_that_the_scaler_leaves_out(precision, gradient):
    before_a_step(precision, 1.0, gradient)


STEPS_OF_EPOCH = 17


@pytest.mark.parametrize("bad", [0, 4, 6, 9, 16, 20])
@pytest.mark.parametrize("fault", ["loss", "gradient"])
def test_a_check_that_is_read_later_names_the_same_step_and_leaves_the_same_weights(bad, fault):
    """As on a GPU: read every 7 steps and at the end of an epoch, while a good and a bad step are computed alike."""
    weight, other = (torch.nn.Parameter(torch.linspace(0, 1, n)) for n in (3, 5))
    optimizer = torch.optim.Adam([weight, other], lr=0.1, fused=True)
    guard, kept = StopOnNonFinite(every=7), []
    module = SimpleNamespace(named_parameters=lambda: [("model.a", weight), ("model.b", other)])
    steps = SimpleNamespace(position={"batches": 0})
    datamodule = SimpleNamespace(batches=steps, origins_of_step=lambda step: [f"<{step}>"])
    trainer = SimpleNamespace(global_step=0, current_epoch=0, default_root_dir="RUN", precision="32-true")
    trainer.datamodule = datamodule
    problem = "the loss is nan" if fault == "loss" else "the gradient of b is not finite"
    place = rf"step {bad + 1} \(epoch {bad // STEPS_OF_EPOCH + 1}\): {problem}, .* lie between <{bad % STEPS_OF_EPOCH}>"
    with pytest.raises(UserError, match=place):
        for number in range(2 * STEPS_OF_EPOCH):
            trainer.global_step, trainer.current_epoch = number, number // STEPS_OF_EPOCH
            steps.position["batches"] = number % STEPS_OF_EPOCH + 1
            module.loss = torch.tensor(nan if number == bad and fault == "loss" else 1.0)
            weight.grad, other.grad = torch.full((3,), 0.5 + number), torch.full((5,), 2.0)
            if number == bad and fault == "gradient":
                other.grad[3] = inf
            kept.append((weight.detach().clone(), other.detach().clone()))
            guard.on_before_optimizer_step(trainer, module, optimizer)
            optimizer.step()
            if steps.position["batches"] == STEPS_OF_EPOCH:
                guard.on_train_epoch_end(trainer)
    assert torch.equal(weight, kept[bad][0]) and torch.equal(other, kept[bad][1])
    assert len(kept) <= bad + 7 and (bad == 0 or not torch.equal(weight, kept[0][0]))


@contextmanager
def when(condition, act):
    """Does something, from another thread, as soon as the condition holds."""
    ended = threading.Event()

    def wait():
        while not condition() and not ended.is_set():
            time.sleep(0.01)
        if not ended.is_set():
            act()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_ctrl_c_ends_with_the_best_checkpoint_evaluated_and_says_so(run, last, capsys):
    heed_ctrl_c()
    before = signal.getsignal(signal.SIGINT)
    ctrl_c = when(last.with_name("best.ckpt").exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    with ctrl_c, pytest.raises(SystemExit) as stop:
        call("train", *BRIEF, *ENDLESS, f"hydra.run.dir={run}")
    assert stop.value.code == 130
    assert signal.getsignal(signal.SIGINT) == before
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["status"] == run_json(run)["status"] == "interrupted"
    assert metrics["test"]["windows"] == 136 and metrics["best_epoch"] >= 1
    assert goes_on_from(last) in capsys.readouterr().err + (run / "train.log").read_text()
    # between two steps: going on from there is exact
    assert torch.load(last, weights_only=True)["random_states"]


@pytest.fixture
def sighup_heeded():
    """Whatever started the tests: nohup has SIGHUP ignored, and processes inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("sighup_heeded")
def test_sighup_ends_with_last_ckpt_as_sigterm_does_and_with_its_own_status(run, last, capsys):
    before = signal.getsignal(signal.SIGHUP)
    hang_up = when(last.exists, lambda: os.kill(os.getpid(), signal.SIGHUP))
    with hang_up, pytest.raises(SystemExit) as stop:
        call("train", *BRIEF, "trainer.max_epochs=30", f"hydra.run.dir={run}")
    assert stop.value.code == 129 and signal.getsignal(signal.SIGHUP) == before
    assert capsys.readouterr().err.endswith(
        "SIGHUP ended the training: its terminal was closed. Start it with nohup or in tmux, then go on from the last "
        f"good checkpoint: {goes_on_from(last)}\n"
    )
    assert run_json(run)["status"] == "interrupted"


def test_under_nohup_sighup_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        StopOnSignal().on_train_start(SimpleNamespace(world_size=1, default_root_dir="RUN"))
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.usefixtures("sighup_heeded")
def test_a_closed_terminal_leaves_an_exact_last_checkpoint(run, last):
    terminal, inside = pty.openpty()
    command = [sys.executable, Path(__file__).parents[2] / "train.py", *TINY, *ENDLESS, f"hydra.run.dir={run}"]
    process = subprocess.Popen(
        [*command, "trainer.enable_progress_bar=true"],
        **dict.fromkeys(("stdin", "stdout", "stderr"), inside),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no thread yet
    )
    os.close(inside)
    reader = threading.Thread(target=lambda: [os.read(terminal, 4096) for _ in iter(last.exists, True)])
    reader.start()  # else the process waits for somebody to read
    try:
        wait_for(last, process)
        reader.join()
        os.close(terminal)  # the kernel sends SIGHUP, and every write to the terminal fails from now on
        assert process.wait(120) == 129
    finally:
        process.kill()
    assert run_json(run)["status"] == "interrupted" and goes_on_from(last) in run_json(run)["error"]
    assert torch.load(last, weights_only=True)["random_states"]


def last_words(process):
    """The output of a process; one that does not end within a minute is killed."""
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def start(*arguments):
    command = [sys.executable, Path(__file__).parents[2] / "train.py", *arguments]
    return forked.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for(file, process):
    while not file.exists():
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]


@pytest.mark.slow
def test_ctrl_c_before_any_checkpoint_ends_at_once_without_figures(run):
    process = start(*ONE_COLUMN, "data.rows=200000", f"hydra.run.dir={run}")
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
def test_a_signal_ends_the_training_after_its_step_with_a_checkpoint_to_go_on_from(run, last, number, status):
    process = start(*ONE_COLUMN, *ENDLESS, f"hydra.run.dir={run}")
    wait_for(last, process)
    process.send_signal(number)
    text = last_words(process)
    assert process.returncode == status, text
    assert goes_on_from(last) in text and "Traceback" not in text
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
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(run, last, capsys):
    call("train", *TINY, f"hydra.run.dir={run}")
    before = last.read_bytes()
    with files_of_at_most(len(before) // 2):
        message = refusal(capsys, "train", f"ckpt_path={last}", "trainer.max_epochs=2", "callbacks.figures=null")
    # the first file of the new epoch is best.ckpt or last.ckpt
    assert re.search(r"(best|last)\.ckpt cannot be written at step \d+: File too large\. Make room", message)
    assert f"go on from the last good checkpoint: {goes_on_from(last)}" in message
    assert last.read_bytes() == before
    assert not list(run.glob("checkpoints/*.part"))
    assert run_json(run)["status"] == "failed"
    call("train", f"ckpt_path={last}", "trainer.max_epochs=2")
    assert run_json(run)["status"] == "finished"


@contextmanager
def not_writable(*paths):
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        with heeded():
            yield
    finally:
        for path in paths:
            path.chmod(path.stat().st_mode | 0o200)


def test_a_run_that_may_not_be_written_to_is_gone_on_with_elsewhere(run, last, tiny_run, capsys):
    shutil.copytree(tiny_run, run)
    elsewhere = f"Permission denied. Make room or choose a folder that you can write to: {FOLDER}\n"
    with not_writable(run):
        assert refusal(capsys, "train", f"ckpt_path={last}") == f"{run}/.lock.holder: {elsewhere}"
    with not_writable(run, *run.rglob("*")):
        assert refusal(capsys, "train", f"ckpt_path={last}") == f"{run}/train.log: {elsewhere}"
        call("train", f"ckpt_path={last}", "trainer.max_epochs=2", f"hydra.run.dir={run}-2")
    assert run_json(run.with_name("run-2"))["status"] == "finished"


def test_a_checkpoint_in_a_folder_that_may_not_be_entered_is_named(run, last, capsys):
    last.parent.mkdir(parents=True)
    last.touch()
    last.parent.chmod(0)
    with heeded():
        text = refusal(capsys, "train", f"ckpt_path={last}")
    last.parent.chmod(0o700)
    assert text == f"ckpt_path={last}: Permission denied. Check the path and its permissions\n"


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
            assert f"Read-only file system. Make room or choose a folder that you can write to: {FOLDER}" in text
        else:
            last = disk / "run" / "checkpoints" / "last.ckpt"
            assert "No space left on device" in text
            assert f"go on from the last good checkpoint: {goes_on_from(last)}" in text
            load_checkpoint(last).model()
    finally:
        os.system(f"umount {disk}")


FULL = torch.OutOfMemoryError("CUDA out of memory. Tried")
FAILURES = {
    "a lost GPU": (RuntimeError("CUDA error: an illegal memory access"), "The GPU failed. .*ckpt_path=.*last.ckpt\n"),
    "a full GPU": (FULL, "The GPU has too little memory. Take data.batch_size=16, or a smaller .*\n"),
    "a full disk": (
        OSError(errno.ENOSPC, "No space left on device"),
        " cannot be written to. .*ckpt_path=.*last.ckpt\n",
    ),
    "a lost process": (RuntimeError("[gloo/tcp/pair.cc:538] Connection closed"), "Another process .*last.ckpt\n"),
    "a lost pair": (RuntimeError("Application timeout caused pair closure"), "Another process .*last.ckpt\n"),
    "a lost store": (torch.distributed.DistStoreError("wait timeout after 7000ms"), "Another process .*last.ckpt\n"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_from_outside_is_a_line_with_what_to_do_above_its_own_words(run, last, kind):
    last.parent.mkdir(parents=True)
    last.touch()
    error, line = FAILURES[kind]
    with pytest.raises(UserError, match=line + re.escape(str(error))), errors_for_users(run, batch_size=33):
        raise error


def test_what_stumbles_over_a_lost_process_does_not_hide_it(run):
    lost = RuntimeError("[gloo/tcp/pair.cc:538] Timed out waiting")
    with pytest.raises(UserError, match="Another process of this training"), errors_for_users(run):
        try:
            raise lost
        finally:
            raise AttributeError("its teardown")


def test_a_bug_is_not_taken_for_a_lost_gpu(run):
    with pytest.raises(RuntimeError, match="ours"), errors_for_users(run):
        raise RuntimeError("ours")


def test_a_run_json_that_cannot_be_written_does_not_hide_what_happened(tmp_path):
    write_run_info(tmp_path / "missing", {"status": "failed"})
    with pytest.raises(OSError, match="missing"):
        write_run_info(tmp_path / "missing", {"status": "finished"})


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "ddp_find_unused_parameters_true"])
def test_processes_wait_for_each_other_as_long_as_the_key_says(strategy):
    trainer = pl.Trainer(strategy=strategy, accelerator="cpu", devices=2, logger=False)
    limit_waiting(trainer, 7)
    assert trainer.strategy._timeout.total_seconds() == 7
