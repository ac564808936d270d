"""The options of the commands that are no configs. It imports nothing heavy: --help is answered at once."""

import argparse
from collections.abc import Callable
from pathlib import Path

from forecast.export.informer2020.options import add_import_options
from forecast.reproduction import SEEDS

CHECKPOINT = "RUN/checkpoints/best.ckpt"


def check_data(parser: argparse.ArgumentParser) -> None:
    """A file, and what of its layout is not to be found."""
    parser.epilog = "The exit status is 0 when the file can be trained on with the printed commands, else 1."
    parser.add_argument("file", metavar="FILE", help="a CSV file: a time column, then numbers")
    parser.add_argument("--separator", metavar="C", type=character, help="between cells, as ; or \\t; guessed")
    parser.add_argument("--decimal", metavar="C", type=character, help="in numbers, . or , ; guessed")
    parser.add_argument("--time_column", metavar="NAME", help="guessed")
    parser.add_argument("--target", metavar="NAME", help="the column to forecast; all columns where none is named")
    parser.add_argument(
        "settings", metavar="data.KEY=VALUE", nargs="*", help="keys of the data group, as forecast train takes them"
    )


def check_leakage(parser: argparse.ArgumentParser) -> None:
    """A checkpoint and the windows to try it on."""
    parser.epilog = "The exit status is 1 when something leaks, or when a file is missing or has changed."
    parser.add_argument("checkpoint", metavar="CKPT", type=Path, help=CHECKPOINT)
    parser.add_argument("--root", metavar="DIR", help="where the data's file lies now; default: where it lay")
    parser.add_argument("--split", default="test", help="whose windows are tried: train, val or test (default)")


def export(parser: argparse.ArgumentParser) -> None:
    """A checkpoint and the folder to write."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
OUT/model.safetensors   the weights
OUT/config.json         columns, targets, frequency, scaler, lengths, config, versions, inputs and outputs
OUT/model.pt2           a program that forecasts without this package, compared with the model before it is kept"""
    parser.add_argument("checkpoint", metavar="CKPT", type=Path, help=CHECKPOINT)
    parser.add_argument("out", metavar="OUT", type=Path, help="a new folder")
    windows_help = "how many windows the program takes at once; dynamic, the default: any number"
    parser.add_argument("--batch", metavar="N", type=windows, default=None, help=windows_help)


def import_informer2020(parser: argparse.ArgumentParser) -> None:
    """Two files, and the options of the authors' own command."""
    parser.allow_abbrev = False
    add_import_options(parser)


def inspect_checkpoint(parser: argparse.ArgumentParser) -> None:
    """A checkpoint."""
    parser.epilog = "Nothing in it is executed, no data are read, and the model is not built."
    parser.add_argument("checkpoint", metavar="CKPT", type=Path, help=CHECKPOINT)


def merge(parser: argparse.ArgumentParser) -> None:
    """The parts of a forecast, and where they go."""
    parser.epilog = "The file is the same, to the bit, whatever number of parts a forecast was made in."
    part_help = "what `forecast predict shard=i/n output=PART` wrote, with its .json beside it; all n, in any order"
    parser.add_argument("parts", metavar="PART", nargs="+", type=Path, help=part_help)
    parser.add_argument("--output", required=True, metavar="FILE", help="its name ends as those of the parts")


def report(parser: argparse.ArgumentParser) -> None:
    """A sweep's folder, and the row to compare with."""
    parser.epilog = "It writes report.md, report.csv, report.html, runs.jsonl and pictures into the folder."
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="multirun/NAME: the folder of a sweep")
    page_help = (
        "FOLDER is that of one run or backtest, as outputs/DATE/TIME: its report.html is made anew from its files"
    )
    parser.add_argument("--page", action="store_true", help=page_help)
    parser.add_argument("--against", metavar="ROW", help="the row to compare with; default: the first of the sweep")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to write instead of FOLDER")
    parser.add_argument("--overwrite", action="store_true", help="replaces files there that no report has written")
    safe = "report.csv for a spreadsheet: an apostrophe before words that it would take for a formula"
    parser.add_argument("--output-safe", action="store_true", help=safe)


def reproduce(parser: argparse.ArgumentParser) -> None:
    """Which trainings of which tables, and where they go."""
    parser.epilog = (
        "Each training is a process of its own. What has a result is not run again; what was stopped or killed goes on "
        "from its last checkpoint."
    )
    parser.add_argument("--table", required=True, help="etth1_m, etth1_s, ..., dlinear, patchtst, all, or panels")
    parser.add_argument("--root", type=Path, default=Path("data/panels"), help="where the files of panels lie")
    parser.add_argument("--rows", default="", help="some of its rows, such as 24,48; default: all")
    parser.add_argument("--models", default="", help="some of its models, by semicolons: 'informer2020;informer'")
    parser.add_argument("--seeds", type=positive, default=SEEDS, help=f"seeds 1 to N (default {SEEDS})", metavar="N")
    parser.add_argument("--jobs", type=positive, default=1, help="so many trainings side by side (default 1)")
    parser.add_argument("--minutes", type=minutes, help="stop after so long; the same command goes on next time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every training, as train")
    parser.add_argument("--results", type=Path, default=Path("results/runs.jsonl"), help="the file of results")
    parser.add_argument("--runs", type=Path, default=Path("multirun/reproduce"), help="the folder of the runs")


OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "check-data": check_data,
    "check-leakage": check_leakage,
    "export": export,
    "import-informer2020": import_informer2020,
    "inspect-checkpoint": inspect_checkpoint,
    "merge": merge,
    "report": report,
    "reproduce": reproduce,
}


def character(text: str) -> str:
    """One character, or \\t."""
    if len(text.replace("\\t", "\t")) != 1:
        raise argparse.ArgumentTypeError(f"{text}: must be one character")
    return text


def windows(text: str) -> int | None:
    """A number of windows, None for any."""
    if text == "dynamic":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: say dynamic, or a number from 1 on")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 on")
    return int(text)


def minutes(text: str) -> float:
    """A number from 0 on."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of minutes from 0 on")
    return number
