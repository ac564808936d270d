"""A checkpoint as safetensors, config.json and a torch.export program."""

import argparse
from pathlib import Path

from forecast.apps.export.bundle import Description, export
from forecast.checkpoint.load import load_checkpoint
from forecast.errors import UserError
from forecast.text.terminal import say


def main(arguments: argparse.Namespace) -> None:
    """Exports a checkpoint. Raises UserError when something is refused."""
    checkpoint = load_checkpoint(arguments.checkpoint)
    refused = print_summary(arguments.out, export(checkpoint, arguments.out, batch=arguments.batch))
    if refused:
        raise UserError(f"No {arguments.out}/model.pt2: {refused}")


def print_summary(out: Path, description: Description) -> str:
    """Prints what was written; returns why there is no program, if there is none."""
    weights, program = description["weights"], description["program"]
    say(f"{out}/config.json")
    say(f"{out}/{weights['file']}: {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB")
    if "refused" in program:
        return program["refused"]
    sizes = ", ".join(map(str, program["compared_on_windows"]))
    number = "any number of" if program["windows"] is None else program["windows"]
    say(
        f"{out}/{program['file']}: takes {number} windows at once, {program['bytes'] / 1e6:.1f} MB\n"
        f"Read back, its forecasts of {sizes} windows differ from the model's by "
        f"{program['largest_difference_scaled']:.1e} at most, scaled units."
    )
    return ""
