"""What a training begins with: its random generators, kept in its checkpoints, and a first validation."""

import logging
import random

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback

from forecast.checkpoint.load import Entries
from forecast.errors import UserError

log = logging.getLogger(__name__)

STATES = "random_states"  # the key in a checkpoint


class RandomStates(Callback):
    """Keeps the states of all generators, and sets them before the first batch of a resumed run.

    So dropout and ProbSparse's keys are those of the run that was never interrupted. Of several processes each has its
    own, seeded by `seed` and its number: the same draws in all of them would be draws wasted.
    """

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self.resumed: Entries | None = None

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Lets the processes draw differently; the first one draws as a single one would."""
        if trainer.global_rank:
            pl.seed_everything((self.seed + trainer.global_rank) % 2**32, verbose=False)

    def on_train_batch_start(self, *_: object) -> None:
        """Sets the states just before the first draw: whatever was drawn since loading is undone."""
        # not in on_load_checkpoint: on_train_start, which comes after it, seeds all processes but the first
        if self.resumed is not None:
            set_states(self.resumed)
            self.resumed = None

    def on_save_checkpoint(self, trainer: pl.Trainer, _module: object, checkpoint: dict[str, object]) -> None:
        """Adds the states of all processes, by rank. Every process calls this, one writes."""
        states = [get_states(trainer.strategy.root_device)]
        if trainer.world_size > 1:
            everyone: list[Entries] = [{}] * trainer.world_size
            torch.distributed.all_gather_object(everyone, states[0])
            states = everyone
        checkpoint[STATES] = states

    def on_load_checkpoint(self, trainer: pl.Trainer, _module: object, checkpoint: Entries) -> None:
        """Keeps this process's states for the first batch."""
        states = checkpoint.get(STATES)
        if states is None:
            log.warning("The checkpoint holds no random states: the run goes on, but not to the same bits.")
        elif len(states) != trainer.world_size:
            raise UserError(
                f"ckpt_path: the run was trained by {len(states)} processes, now there are {trainer.world_size}, which "
                f"would share the windows differently. Go on with trainer.devices * trainer.num_nodes = {len(states)}."
            )
        else:
            self.resumed = states[trainer.global_rank]


def get_states(device: torch.device) -> dict[str, object]:
    """The states of Python's, NumPy's and torch's generators, of the GPU's too, as plain containers and tensors."""
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - the global generator, which libraries draw from
    return {
        "python": [version, list(words), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def processor_states() -> tuple[object, ...]:
    """The states of Python's, NumPy's and torch's generators on the processor, to be compared."""
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return random.getstate(), np.asarray(keys).tobytes(), position, torch.get_rng_state().numpy().tobytes()


def set_states(states: Entries) -> None:
    """Undoes every draw since `get_states`. A state of a GPU is left out where there is none."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


class FirstValidation(Callback):
    """Validates before the first step of a new training: epoch 0 may stay the best one."""

    def __init__(self) -> None:
        self.done = False

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Validates, as Lightning does at the end of an epoch."""
        if self.done or trainer.global_step or not trainer.limit_val_batches:
            return
        self.done = True
        trainer.validating = True
        first = trainer._logger_connector._first_loop_iter
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        trainer._logger_connector._first_loop_iter = first

    def state_dict(self) -> dict[str, object]:
        """Whether it was done."""
        return {"done": self.done}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """A run that goes on has done it."""
        self.done = bool(state_dict["done"])
