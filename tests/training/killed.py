"""Kills trainings with SIGKILL at random moments and goes on with them: python killed.py FOLDER KILLS SEED.

Prints JSON: kills, how many of them came while a checkpoint was being written, runs that were completed between kills,
and for each of these whether its weights are, bit by bit, those of the run that was never killed.

Every training is a process of its own; it is forked from this one, which has imported everything, to start at once.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from forecast.checkpoint.load import load_checkpoint

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from forked_imports import import_all  # noqa: E402
from program import ONE_COLUMN, call  # noqa: E402

ARGUMENTS = [
    *(*ONE_COLUMN, "data.rows=500", "trainer.max_epochs=3", "trainer.val_check_interval=0.4"),
    *("callbacks.checkpoint.every_n_train_steps=2", "model.dropout=0.1"),
]


def start(run):
    """A training that begins, or goes on where last.ckpt is."""
    last = run / "checkpoints" / "last.ckpt"
    arguments = [f"ckpt_path={last}"] if last.exists() else [*ARGUMENTS, f"hydra.run.dir={run}"]
    process = os.fork()
    if process:
        return process
    out = os.open(run.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    status = 1
    try:
        call("train", *arguments)
        status = 0
    finally:
        os._exit(status)


def wait(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def wait_for_writing(run, patience=1.0):
    """Until a checkpoint is being written, or patience, in seconds, has run out."""
    until = time.monotonic() + patience
    while time.monotonic() < until and not any(run.glob("checkpoints/*.part")):
        time.sleep(0.0005)


def weights(run):
    """By checkpoint and name."""
    contents = {name: torch.load(run / f"checkpoints/{name}.ckpt", weights_only=True) for name in ("best", "last")}
    return {(name, key): value for name in contents for key, value in contents[name]["state_dict"].items()}


def main(folder, kills, seed):
    import_all()  # once, before the forks
    moments = random.Random(seed)
    began = time.monotonic()
    assert wait(start(folder / "whole")) == 0
    whole, seconds = weights(folder / "whole"), time.monotonic() - began
    done, writing, completed = 0, 0, []
    run = folder / "run0"
    while done < kills or not completed:
        process = start(run)
        if done < kills:
            time.sleep(moments.uniform(0.1, 0.6) * seconds)
            if done % 2:  # else a file, written in a few milliseconds, is hardly ever met
                wait_for_writing(run)
            os.kill(process, signal.SIGKILL)
        status = wait(process)
        if status == -signal.SIGKILL:
            done += 1
            writing += any(run.glob("checkpoints/*.part"))
            for file in run.glob("checkpoints/*.ckpt"):
                load_checkpoint(file)
            continue
        assert status == 0, run.with_suffix(".log").read_text()[-3000:]
        completed.append(all(torch.equal(value, whole[key]) for key, value in weights(run).items()))
        run = folder / f"run{len(completed)}"
    print(json.dumps({"kills": done, "while_writing": writing, "completed": completed, "seconds": seconds}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
