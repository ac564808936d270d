"""What `forecast merge` does: the parts of a forecast of a panel, joined into one file."""

import argparse
from pathlib import Path

from forecast.apps.common.command import Answer
from forecast.apps.common.forecast_parts import beside, check_parts, read_part, write_joined
from forecast.apps.common.outputs import checked_output, keep_others, writable
from forecast.errors import UserError
from forecast.text.terminal import say


def main(arguments: argparse.Namespace) -> Answer:
    """Checks that the parts are all of one forecast, and writes their rows into one file."""
    output: Path = checked_output(arguments.output, key="--output ")
    documents = [(path, read_part(path)) for path in arguments.parts]
    if lacking := next((path for path, part in documents if part is None), None):
        raise UserError(
            f"{lacking} is no part of a forecast: {beside(lacking)}, which `forecast predict shard=i/n` writes with "
            "it, is not there. Name the parts, each with its .json beside it."
        )
    parts = check_parts([(path, part) for path, part in documents if part is not None])
    ending = parts[0][1].run["ending"]
    if output.suffix != ending:
        raise UserError(
            f"--output {output}: the parts are {ending} files, and merging does not change them. Choose a name that "
            f"ends in {ending}"
        )
    before = read_part(output)
    keep_others(
        (output, beside(output)),
        ours=before is not None and before.shard == (1, 1),
        key=f"--output {output}",
        like="a whole forecast",
        fix="choose another name, or remove it",
    )
    with writable("--output FILE"):
        whole = write_joined(output, parts)
    say(f"{len(parts)} parts, {whole.run['series']} series in {whole.rows} rows, are joined in {output}.")
    paths = [str(path) for path, _ in parts]
    counts = {key: whole.run[key] for key in ("series", "left_out", "unseen")}
    return Answer({"output": str(output), "parts": paths, **counts, "row_count": whole.rows})
