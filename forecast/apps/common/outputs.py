"""What a command may write over: nothing of somebody else's."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from forecast.data.writing import ENDINGS
from forecast.errors import UserError
from forecast.run_folder import RESULTS, RUN_INFO, read_run


def keep_others(
    outputs: Iterable[Path], *, ours: bool, key: str, like: str, fix: str = "choose another name, or say overwrite=true"
) -> None:
    """Raises UserError when one of the outputs is there and not empty, unless `ours`: this command may replace it.

    like: what the file should be. key: what names the output.
    """
    for output in () if ours else outputs:
        if output.is_dir() or (output.exists() and output.stat().st_size):
            raise UserError(f"{key}: {output} is there and is not {like}. Nothing is overwritten: {fix}")


def check_evaluation_folder(folder: Path, *, overwrite: bool) -> None:
    """Raises UserError where the results of an evaluation would replace a training's or a stranger's file."""
    key = f"hydra.run.dir={folder}"
    if (folder / RUN_INFO).is_file():
        raise UserError(f"{key} is the run of a training, whose results would be replaced; choose another folder.")
    outputs = [folder / name for name in RESULTS]
    metrics = read_run(folder).metrics
    ours = {"model", "protocol", "baselines"} <= metrics.keys()
    keep_others(outputs, ours=ours or overwrite, key=key, like="a file of an evaluation")


def checked_output(name: str, *, key: str = "output=") -> Path:
    """The path of the forecast. key: what names it.

    Raises UserError for another suffix than .csv and .parquet, and where there is no such folder.
    """
    output = Path(name)
    if output.suffix not in ENDINGS:
        raise UserError(
            f"{key}{name}: a forecast is a CSV or a Parquet file, and its name must end in .csv or .parquet"
        )
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UserError(f"{key}{name}: there is no folder {output.absolute().parent} to write it in.")
    return output


@contextmanager
def written_or_refused(output: Path) -> Iterator[None]:
    """UserError where a forecast cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"output={output}: {error.filename} cannot be written: {error.strerror}. Make room, or choose another "
            "place: output=FOLDER/forecast.csv"
        ) from error
