"""The options of the commands that are no configs. It imports nothing heavy: --help is answered at once."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from forecast.apps.import_informer2020.options import add_import_options

CHECKPOINT = "RUN/checkpoints/best.ckpt"


def attend(parser: argparse.ArgumentParser) -> None:
    """A checkpoint, a window, and where to."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
DIR/attention.npz   of the window every map: SLOT/LAYER (columns or 1, heads, queries, keys), whose rows sum to one,
                    and SLOT/LAYER/queries and keys, the first and the last time that each stands for
DIR/report.html     of a run: the same with every layer and head to choose from

  forecast attend ckpt_path=RUN/checkpoints/best.ckpt --window '2018-02-20 23:00'"""
    parser.add_argument("checkpoint", metavar="CKPT", type=checkpoint, help=f"{CHECKPOINT}, or ckpt_path=CKPT")
    parser.add_argument(
        "--window",
        metavar="N|TIME",
        help="the number of a window, from 0, or the last time that it knows; default: the last window",
    )
    parser.add_argument("--split", default="test", help="whose windows are counted: train, val or test (default)")
    parser.add_argument("--root", metavar="DIR", help="where the data's file lies now; default: where it lay")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to write; default: RUN")
    parser.add_argument("--overwrite", action="store_true", help="replaces files there that are of another command")


def check_data(parser: argparse.ArgumentParser) -> None:
    """A file, and what of its layout is not to be guessed."""
    parser.epilog = "The exit status is 0 when the file can be trained on with the printed commands, else 1."
    parser.add_argument("file", metavar="FILE", help="a CSV file: a time column, then numbers")
    parser.add_argument("--target", metavar="NAME", help="the column to forecast; all columns where none is named")
    parser.add_argument(
        "settings", metavar="data.KEY=VALUE", nargs="*", help="what is not to be guessed, as forecast train takes it"
    )


def auto(parser: argparse.ArgumentParser) -> None:
    """A file, how far, how long, and where to."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
DIR/forecast.csv        the steps after the last row, with intervals
DIR/leaderboard.json    every model: its error on validation and test windows, its seconds, what was chosen
DIR/report.html         the same for a person, with pictures
DIR/checkpoints         the model: best.ckpt is what was judged, refit.ckpt has learned from all rows

  forecast auto sales.csv --horizon 28 --minutes 10
  forecast auto prices.csv --horizon 24 --target OT --minutes 3 --output prices 'data.known=[load]' future=tomorrow.csv

The same command goes on where it was killed; the time between does not count. budget=cpu counts minutes of a processor,
of all threads, in place of the clock's: for a run beside other work."""
    parser.add_argument("file", metavar="FILE", help="as forecast check-data takes it, or a published data set: ETTh1")
    parser.add_argument("--horizon", metavar="H", type=positive, help="steps to forecast; default: what suits the file")
    parser.add_argument("--minutes", metavar="M", type=minutes, default=10.0, help="how long it may take (default 10)")
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="a new folder, or one to go on in; default: auto/ and the name of the file",
    )
    parser.add_argument("--target", metavar="NAME", help="the column to forecast; all columns where none is named")
    parser.add_argument(
        "--level",
        metavar="L,L",
        type=levels,
        default=[80.0, 95.0],
        help="intervals, in per cent (default 80,95)",
    )
    parser.add_argument(
        "--preset",
        choices=("fast", "good", "best"),
        default="good",
        help="how many models are tried, as far as the time allows: fast, good (default), best",
    )
    parser.add_argument(
        "--metric",
        choices=("mse", "mae"),
        default="mse",
        help="which error is to be small: mse (default) or mae",
    )
    parser.add_argument(
        "settings",
        metavar="data.KEY=VALUE",
        nargs="*",
        help="also data/split=NAME, protocol=NAME, seed=N, trainer=NAME, future=FILE, as forecast train has them",
    )


def levels(text: str) -> list[float]:
    """Numbers between 0 and 100, by commas."""
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < 100 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text}: must be per cents between 0 and 100, as 80,95")
    return numbers


def export(parser: argparse.ArgumentParser) -> None:
    """A checkpoint and the folder to write."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
OUT/model.safetensors   the weights
OUT/config.json         columns, targets, frequency, scaler, lengths, config, versions, inputs and outputs
OUT/model.pt2           a program that forecasts without this package, for torch.export.load
OUT/model.onnx          with --format onnx: one that forecasts without torch

Both are compared with the model before they are kept. ONNX needs the extra onnx.
"""
    parser.add_argument("checkpoint", metavar="CKPT", type=checkpoint, help=f"{CHECKPOINT}, or ckpt_path=CKPT")
    parser.add_argument("out", metavar="OUT", type=Path, help="a new folder")
    parser.add_argument(
        "--format",
        choices=("program", "onnx"),
        default="program",
        help="what forecasts: program (default), of torch.export; onnx, for onnxruntime",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=positive,
        default=None,
        help="how many windows the file takes at once; default: any number",
    )


def import_informer2020(parser: argparse.ArgumentParser) -> None:
    """Two files, and the options of the authors' own command."""
    parser.allow_abbrev = False
    add_import_options(parser)


def inspect_checkpoint(parser: argparse.ArgumentParser) -> None:
    """A checkpoint."""
    parser.epilog = "Nothing in it is executed, no data are read, and the model is not built."
    parser.add_argument("checkpoint", metavar="CKPT", type=checkpoint, help=f"{CHECKPOINT}, or ckpt_path=CKPT")


def merge(parser: argparse.ArgumentParser) -> None:
    """The parts of a forecast, and where they go."""
    parser.epilog = "The file is the same, to the bit, whatever number of parts a forecast was made in."
    parser.add_argument(
        "parts",
        metavar="PART",
        nargs="+",
        type=Path,
        help="what `forecast predict shard=i/n output=PART` wrote, with its .json beside it; all n, in any order",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="its name ends as those of the parts")


def report(parser: argparse.ArgumentParser) -> None:
    """A sweep's folder, and the row to compare with."""
    parser.epilog = "It writes report.md, report.csv, report.html and runs.jsonl into the folder."
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="multirun/NAME: the folder of a sweep")
    parser.add_argument("--against", metavar="ROW", help="the row to compare with; default: the first of the sweep")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to write instead of FOLDER")
    parser.add_argument("--overwrite", action="store_true", help="replaces files there that no report has written")
    parser.add_argument(
        "--output-safe",
        action="store_true",
        help="report.csv for a spreadsheet: an apostrophe before words that it would take for a formula",
    )


OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "attend": attend,
    "auto": auto,
    "check-data": check_data,
    "export": export,
    "import-informer2020": import_informer2020,
    "inspect-checkpoint": inspect_checkpoint,
    "merge": merge,
    "report": report,
}


def checkpoint(text: str) -> Path:
    """The path of a checkpoint, alone or as ckpt_path=PATH, as the configured commands take it."""
    return Path(text.removeprefix("ckpt_path=").strip("'\"") if text.startswith("ckpt_path=") else text)


def number(text: str, kind: type[int] | type[float], least: int) -> int | float:
    """A number from `least` on."""
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not least <= value < float("inf"):
        whole = "whole number" if kind is int else "number"
        raise argparse.ArgumentTypeError(f"{text} is no {whole} from {least} on")
    return value


positive = partial(number, kind=int, least=1)
minutes = partial(number, kind=float, least=0)
