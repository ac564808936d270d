"""The states of callbacks in a checkpoint of any origin, checked before Lightning hands them to the callbacks."""

from collections.abc import Iterable
from pathlib import Path

from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import Tensor

from forecast.errors import UserError

KINDS = ((bool,), (int, float), (str,), (dict,), (list,))
# The paths of Lightning's ModelCheckpoint, any of which it may delete when it writes a better checkpoint.
PATHS = ("best_model_path", "kth_best_model_path", "last_model_path")


def check_callbacks(callbacks: Iterable[Callback], saved: object) -> None:
    """Raises UserError for a saved state of another kind than the callback itself has, and as `check_paths`.

    saved: state key -> state, as Lightning writes them; what is no mapping is left for Lightning to refuse.
    """
    for callback in callbacks:
        state = saved.get(callback.state_key) if isinstance(saved, dict) else None
        if not state:
            continue
        entry = f"callbacks.{type(callback).__name__}"
        if not isinstance(state, dict):
            raise _changed(entry, state)
        for key, own in callback.state_dict().items():
            if key in state and not _is_alike(state[key], own):
                raise _changed(f"{entry}.{key}", state[key])
        if isinstance(callback, ModelCheckpoint):
            check_paths(callback, state, entry)


def check_paths(callback: ModelCheckpoint, state: dict[str, object], entry: str) -> None:
    """Raises UserError for a path that Lightning would delete though the callback cannot have written it.

    Lightning deletes what begins with the callback's folder, `..` or not, and whatever has an address.
    """
    folder = str(callback.dirpath or "")
    kept = state.get("best_k_models")
    for path in (*(state.get(key) for key in PATHS), *(kept if isinstance(kept, dict) else ())):
        if not path:
            continue
        place = Path(str(path))
        remote = "://" in str(path) and not str(path).startswith(f"{folder}/")
        inside = Path(folder).absolute() in place.absolute().parents
        if remote or ".." in place.parts or (inside and place.suffix != callback.FILE_EXTENSION):
            raise _changed(entry, path)


def _is_alike(value: object, own: object) -> bool:
    """Whether a value may stand where the callback has its own; beside None anything may."""
    if isinstance(own, Tensor):
        return isinstance(value, Tensor) and value.shape == own.shape
    kinds = next((kinds for kinds in KINDS if isinstance(own, kinds)), (object,))
    return isinstance(value, kinds) and (isinstance(own, bool) or own is None or not isinstance(value, bool))


def _changed(entry: str, value: object) -> UserError:
    return UserError(
        f"ckpt_path: its entry {entry} is {value!r}, which no training has written there. Go on from "
        "RUN/checkpoints/last.ckpt of another run, or train anew without ckpt_path"
    )
