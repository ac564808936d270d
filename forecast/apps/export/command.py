"""A checkpoint as safetensors, config.json and a file that forecasts: a torch.export program, ONNX or MLflow."""

import argparse
from pathlib import Path

from forecast.apps.export.bundle import Description, export
from forecast.checkpoint.load import load_checkpoint
from forecast.errors import UserError
from forecast.text.terminal import say


def main(arguments: argparse.Namespace) -> None:
    """Exports a checkpoint. Raises UserError when something is refused."""
    checkpoint = load_checkpoint(arguments.checkpoint)
    description = export(checkpoint, arguments.out, batch=arguments.batch, format=arguments.format)
    print_summary(arguments.out, description)


def print_summary(out: Path, description: Description) -> None:
    """Prints what was written. Raises UserError, saying why, when there is no file that forecasts."""
    weights, entry = description["weights"], description.get("program") or description.get("onnx")
    say(f"{out}/README.md\n{out}/config.json")
    say(f"{out}/{weights['file']}: {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB")
    if entry is None:
        served = description["mlflow"]
        if "refused" in served:
            raise UserError(f"No {out}/mlflow: {served['refused']}")
        say(f"{out}/{served['folder']}: mlflow models serve -m {out}/{served['folder']} --env-manager local")
        return
    if "refused" in entry:
        raise UserError(f"No {out}/{'model.pt2' if 'program' in description else 'model.onnx'}: {entry['refused']}")
    sizes = ", ".join(map(str, entry["compared_on_windows"]))
    number = "any number of" if entry["windows"] is None else entry["windows"]
    say(
        f"{out}/{entry['file']}: takes {number} windows at once, {entry['bytes'] / 1e6:.1f} MB\n"
        f"Read back, its forecasts of {sizes} windows differ from the model's by "
        f"{entry['largest_difference_scaled']:.1e} at most, scaled units."
    )
