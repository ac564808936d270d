"""What is said when another process of a training is lost, by the words of gloo and torch; real ones: test_hosts.py."""

import re

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy

from forecast.errors import UserError
from forecast.run_folder import checkpoint_path
from forecast.training.processes import limit_waiting, lost_processes

CLOSED = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer [10.77.0.2]:21712. This is "
    "typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF!"
)
WAITED = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 7000ms for recv"
REFUSED = (
    "Gloo connectFullMesh failed with [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed out "
    "connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:23424$0"
)
UNREACHED = (
    r"^this process cannot reach another one of the training \({}\)\. .*GLOO_SOCKET_IFNAME=eth0 before the command"
)
TIME = (
    r"^another process of this training did not answer within 7 s \(process_timeout=7\): its host is stopped, cut off"
)
ENDED = r"^another process of this training has ended \({}\): its own log in {} or what started it says why\. Mend that"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError(CLOSED), ENDED.format(r"Connection closed by peer \[10\.77\.0\.2\]:21712", "RUN")),
        (RuntimeError(WAITED), TIME),
        (RuntimeError(REFUSED), UNREACHED.format(r"timed out connecting: .*remote=\[127\.0\.1\.1\]:23424\$0")),
        (RuntimeError("[/gloo/gloo/transport/tcp/pair.h:311] Connect timeout [none]"), UNREACHED.format(".*")),
        (RuntimeError("Operation timed out!"), TIME),
        (torch.distributed.DistStoreError("wait timeout after 7000ms, keys: /0"), TIME),
        (torch.distributed.DistNetworkError("Broken pipe"), ENDED.format("Broken pipe", "RUN")),
        (
            torch.distributed.DistBackendError("NCCL error: remote process exited or there was a network error"),
            ENDED.format("NCCL error: remote process exited or there was a network error", "RUN"),
        ),
    ],
)
def test_a_lost_process_is_told_in_a_sentence_with_what_to_type(tmp_path, error, said):
    said = said.replace("RUN", re.escape(str(tmp_path)))
    with pytest.raises(UserError, match=said + r".*, then start again: no checkpoint was written yet\.$"):
        fail(tmp_path, error)
    last = checkpoint_path(tmp_path, "last")
    last.parent.mkdir()
    last.touch()
    with pytest.raises(UserError, match=said + f".*: the same command again on every host, with ckpt_path={last}$"):
        fail(tmp_path, error)


@pytest.mark.parametrize("error", [RuntimeError("ours"), ValueError("timeout"), RuntimeError("NCCL was aborted")])
def test_other_errors_stay_as_they_are(tmp_path, error):
    with pytest.raises(type(error), match=str(error)):
        fail(tmp_path, error)


def fail(folder, error):
    with lost_processes(folder, 7):
        raise error


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "ddp_find_unused_parameters_true"])
def test_the_strategies_of_several_processes_wait_as_long_as_the_key_says(strategy):
    trainer = pl.Trainer(strategy=strategy, accelerator="cpu", devices=2, logger=False)
    limit_waiting(trainer, 7)
    assert isinstance(trainer.strategy, DDPStrategy)
    assert trainer.strategy._timeout.total_seconds() == 7
