"""The entries of a checkpoint that are ours, the number of their format, and the refusal of any other."""

from pathlib import Path

import forecast
from forecast.errors import UserError

RECORD = "forecast"  # the key of our part
SERIES = "series"  # its entry on the series of the training
REFIT = "refit"  # its entry on the rows that a model was trained on once more
FORMAT = 3  # raised when another program could misread a file


def check_format(path: Path, record: dict[str, object]) -> None:
    """Raises UserError for a file of another format, whose other entries may mean something else."""
    number, versions = record.get("format"), record.get("versions")
    if isinstance(number, int) and number != FORMAT:
        writer = versions.get("forecast", "?") if isinstance(versions, dict) else "?"
        fix = "Update it: git pull, then pip install -e ." if number > FORMAT else "Train anew"
        raise UserError(
            f"ckpt_path={path} has format {number}, written by forecast {writer}; this is forecast "
            f"{forecast.__version__}, which reads format {FORMAT}. {fix}"
        )
