"""The paths that Lightning's ModelCheckpoint deletes by, from a checkpoint of any origin."""

from collections.abc import Iterable
from pathlib import Path

from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from forecast.checkpoint.archive import Entries

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
