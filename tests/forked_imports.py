"""What is done once before processes are forked: imports, the hash of the code, what Hydra reads and merges of conf."""

import importlib
import io

from config.composed import fast_hydra
from forked_training import TORCHRUN

CHOICES = [("data=demo",), ("data=demo", "model=dlinear"), ("data=csv", "model=ridge"), ("data=demo", "trainer=ddp")]


def import_all():
    """What the commands import, here and as they run; one thread of torch."""
    import torch.utils.tensorboard

    from forecast.__main__ import CONFIGURED, PLAIN
    from forecast.apps.common.command import command

    torch.set_num_threads(1)
    for name in CONFIGURED | PLAIN:
        command(name)
    for name in ("torch.distributed.launcher.api", TORCHRUN):  # but torchrun itself, which is run
        importlib.import_module(name)
    warm()


def warm():
    """The configs of CHOICES, the commit and a picture: what they keep, each process would make for itself."""
    from matplotlib.figure import Figure

    from forecast.config.run_config import composed
    from forecast.run_folder.commit import commit

    fast_hydra().__enter__()  # for good
    for choices in CHOICES:
        composed(choices)
    commit()
    figure = Figure()
    figure.subplots().plot([0.5, 1], label="a")
    figure.legend()
    figure.savefig(io.BytesIO())
