"""A checkpoint as safetensors, config.json and a torch.export program. Usage: python scripts/export.py CKPT OUT

OUT/model.safetensors   the weights
OUT/config.json         columns, targets, frequency, scaler, lengths, config, versions, inputs and outputs
OUT/model.pt2           a program that forecasts without this package, compared with the model before it is kept
"""

import argparse
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Exports what the command line names; exit status 1, with a message, when something is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", metavar="CKPT", type=Path, help="RUN/checkpoints/best.ckpt")
    parser.add_argument("out", metavar="OUT", type=Path, help="a new folder")
    parser.add_argument(
        "--batch",
        metavar="N",
        type=windows,
        default=None,
        help="how many windows the program takes at once; dynamic, the default: any number",
    )
    arguments = parser.parse_args()

    from forecast.checkpoint.load import load_checkpoint  # torch: seconds
    from forecast.errors import UserError
    from forecast.export.bundle import export

    try:
        description = export(load_checkpoint(arguments.checkpoint), arguments.out, batch=arguments.batch)
    except UserError as error:
        sys.exit(str(error))
    if refused := print_summary(arguments.out, description):
        sys.exit(f"No {arguments.out}/model.pt2: {refused}")


def windows(text: str) -> int | None:
    """A number of windows, None for any."""
    if text == "dynamic":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: say dynamic, or a number from 1 on")
    return int(text)


def print_summary(out: Path, description: dict[str, Any]) -> str:
    """Prints what was written; returns why there is no program, if there is none."""
    weights, program = description["weights"], description["program"]
    print(f"{out}/config.json")
    print(f"{out}/{weights['file']}: {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB")
    if "refused" in program:
        return str(program["refused"])
    sizes = ", ".join(map(str, program["compared_on_windows"]))
    number = "any number of" if program["windows"] is None else program["windows"]
    print(
        f"{out}/{program['file']}: takes {number} windows at once, {program['bytes'] / 1e6:.1f} MB\n"
        f"Read back, its forecasts of {sizes} windows differ from the model's by "
        f"{program['largest_difference_scaled']:.1e} at most, scaled units."
    )
    return ""


if __name__ == "__main__":
    main()
