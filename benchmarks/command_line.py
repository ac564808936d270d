"""Time and memory of the parts of the program, beside those of other implementations.

Usage: python scripts/benchmark.py PART|all [--peer informer2020=FOLDER] [--peer neuralforecast] [--json FILE] [--help]

Contenders run in turns on equal tensors, or as paired processes; a ratio above 1 says how many times faster we are.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.setting import Setting, print_now

# The name of a part is that of its module: what it measures, and what `all` measures less of, so that it ends within
# 25 minutes on two cores; `panels` is as large there as alone, and takes as long again.
PARTS = {
    "data": ("windows per second of a shuffled epoch", "--budget 15"),
    "attention": (
        "mechanisms alone: ProbSparse against the peers', then every attention of conf/attention by length",
        "--budget 3 --limit 3 --lengths 1024 4096 16384",
    ),
    "step": ("a training step, its memory, and its share of the machine's rate", "--budget 12 --rounds 12"),
    "epoch": ("from the CSV file to the first validation metric", "--rounds 1 --fraction 0.15"),
    "evaluation": ("the ETTh1 test split by the same weights", "--rounds 2"),
    "panels": ("a million series opened, trained on and forecast; 10,000 beside neuralforecast", ""),
}
# With --device cuda `all` measures these of each part, meant for 8 minutes; "panels" is work of a CPU and a disk.
ON_GPU = {
    "data": "--budget 2",
    "attention": "--budget 0.5 --rounds 12 --limit 3 --lengths 1024 4096 16384",
    "step": "--budget 3 --rounds 12",
    "epoch": "--rounds 1",
    "evaluation": "--rounds 2",
}
# The options that change `Sizes`.
SIZES = ("seq_len", "label_len", "pred_len", "batch", "factor", "d_model", "n_heads", "d_ff")


def main() -> None:
    """Runs the parts that the command line names."""
    parser = make_parser()
    arguments = parser.parse_args()
    parts = [arguments]
    if arguments.part == "all":
        on_cpu = {part: short for part, (_, short) in PARTS.items()}
        shortened = ON_GPU if vars(arguments).get("device") == "cuda" else on_cpu
        parts = [parser.parse_args([part, *short.split(), *sys.argv[2:]]) for part, short in shortened.items()]

    from benchmarks.peers import load_peer
    from forecast.errors import UserError

    try:
        # before the first part, which takes minutes; `panels` has its peer in another process
        for peer in vars(arguments).get("peers", ()) if arguments.part != "panels" else ():
            load_peer(peer)
        for options in parts:
            measure(**vars(options))
    except UserError as error:
        if os.environ.get("FORECAST_TRACEBACK") == "1":
            raise
        sys.exit(str(error))


def measure(part: str, json: Path | None = None, **options: Any) -> None:
    """Measures one part, prints it and writes it. Raises UserError for what the user can mend."""
    import torch

    from benchmarks import record, timing
    from benchmarks.document import machine_line, print_table, rates_lines
    from benchmarks.peers import load_peer

    sizes = {name: options.pop(name) for name in SIZES if name in options}
    setting = Setting(**{"threads": torch.get_num_threads(), **options, "sizes": sizes})
    timing.prepare_process(setting)
    for note in (load_peer(peer).note for peer in setting.peers if part != "panels"):
        print_now(*([f"Mind: {note}."] if note else []))
    machine = record.describe(setting)
    if json and json.exists():
        record.check_same_machine(json, machine)
    print_now(f"\n== {part} ==", machine_line(machine))
    module = importlib.import_module(f"benchmarks.{part}")
    before = timing.machine_rates(setting)
    figures = module.run(setting)
    for key in figures:
        if key not in ("step", "duel"):  # these have printed each row when it was measured
            print_table(key, figures[key])
    rates = {"before": before, "after": timing.machine_rates(setting)}
    stamped = {**rates, "date": machine["date"], "commit": machine["commit"]}
    machine["rates"] = dict.fromkeys(figures, stamped)
    print_now("", *rates_lines(machine, next(iter(figures))))
    if json:
        record.write(json, machine, figures)


def absolute(peer: str) -> str:
    """NAME=FOLDER with the folder absolute: other processes begin elsewhere."""
    name, mark, folder = peer.partition("=")
    return f"{name}={Path(folder).absolute()}" if mark and folder else peer


def make_parser() -> argparse.ArgumentParser:
    """The whole command line. What is not typed is absent; `Setting` has the defaults."""
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    peers = "informer2020=FOLDER or neuralforecast; repeatable"
    shared.add_argument("--peer", action="append", type=absolute, dest="peers", metavar="PEER", help=peers)
    shared.add_argument("--device", choices=("cpu", "cuda"))
    shared.add_argument("--threads", type=int, help="of torch on the CPU; as many as torch takes")
    shared.add_argument("--json", type=Path, metavar="FILE", help="write there; other parts of a file there are kept")
    shared.add_argument("--csv", metavar="FILE", help="in place of ETTh1.csv: hourly, as many rows, columns and names")
    shared.add_argument("--memory", type=float, help="10^9 bytes a process may take")
    shared.add_argument("--rounds", type=int, help="turns at most")
    shared.add_argument("--budget", type=float, help="seconds of turns after which no round begins")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, (text, _) in PARTS.items():
        part = parts.add_parser(name, help=text, description=text, parents=[shared], argument_default=argparse.SUPPRESS)
        if name == "attention":
            part.add_argument("--only", nargs="+", metavar="NAME", help="these attentions of ours alone")
            part.add_argument("--lengths", nargs="+", type=int, metavar="L", help="of each attention")
            part.add_argument("--limit", type=float, help="seconds after which longer ones are left out")
            continue
        if name == "panels":
            add_panels(part)
        for option in SIZES:
            part.add_argument(f"--{option}", type=int, help="of the model and its batches, both sides alike")
        if name == "epoch":
            part.add_argument("--fraction", type=float, metavar="F", help="of the batches of an epoch")
    parts.add_parser("all", help="all of them, shortened", parents=[shared])
    return parser


def add_panels(part: argparse.ArgumentParser) -> None:
    """The options of the part `panels`."""
    part.add_argument("--series", type=int, help="of the large panel, 100 rows each")
    part.add_argument("--windows", type=int, help="of an epoch of it")
    part.add_argument("--predicted", type=int, help="series that are forecast, 200 rows each")
    part.add_argument("--compared", type=int, help="series beside the peer")
    part.add_argument("--steps", type=int, help="of the training beside the peer")
    part.add_argument("--python", metavar="FILE", help="that has neuralforecast, where this one has not")
