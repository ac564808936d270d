"""Reading a checkpoint: the one file that evaluating and forecasting need, and the model with its weights.

The file is Lightning's, so that training can go on from it, with the weights under `state_dict` and our own part, plain
containers and tensors, under `RECORD`. It is loaded with `weights_only=True`: nothing in it is executed.
"""

import re
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from forecast.bounds import CalendarEncoding
from forecast.checkpoint.model import TRAINING_ONLY, build_model
from forecast.checkpoint.record import RECORD, Record, RefitRecord, check_format
from forecast.config.allow_list import resolve_target, target_nodes
from forecast.config.compose import walk
from forecast.config.run_config import RunConfig
from forecast.data.panel import PanelFrame
from forecast.data.reading.table import Codebook
from forecast.data.roles import HOLIDAY, names_roles
from forecast.data.saved_scale import SavedScale
from forecast.data.scaling import Scales
from forecast.data.sources import CsvSource
from forecast.errors import UserError, readable
from forecast.models.base import ForecastModel
from forecast.run_folder import checkpoint_path
from forecast.run_folder.shapes import DataRecord

WEIGHTS_PREFIX = "model."
TRAINING_SECTIONS = ("optim", "schedule", "loss", "trainer", "callbacks", "logger")
# Of these only the name is checked here; `build` looks at what it resolves to.
CLASS_NAME = re.compile(r"lightning\.pytorch(\.[a-z_]+)*\.[A-Z]\w*|forecast\.training(\.[a-z_]+)*\.\w+")
# What Lightning goes on from.
RESUMED = {"pytorch-lightning_version": str, "epoch": int, "optimizer_states": list, "lr_schedulers": list}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's content.

    record: our part. epoch: the last one begun, counted from 1. step: how many
    times the weights were changed. is_best: whether its validation error is the lowest of its run so far; never without
    a validation. resumable: whether a training can go on from it: it has Lightning's part beside the weights.
    """

    path: Path
    record: Record
    weights: dict[str, torch.Tensor]
    epoch: int
    step: int
    is_best: bool
    resumable: bool = True

    @property
    def config(self) -> RunConfig:
        """That of the training."""
        return self.record.config

    @property
    def data(self) -> DataRecord:
        """What is known of the data: name, path, checksum, columns, targets, freq, split rows."""
        return self.record.data

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that are known in advance: the last of the columns."""
        return tuple(name for name in self.data.get("covariates") or () if name in self.data["columns"])

    @property
    def features(self) -> str:
        """The data's features: S, M or MS, or `roles` where columns have roles, or several names are the target."""
        keys = self.config.data.node
        return "roles" if names_roles(keys) else str(keys["features"])

    @property
    def future_columns(self) -> tuple[str, ...]:
        """The covariates whose values at the forecast steps someone must say."""
        return tuple(name for name in self.covariates if name not in self.hidden and name in self.read_columns)

    @property
    def holidays(self) -> str | None:
        """The country of whose holidays a column was made."""
        country = self.config.data.get("holidays")
        return None if country is None else str(country)

    @property
    def read_columns(self) -> list[str]:
        """The columns that are read from a file, and not made from its calendar."""
        return [name for name in self.data["columns"] if self.holidays is None or name != HOLIDAY]

    @property
    def hidden(self) -> tuple[str, ...]:
        """Those that are observed: categories, of which the model is not told at the forecast steps."""
        return tuple(self.data.get("hidden") or ())

    @property
    def categories(self) -> dict[str, list[str]]:
        """The words of each covariate, and each fact of the series, that is one of several words."""
        return {name: words for name, words in (self.data.get("covariates") or {}).items() if words is not None}

    @property
    def fact_columns(self) -> tuple[str, ...]:
        """The columns of the panel's files from which its facts come."""
        return tuple(facts["columns"]) if (facts := self.data.get("facts")) else ()

    @property
    def fact_scale(self) -> npt.NDArray[np.float64] | None:
        """Mean and deviation (2, G) of the facts of the series."""
        facts = self.data.get("facts")
        return None if facts is None else np.array([facts["mean"], facts["std"]], dtype=np.float64)

    def codebook(self, source: CsvSource) -> Codebook:
        """Which columns of a file are read as categories: those that were in the training."""
        return Codebook(self.categories, missing=source.missing)

    def scales_of(self, frame: PanelFrame) -> Scales:
        """Of each series of a frame; of one that was not trained on that of its own rows."""
        return self.scale.scaler(frame, together=len(self.covariates))

    @property
    def refit(self) -> RefitRecord | None:
        """Of a model trained once more on more rows the splits that it learned from, the held-out one's figures."""
        return self.record.refit

    @property
    def trained_until(self) -> str:
        """The time of the last row that the weights were fitted to."""
        return self.data["trained_until"] if self.refit is None else self.refit["trained_until"]

    @property
    def scale(self) -> SavedScale:
        """Of each series, fitted on its rows trained on."""
        return self.record.series.scale

    @property
    def best_epoch(self) -> int | None:
        """The epoch, counted from 1, when it is the best one."""
        return self.epoch if self.is_best else None

    @property
    def encoding(self) -> CalendarEncoding:
        """How the model wants its calendar."""
        return self.config.encoding

    def model(self) -> ForecastModel:
        """The model with its weights, in evaluation mode, on the CPU.

        Raises UserError when its config builds none, or one that the weights are not of.
        """
        try:
            model = build_model(self.config, self.data)
        except Exception as error:  # a config changed by hand can fail in any way
            raise UserError(f"ckpt_path={self.path}: the model of its config cannot be built: {error}") from error
        self.give_weights(model)
        return model.eval()

    def give_weights(self, model: nn.Module) -> None:
        """Gives `model` the weights. Raises UserError unless they are its own: names and shapes."""
        try:
            model.load_state_dict(self.weights)
        except RuntimeError as error:
            version = self.record.versions.get("forecast", "?")
            raise UserError(
                f"ckpt_path={self.path}: its weights are not those of the model in its config. Use the version of "
                f"forecast that wrote it, {version}:\n{error}"
            ) from error


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Reads a checkpoint file, tensors on the CPU.

    Raises UserError when it is missing, damaged, not one of ours, of another format than this program's, or when its
    config names what is not allowed.
    """
    path = Path(path)
    content = read_plain(path)
    if not isinstance(content, dict) or not isinstance(content.get(RECORD), dict):
        raise UserError(f"ckpt_path={path} is not a checkpoint of this program: it has no '{RECORD}' entry.")
    check_format(path, content[RECORD])
    try:
        check_config_is_plain(content[RECORD]["config"])
        record = Record.of(content[RECORD])
        return Checkpoint(
            path=path,
            record=record,
            weights={name.removeprefix(WEIGHTS_PREFIX): value for name, value in content["state_dict"].items()},
            # Lightning's own `epoch` counts from 0 during an epoch and is one further at the end
            epoch=content["loops"]["fit_loop"]["epoch_progress"]["current"]["started"],
            step=content["global_step"],
            is_best=record.best_step == content["global_step"],
            resumable=all(isinstance(content.get(key), kind) for key, kind in RESUMED.items()),
        )
    except UserError as error:
        raise UserError(f"ckpt_path={path}: its config is refused. {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(
            f"ckpt_path={path} is damaged or was written by another version: {type(error).__name__}: {error}"
        ) from error


def check_config_is_plain(config: object) -> None:
    """Raises UserError for a target that is not allowed and for an interpolation, wherever in the config they stand.

    `build` checks again what it builds; this also looks at the parts that an evaluation or a forecast does not build.
    """
    for where, node in target_nodes(config):
        target = node["_target_"]
        if isinstance(target, str) and target.startswith(TRAINING_ONLY):
            if not CLASS_NAME.fullmatch(target):
                raise UserError(f"{where}._target_={target}: not allowed")
            fits = where.split(".", maxsplit=1)[0] in TRAINING_SECTIONS
        else:  # by another name too
            fits = not f"{resolve_target(target, where).__module__}.".startswith(TRAINING_ONLY)
        if not fits:
            raise UserError(f"{where}._target_={target}: not allowed here: what trains is no part of a {where}")
    for where, part in walk(config):
        if isinstance(part, str) and "${" in part:
            raise UserError(f"{where}={part}: a saved config holds plain values, no interpolation")


Entries = dict[str, Any]  # of a file from anywhere


def read_plain(path: Path) -> Entries:
    """The content of a checkpoint: plain containers, and tensors on the CPU; by other means it may be no mapping.

    Raises UserError when there is no such file, and for what `read_torch_file` refuses.
    """
    with readable(path):
        if path.is_dir():
            best = checkpoint_path(path, "best")
            file = best if best.is_file() else "RUN/checkpoints/best.ckpt"
            raise UserError(f"ckpt_path={path} is a folder. Give the file in it: ckpt_path={file}")
    if not path.is_file():
        raise UserError(f"ckpt_path={path}: no such file. Checkpoints lie in RUN/checkpoints/best.ckpt and last.ckpt.")
    return cast(Entries, read_torch_file(path, name=f"ckpt_path={path}", old_format=False))  # `load_checkpoint` looks


def read_torch_file(path: Path, *, name: str, old_format: bool = True) -> object:
    """What torch.save has written: plain containers, and tensors on the CPU. Nothing is executed.

    name: the file, in the messages. old_format: whether a pickle that is in no zip archive will do.
    Raises UserError when it cannot be read, is damaged, was not written by torch.save, or holds anything that would
    have to be executed to be loaded.
    """
    damaged = f"{name} is damaged or was written by another program"
    try:
        with path.open("rb") as file:  # of a path that cannot be opened `is_zipfile` says no
            is_zip = zipfile.is_zipfile(file)
        if is_zip:
            with zipfile.ZipFile(path) as archive:
                # torch looks at no checksum, and leaves the memory of a part that is marked as a folder as it is
                changed = archive.testzip() or "".join(m.filename for m in archive.infolist() if m.external_attr & 16)
            if changed:
                raise UserError(f"{damaged}: its part '{changed}' is not as it was written")
        elif not old_format:
            raise UserError(f"{damaged}: it is no zip archive, or lacks its end")
        with warnings.catch_warnings():
            # it is read, or refused below
            warnings.filterwarnings("ignore", "Detected pickle protocol|TypedStorage is deprecated", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        hint = f" Its owner can make it readable: chmod a+r {path}" if isinstance(error, PermissionError) else ""
        raise UserError(f"{name} cannot be read: {error.strerror or error}.{hint}") from error
    except Exception as error:  # an archive made by hand can fail in any way
        # torch's own text would advise to load it without the safety
        hostile = re.search(r"[Uu]nsupported (?:global: )?GLOBAL (\S+)", str(error))
        executed = f"it holds '{hostile[1]}', an object that could execute code on loading" if hostile else ""
        raise UserError(f"{damaged}: {executed or type(error).__name__}") from error
