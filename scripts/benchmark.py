"""Time and memory of the parts of the program, beside those of other implementations.

Usage: python scripts/benchmark.py PART|all [--peer informer2020=FOLDER] [--peer neuralforecast] [--json FILE] [--help]

Contenders run in turns on equal tensors, or as paired processes; a ratio above 1 says how many times faster we are.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is no part of the installed package

from benchmarks.setting import DECODERS, DUEL_LENGTHS, LENGTHS

HELP = {
    "data": "windows per second of a shuffled epoch",
    "attention": "mechanisms alone: ProbSparse against the peers', then every attention of conf/attention by length",
    "step": "a training step, its memory, and its share of the machine's rate",
    "epoch": "from the CSV file to the first validation metric",
    "evaluation": "the ETTh1 test split by the same weights",
    "predict": "predict.py from the shell to the CSV",
    "startup": "how long programs take to start",
    "decoding": "forecasting step by step with and without the cache",
    "changes": "our training step with each of its changes for speed undone alone",
}
# What `all` measures less of, so that it ends within 25 minutes on two cores.
SHORT = {
    "data": ["--budget", "15"],
    "attention": [
        *("--budget", "3", "--limit", "3", "--both_only"),
        *("--memory_lengths", "1440", "5760", "--lengths", "1024", "4096", "16384"),
    ],
    "step": ["--budget", "12", "--rounds", "12"],
    "epoch": ["--rounds", "1", "--fraction", "0.15"],
    "evaluation": ["--rounds", "2"],
    "predict": [],
    "startup": [],
    "decoding": ["--batch", "4", "--pred_lens", "24", "48"],
    "changes": ["--budget", "10"],
}
SIZES = ("seq_len", "label_len", "pred_len", "batch", "factor", "d_model", "n_heads", "d_ff")


def main() -> None:
    """Runs the parts that the command line names."""
    parser = make_parser()
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    parts = list(HELP) if arguments.part == "all" else [arguments.part]

    from benchmarks.peers import load_peer
    from benchmarks.running import absolute, measure
    from forecast.errors import UserError

    try:
        for peer in arguments.peer:
            load_peer(absolute(peer))
        for part in parts:
            words = sys.argv[2:] if arguments.part == "all" else []
            measure(part, parser.parse_args([part, *SHORT[part], *words]) if arguments.part == "all" else arguments)
    except UserError as error:
        if os.environ.get("FORECAST_TRACEBACK") == "1":
            raise
        sys.exit(str(error))


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    summary = (__doc__ or "").splitlines()[0]
    shared = shared_options()
    parser = argparse.ArgumentParser(description=summary)
    parts = parser.add_subparsers(dest="part", required=True)
    for name, text in HELP.items():
        part = parts.add_parser(name, help=text, description=text, parents=[shared])
        if name == "attention":
            add_attention_options(part)
        elif name == "decoding":
            add_decoding_options(part)
        else:
            add_size_options(part)
        if name in ("data", "epoch"):
            part.add_argument("--fraction", type=float, default=1.0, metavar="F", help="of the batches of an epoch")
        if name == "step":
            part.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these contenders, as printed")
            part.add_argument("--no_memory", action="store_true", help="times alone, no processes for memory")
    parts.add_parser("all", help="all of them, shortened", parents=[shared])
    return parser


def shared_options() -> argparse.ArgumentParser:
    """What every part takes."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--peer", action="append", default=[], help="informer2020=FOLDER or neuralforecast; repeatable")
    shared.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    shared.add_argument("--threads", type=int, help="of torch on the CPU; as many as torch takes")
    shared.add_argument("--json", type=Path, metavar="FILE", help="write there; other parts of a file there are kept")
    shared.add_argument("--csv", metavar="FILE", help="in place of ETTh1.csv: hourly, as many rows, columns and names")
    shared.add_argument("--memory", type=float, default=12.0, help="10^9 bytes a process may take")
    shared.add_argument("--rounds", type=int, default=25, help="turns at most")
    shared.add_argument("--budget", type=float, default=20.0, help="seconds of turns after which no round begins")
    return shared


def add_attention_options(part: argparse.ArgumentParser) -> None:
    """Lengths and sizes of both tables."""
    part.add_argument("--tables", nargs="+", choices=("duel", "sweep"), default=["duel", "sweep"], help="which to make")
    part.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these attentions of ours alone")
    part.add_argument("--heads", type=int, default=8, help="H")
    part.add_argument("--width", type=int, default=64, help="E, the width of a head")
    part.add_argument("--duel_lengths", nargs="+", type=int, default=DUEL_LENGTHS, metavar="L")
    part.add_argument(
        "--memory_lengths", nargs="+", type=int, metavar="L", help="of the duel, where peaks are measured"
    )
    part.add_argument("--duel_batch", type=int, default=4, help="B of the duel")
    part.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="L", help="of the sweep")
    part.add_argument("--batch", type=int, default=1, help="B of the sweep")
    part.add_argument("--causal", action="store_true", help="the sweep in the form of a decoder")
    part.add_argument("--both_only", action="store_true", help="no forward pass alone")
    part.add_argument("--limit", type=float, default=60.0, help="seconds after which longer ones are left out")
    part.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the sweep's mechanisms: factor=3")


def add_decoding_options(part: argparse.ArgumentParser) -> None:
    """Of the models that decode step by step."""
    part.add_argument("--model", choices=DECODERS, default="gpt")
    part.add_argument("--seq_len", type=int, default=96)
    part.add_argument("--pred_lens", nargs="+", type=int, default=(24, 48, 96, 192), metavar="P")
    part.add_argument("--batch", type=int, default=32, help="B")


def add_size_options(part: argparse.ArgumentParser) -> None:
    """The sizes of model and batches; `step` measures several when none is named."""
    for name in SIZES:
        part.add_argument(f"--{name}", type=int, help="of the model and its batches, both sides alike")


def check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Ends with a message and status 2 for what would only fail after minutes of measuring."""
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here. Use --device cpu, or install torch's CUDA build")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json {arguments.json}: there is no folder {arguments.json.absolute().parent}. Make it first")
    if arguments.csv and not Path(arguments.csv).is_file():
        parser.error(f"--csv {arguments.csv}: there is no such file")
    for name in (*SIZES, "heads", "width", "threads", "rounds", "lengths", "duel_lengths", "duel_batch", "pred_lens"):
        wrong = [size for size in numbers(getattr(arguments, name, None)) if size < 1]
        if wrong:
            parser.error(f"--{name} {wrong[0]}: must be at least 1")
    check_together(parser, arguments)


def check_together(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Values that do not fit each other."""
    d_model, n_heads = (
        getattr(arguments, name, None) or default for name, default in (("d_model", 512), ("n_heads", 8))
    )
    if d_model % n_heads:
        parser.error(f"--d_model {d_model}: must be a multiple of --n_heads {n_heads}")
    fraction = getattr(arguments, "fraction", 1.0)
    if not 0.0 < fraction <= 1.0:
        parser.error(f"--fraction {fraction}: must be above 0 and at most 1")
    if arguments.part == "attention" and arguments.only:
        from forecast.config.values import options

        known = options("attention", but="inherit")
        unknown = [name for name in arguments.only if name not in known]
        if unknown:
            parser.error(f"--only {unknown[0]}: there is no such attention. It is one of {', '.join(known)}")


def numbers(given: int | Sequence[int] | None) -> Sequence[int]:
    """One, several or none."""
    if given is None:
        return []
    return given if isinstance(given, list | tuple) else [given]  # type: ignore[list-item]


if __name__ == "__main__":
    main()
