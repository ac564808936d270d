"""What the tests of `forecast tune` share."""

import json
import os
import sys

import forked
from program import TINY, call

# a DLinear has none of the attention's keys; two epochs, so that there is something to prune
DLINEAR = [*(word for word in TINY if not word.startswith(("model.", "trainer.max"))), "model=dlinear"]
DLINEAR += ["data.features=S", "trainer.max_epochs=2", "data.batch_size=64"]
SPACE = "tune.space={optim.lr: {low: 1e-4, high: 1e-1, log: true}, model.kernel_size: [3, 5, 25], loss: [mse, mae]}"
WORDS = [*DLINEAR, SPACE, "tune.minutes=null"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


def tuned(folder, *words):
    """trials.json of a study."""
    call("tune", *WORDS, *words, f"hydra.run.dir={folder}")
    return read(folder)


def read(folder):
    return json.loads((folder / "trials.json").read_text())


def drawn(document):
    """Of each trial what was drawn and what came of it, without the seconds."""
    return [{key: value for key, value in trial.items() if key != "seconds"} for trial in document["trials"]]


def command(folder, *words):
    return [sys.executable, "-m", "forecast", "tune", *WORDS, *words, f"hydra.run.dir={folder}"]


def started(folder, *words):
    """A process of a study, whose words end in a file beside the folder."""
    with (folder.parent / f"{folder.name}.output").open("ab") as output:
        return forked.Popen(command(folder, *words), env=ENV, stdout=output, stderr=output, start_new_session=True)
