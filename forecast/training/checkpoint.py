"""When best.ckpt and last.ckpt are written, the random states in them, and what to do after a run has failed."""

import io
import logging
import math
import random
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from forecast.bounds import Positive
from forecast.checkpoint.load import Entries
from forecast.config.allow_list import trust_words
from forecast.errors import UserError
from forecast.files import replacing
from forecast.run_folder import checkpoint_path
from forecast.text.overrides import typed

Monitor = Literal["mse", "mae"]


def monitored(error: Monitor) -> str:
    """What the module logs of a validation error."""
    return f"val/{error}_scaled"


class CheckpointFiles(Checkpoint):
    """Keeps two files in RUN/checkpoints: best.ckpt, of the lowest validation error, and last.ckpt.

    monitor: that error, scaled units. best.ckpt is written after a validation only, and only for a finite, strictly
    lower one. last.ckpt is written every
    `every_n_train_steps` steps (one later at the end of an epoch), after each validation and at the end, always where a
    run that goes on from it ends as if it had never stopped.
    """

    def __init__(self, *, every_n_train_steps: Positive = 500, monitor: Monitor = "mse") -> None:
        self.monitor = monitored(monitor)
        self.every_n_train_steps = every_n_train_steps
        self.best_mse = math.inf  # or MAE: its name in checkpoints is older
        self.saved_step = 0
        self.due = False

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Forgets the best error of another run: there is no best.ckpt of this one yet."""
        self.saved_step = trainer.global_step
        if not checkpoint_path(trainer.default_root_dir, "best").exists():
            self.best_mse = math.inf

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Writes last.ckpt every N steps, or as soon after as it can be resumed from exactly."""
        step = trainer.global_step
        if step == self.saved_step:  # the batch only gathered gradients
            return
        self.saved_step = step
        self.due = self.due or step % self.every_n_train_steps == 0 or step == trainer.max_steps
        if self.due and is_between_batches(trainer):
            self.due = False
            save_checkpoint(trainer, "last")

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Writes best.ckpt when the validation error is the lowest yet, and last.ckpt."""
        if trainer.sanity_checking:
            return
        error = float(trainer.callback_metrics.get(self.monitor, math.nan))
        if error < self.best_mse:  # never true for NaN
            self.best_mse = error
            module.best_step = trainer.global_step  # type: ignore[assignment]
            save_checkpoint(trainer, "best")
        self.due = trainer.fit_loop._should_accumulate()  # gathered gradients are in no checkpoint
        if not self.due:
            save_checkpoint(trainer, "last")

    def on_train_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Writes last.ckpt, unless trainer.max_steps ended an epoch: Lightning counts it as whole by now."""
        if trainer.global_step != trainer.max_steps or trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            save_checkpoint(trainer, "last")

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint keeps of this callback."""
        return {"best_mse": self.best_mse}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        """Continues with the best error of the run that is resumed."""
        self.best_mse = state_dict["best_mse"]


def best_by(trainer: pl.Trainer) -> str:
    """What the module logs of the error that chooses best.ckpt, ends a training early and lowers a plateau's rate."""
    files = (callback for callback in trainer.checkpoint_callbacks if isinstance(callback, CheckpointFiles))
    return next((callback.monitor for callback in files), monitored("mse"))


class WrittenInPlace(TorchCheckpointIO):
    """Writes a checkpoint straight to its path: Lightning's own stages it in $TMPDIR, which may be too small."""

    def save_checkpoint(self, checkpoint: dict[str, object], path: str | Path, storage_options: object = None) -> None:
        """Raises OSError when it cannot be written, also where the run folder was deleted: it is not made again."""
        content = io.BytesIO()  # written straight to a full disk, torch.save raises RuntimeError
        torch.save(checkpoint, content)
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(content.getbuffer())


def is_between_batches(trainer: pl.Trainer) -> bool:
    """Whether the batch that ends is followed by another one at once, by no validation and no end of the epoch.

    Lightning, resumed from there, would leave the validation out or lose count of the epochs.
    """
    loop = trainer.fit_loop.epoch_loop
    fetcher = trainer.fit_loop._data_fetcher
    assert fetcher is not None
    return not loop.batch_progress.is_last_batch and not loop._should_check_val_fx(fetcher)


def save_checkpoint(trainer: pl.Trainer, name: str) -> None:
    """Writes a checkpoint beside its place and renames it into it: a run killed meanwhile leaves the previous one.

    Every process must call this. Raises UserError when the file cannot be written.
    """
    path = checkpoint_path(trainer.default_root_dir, name)
    try:
        # every process takes part in gathering what a checkpoint holds; the first writes and renames it
        with replacing(path) if trainer.is_global_zero else nullcontext(path) as unfinished:
            trainer.save_checkpoint(unfinished, weights_only=False)  # weights alone could not be resumed from
        trainer.strategy.barrier("renamed")  # now every process sees it
    except OSError as error:
        raise UserError(
            f"{path} cannot be written at step {trainer.global_step}: {error.strerror or error}. "
            f"{resume_hint(trainer.default_root_dir, 'Make room or make the folder writable')}"
        ) from error


def write_checkpoint(path: Path, content: dict[str, object]) -> None:
    """Puts a checkpoint of weights alone at `path`. Raises UserError when it cannot be written."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as unfinished:
            unfinished.write_bytes(buffer.getvalue())
    except OSError as error:
        raise UserError(
            f"{path} cannot be written: {error.strerror}. Make room, or choose another place: hydra.run.dir=FOLDER"
        ) from error


def resume_hint(run_dir: str | Path, first: str) -> str:
    """What to do after a run has failed. first: what to do before, without a full stop."""
    last = checkpoint_path(run_dir, "last")
    if not last.exists():
        return f"{first}, then start again: no checkpoint was written yet."
    command = f"forecast train {trust_words()}{typed('ckpt_path', str(last))}"
    return f"{first}, then go on from the last good checkpoint: {command}"


PATHS = ("best_model_path", "kth_best_model_path", "last_model_path")


def drop_other_paths(callbacks: Iterable[Callback], states: Entries) -> None:
    """Leaves in the states of ModelCheckpoint only paths of checkpoints in its own folder. states: changed in place.

    When Lightning writes a better checkpoint it deletes the file at such a path.
    """
    for callback in callbacks:
        if isinstance(callback, ModelCheckpoint) and (state := states.get(callback.state_key)):
            folder, ending = Path(str(callback.dirpath)).absolute(), callback.FILE_EXTENSION
            paths = {*(state[key] for key in PATHS), *state["best_k_models"]}
            own = {path for path in paths if Path(path).absolute().parent == folder and path.endswith(ending)}
            state.update({key: state[key] if state[key] in own else "" for key in PATHS})
            state["best_k_models"] = {path: score for path, score in state["best_k_models"].items() if path in own}


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
