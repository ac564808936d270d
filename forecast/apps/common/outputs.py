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
    ours = {"model", "protocol", "baselines"} <= read_run(folder).metrics.keys()
    keep_others(map(folder.joinpath, RESULTS), ours=ours or overwrite, key=key, like="a file of an evaluation")


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
def writable(key: str) -> Iterator[None]:
    """UserError where the system lets nothing be written. key: what names another place."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{error.filename}: {error.strerror}. Make room, or choose a place that you can write to: {key}"
        ) from error
