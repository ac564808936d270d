"""A model as a torch.export program: a graph that runs without this package and draws no random numbers."""

import re
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram
from typing_extensions import TypedDict

from forecast.attention.base import SeededDraws
from forecast.documents import parse_json
from forecast.errors import UserError
from forecast.models.base import ForecastModel

INPUTS = ("past", "past_known", "future_known")
# Traced with so many windows when the program is to take any number: 0 and 1 would be taken for constants.
TRACED_WINDOWS = 3
# What torch.export.save writes, and torch.export.load reads without pickle.
MEMBERS = re.compile(
    r"models/model\.json|data/(weights/weight|constants/tensor)_\d+|data/(weights|constants)/model_\w+_config\.json|"
    r"data/sample_inputs/model\.pt|archive_format|archive_version|byteorder|\.data/(version|serialization_id)"
)


LARGEST_CONFIG = 10**8  # bytes of what an archive says of its weights


class Entry(TypedDict):
    """What an archive says of one weight."""

    path_name: str
    use_pickle: bool


class Config(TypedDict):
    """What an archive says of its weights."""

    config: dict[str, Entry]


class StoredDraws(nn.Module):
    """The draws of a sampler in evaluation as constants, one for each size that a first forward pass asks for."""

    def __init__(self, sampler: nn.Module) -> None:
        super().__init__()
        self.sampler = sampler

    def forward(self, *sizes: int | torch.device) -> Tensor:
        """What the sampler gives for these sizes and, last, a device: drawn once, then stored."""
        name = "_".join(("draw", *map(str, sizes[:-1])))
        if not hasattr(self, name):
            self.register_buffer(name, self.sampler(*sizes))
        draw: Tensor = getattr(self, name)
        return draw


class WithSpread(nn.Module):
    """A model with a spread that gives the point forecast (B, P, T) and the spread's parameters (B, P, T, O)."""

    def __init__(self, model: ForecastModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> tuple[Tensor, Tensor]:
        """Past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F) -> both, scaled."""
        assert self.model.spread is not None
        parameters = self.model.predicted(past, past_known, future_known)
        return self.model.spread.point(parameters), parameters


def as_called(model: ForecastModel) -> nn.Module:
    """What becomes the program: the model; one with a spread so that the parameters of the spread come out as well."""
    return model if model.spread is None else WithSpread(model)


@torch.no_grad()
def trace(model: nn.Module, inputs: Sequence[Tensor], *, batch: int | None) -> ExportedProgram:
    """A model in evaluation mode as a program for `batch` windows, None for any number.

    Changes the model: each of its samplers becomes a `StoredDraws`.
    inputs: past (B, L, C), past_known (B, L, F), future_known (B, P, F), at least as many windows as are traced.
    Raises UserError, with torch's reason, when the model cannot be traced, and when it would draw random numbers.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, SeededDraws):
                module.add_module(name, StoredDraws(child))
    traced = tuple(part[: TRACED_WINDOWS if batch is None else batch] for part in inputs)
    model(*traced)  # the draws are stored now
    sizes = {0: Dim("batch", min=1)} if batch is None else None
    with warnings.catch_warnings():
        # nn.LSTM lists its weights once more as plain attributes; they are parameters and exported as such
        warnings.filterwarnings("ignore", message=r"The tensor attributes .*_flat_weights")
        try:
            program = torch.export.export(
                model, traced, dynamic_shapes=dict.fromkeys(INPUTS, sizes) if sizes else None, strict=False
            )
        except Exception as error:  # of many kinds, by what the model does
            how = "" if batch is not None else " A fixed number of windows may do: --batch 1."
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = " ".join(lines[:2])[:300] or type(error).__name__
            raise UserError(f"torch.export cannot trace this model.{how} It says: {reason}") from error
    if drawing := sorted({str(node.target) for node in program.graph.nodes if draws(node)}):
        raise UserError(
            f"its forward pass draws random numbers ({', '.join(drawing)}), so that two runs of a program would "
            "disagree. An attention must draw in a `SeededDraws` (forecast/attention/base.py)."
        )
    return program


def draws(node: fx.Node) -> bool:
    """Whether a node of a graph draws random numbers. Dropout that is switched off draws none."""
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if "train" in names:
        return arguments.get("train") is not False
    return "dropout_p" not in names or bool(arguments.get("dropout_p"))  # of scaled_dot_product_attention


def largest_difference(
    program: ExportedProgram, model: nn.Module, inputs: Sequence[Tensor], batches: Iterable[int]
) -> float:
    """How far outputs of a program are from those of its model, scaled units, on batches of these sizes.

    inputs: as in `trace`; each batch takes the windows after those of the one before.
    """
    run, first, differences = program.module(), 0, []
    for size in batches:
        windows = [part[first : first + size] for part in inputs]
        first += size
        with torch.no_grad():
            theirs, ours = (out if isinstance(out, tuple) else (out,) for out in (run(*windows), model(*windows)))
        differences += [(their - our).abs().max() for their, our in zip(theirs, ours, strict=True)]
    return float(torch.stack(differences).max())  # NaN if one is


def save_program(program: ExportedProgram, path: Path) -> None:
    """Writes a program as a .pt2 file."""
    for name, value in program.constants.items():
        if isinstance(value, Tensor):  # a view is written with the whole tensor behind it, and a warning
            program.constants[name] = value.clone(memory_format=torch.contiguous_format)
    torch.export.save(program, path)


def load_program(path: Path) -> ExportedProgram:
    """Reads a program that `save_program` has written.

    torch.export.load unpickles whatever an archive says is a pickle. Raises UserError for one with any such part.
    """
    try:
        foreign = _pickled(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is not a torch.export program, or is damaged.") from error
    if foreign:
        raise UserError(f"{path} holds {foreign}, which could execute code on loading, so it was not loaded.")
    return torch.export.load(path)


def _pickled(path: Path) -> str:
    """The first part of an archive that torch.export.load might unpickle; empty when there is none."""
    with zipfile.ZipFile(path) as archive:
        if not any(member.endswith("/models/model.json") for member in archive.namelist()):
            raise KeyError("models/model.json")  # a damaged file may be read as another archive that was stored in it
        for member in archive.namelist():
            name = member.partition("/")[2]
            if not MEMBERS.fullmatch(name):
                return f"'{name}'"
            if name.endswith("_config.json"):
                if archive.getinfo(member).file_size > LARGEST_CONFIG:
                    return f"'{name}', which is too large"
                for entry in parse_json(member, archive.read(member), Config)["config"].values():
                    if entry["use_pickle"] is not False:
                        return f"'{entry['path_name']}'"
            if name.endswith(".pt"):
                try:
                    with archive.open(member) as file:
                        torch.load(file, weights_only=True)
                except Exception:  # torch.export.load would try once more, without the safety
                    return f"'{name}'"
    return ""
