"""Reading a checkpoint: the one file that evaluating and forecasting need.

The file is Lightning's, so that training can go on from it, with the weights under `state_dict` and our own part, plain
containers and tensors, under `RECORD`. It is loaded with `weights_only=True`: nothing in it is executed.
"""

import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from forecast.config.build import build
from forecast.data.scaling import Scaler
from forecast.data.time_features import Encoding
from forecast.errors import UserError
from forecast.models.base import ForecastModel, WindowShape

RECORD = "forecast"  # the key of our part
FORMAT = 1  # raised when an older program could misread a file
WEIGHTS_PREFIX = "model."


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's content.

    record: our part, see `training.record.make_record`. epoch: the last one begun, counted from 1. is_best: whether its
    validation error is the lowest of its run so far; never without a validation.
    """

    path: Path
    record: dict[str, Any]
    weights: dict[str, torch.Tensor]
    epoch: int
    is_best: bool

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config of the training."""
        config: dict[str, Any] = self.record["config"]
        return config

    @property
    def data(self) -> dict[str, Any]:
        """What is known of the data: name, path, checksum, columns, targets, freq, scaler, split rows."""
        data: dict[str, Any] = self.record["data"]
        return data

    @property
    def scaler(self) -> Scaler:
        """Fitted on the rows trained on."""
        return Scaler.from_state(self.data["scaler"])

    @property
    def best_epoch(self) -> int | None:
        """The epoch, counted from 1, when it is the best one."""
        return self.epoch if self.is_best else None

    @property
    def encoding(self) -> Encoding:
        """How the model wants its calendar."""
        return calendar_encoding(self.config)

    def model(self) -> nn.Module:
        """The model with its weights, in evaluation mode, on the CPU."""
        model = build_model(self.config, self.data)
        model.load_state_dict(self.weights)
        return model.eval()


def calendar_encoding(config: dict[str, Any]) -> Encoding:
    """How the model of a resolved config wants its calendar: its key `embedding` when it has one."""
    encoding: Encoding = config["model"].get("embedding", "timeF")
    return encoding


def build_model(config: dict[str, Any], data: dict[str, Any]) -> ForecastModel:
    """The model of a resolved config for data with these columns, targets and known features; fresh weights."""
    columns = list(data["columns"])
    window = WindowShape(
        n_columns=len(columns),
        targets=tuple(columns.index(name) for name in data["targets"]),
        n_known=len(data["known"]),
        seq_len=config["seq_len"],
        label_len=config["label_len"],
        pred_len=config["pred_len"],
    )
    model: ForecastModel = build(config["model"], window=window)
    return model


def _epoch(content: dict[str, Any]) -> int:
    """The last epoch begun. Lightning's own `epoch` counts from 0 during an epoch and is one further at the end."""
    begun: int = content["loops"]["fit_loop"]["epoch_progress"]["current"]["started"]
    return begun


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Reads a checkpoint file, tensors on the CPU.

    Raises UserError when it is missing, truncated, not one of ours, or written by a newer program.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"ckpt_path={path}: no such file. Checkpoints lie in RUN/checkpoints/best.ckpt and last.ckpt.")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        # torch's own text would advise to load it without the safety
        hostile = re.search(r"Unsupported global: GLOBAL (\S+)", str(error))
        if hostile:
            raise UserError(
                f"ckpt_path={path} holds '{hostile[1]}', an object that could execute code on loading, so it was not "
                "loaded. Checkpoints of this program hold plain containers and tensors only."
            ) from error
        raise UserError(f"ckpt_path={path} is not a checkpoint, or is damaged. Use another one of its run.") from error
    if not isinstance(content, dict) or RECORD not in content:
        raise UserError(f"ckpt_path={path} is not a checkpoint of this program: it has no '{RECORD}' entry.")
    record = content[RECORD]
    if record["format"] > FORMAT:
        raise UserError(
            f"ckpt_path={path} has format {record['format']}, written by forecast {record['versions']['forecast']}; "
            f"this program reads formats up to {FORMAT}. Update it: git pull, then pip install -e ."
        )
    weights = {name.removeprefix(WEIGHTS_PREFIX): value for name, value in content["state_dict"].items()}
    return Checkpoint(
        path=path,
        record=record,
        weights=weights,
        epoch=_epoch(content),
        is_best=record["best_step"] == content["global_step"],
    )
