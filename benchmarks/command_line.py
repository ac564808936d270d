"""Time and memory of the parts of the program, beside those of other implementations.

Usage: python scripts/benchmark.py PART|all [--peer informer2020=FOLDER] [--peer neuralforecast] [--json FILE] [--help]

Contenders run in turns on equal tensors, or as paired processes; a ratio above 1 says how many times faster we are.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

from benchmarks.setting import SIZES, Setting, print_now

# What each part measures; the name is that of its module.
PARTS = {
    "data": "windows per second of a shuffled epoch",
    "attention": "mechanisms alone: ProbSparse against the peers', then every attention of conf/attention by length",
    "step": "a training step, its memory, and its share of the machine's rate",
    "epoch": "from the CSV file to the first validation metric",
    "evaluation": "the ETTh1 test split by the same weights",
    "predict": "predict.py from the shell to the CSV",
}
# What `all` measures less of, so that it ends within 25 minutes on two cores.
SHORT = {
    "data": "--budget 15",
    "attention": "--budget 3 --limit 3 --both_only --memory_lengths 1440 5760 --lengths 1024 4096 16384",
    "step": "--budget 12 --rounds 12",
    "epoch": "--rounds 1 --fraction 0.15",
    "evaluation": "--rounds 2",
    "predict": "",
}
DUEL_LENGTHS = [96, 336, 720, 1440, 2880, 5760]
LENGTHS = [96, 192, 336, 720, 1024, 2048, 4096, 8192, 16384]
POSITIVE = (*SIZES, "heads", "width", "threads", "rounds", "lengths", "duel_lengths", "duel_batch")


def main() -> None:
    """Runs the parts that the command line names."""
    parser = make_parser()
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    todo = {arguments.part: arguments}
    if arguments.part == "all":
        todo = {part: parser.parse_args([part, *SHORT[part].split(), *sys.argv[2:]]) for part in PARTS}

    from benchmarks.peers import load_peer
    from forecast.errors import UserError

    try:
        for peer in arguments.peer:  # before the first part, which takes minutes
            load_peer(peer)
        for part, options in todo.items():
            measure(part, options)
    except UserError as error:
        if os.environ.get("FORECAST_TRACEBACK") == "1":
            raise
        sys.exit(str(error))


def measure(part: str, arguments: argparse.Namespace) -> None:
    """Measures one part, prints it and writes it. Raises UserError for what the user can mend."""
    import torch

    from benchmarks import machine, record
    from benchmarks.document import machine_line, print_table, rates_lines
    from benchmarks.fresh import prepare_process
    from benchmarks.peers import load_peer

    setting = Setting(
        device=arguments.device,
        threads=arguments.threads or torch.get_num_threads(),
        peers=tuple(arguments.peer),
        rounds=arguments.rounds,
        budget=arguments.budget,
        memory=arguments.memory,
    )
    prepare_process(setting, bounded=False)
    for note in (load_peer(peer).note for peer in setting.peers):
        print_now(*([f"Mind: {note}."] if note else []))
    described = machine.describe(setting)
    if arguments.json and arguments.json.exists():
        record.check_same_machine(arguments.json, described)
    print_now(f"\n== {part} ==", machine_line(described))
    before = machine.rates(setting)
    figures = importlib.import_module(f"benchmarks.{part}").run(setting, arguments)
    for key in figures.keys() - {"step", "duel"}:  # these have printed each row when it was measured
        print_table(key, figures[key])
    rates = {"before": before, "after": machine.rates(setting)}
    stamped = {**rates, "date": described["date"], "commit": described["commit"]}
    described["rates"] = dict.fromkeys(figures, stamped)
    print_now("", *rates_lines(described, next(iter(figures))))
    if arguments.json:
        record.write(arguments.json, described, figures)


def absolute(peer: str) -> str:
    """NAME=FOLDER with the folder absolute: other processes begin elsewhere."""
    name, mark, folder = peer.partition("=")
    return f"{name}={Path(folder).absolute()}" if mark and folder else peer


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    shared = argparse.ArgumentParser(add_help=False)
    peers = "informer2020=FOLDER or neuralforecast; repeatable"
    shared.add_argument("--peer", action="append", type=absolute, default=[], help=peers)
    shared.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    shared.add_argument("--threads", type=int, help="of torch on the CPU; as many as torch takes")
    shared.add_argument("--json", type=Path, metavar="FILE", help="write there; other parts of a file there are kept")
    shared.add_argument("--csv", metavar="FILE", help="in place of ETTh1.csv: hourly, as many rows, columns and names")
    shared.add_argument("--memory", type=float, default=12.0, help="10^9 bytes a process may take")
    shared.add_argument("--rounds", type=int, default=25, help="turns at most")
    shared.add_argument("--budget", type=float, default=20.0, help="seconds of turns after which no round begins")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, text in PARTS.items():
        part = parts.add_parser(name, help=text, description=text, parents=[shared])
        if name == "attention":
            add_attention_options(part)
        else:
            for option in SIZES:
                part.add_argument(f"--{option}", type=int, help="of the model and its batches, both sides alike")
        if name in ("data", "epoch"):
            part.add_argument("--fraction", type=float, default=1.0, metavar="F", help="of the batches of an epoch")
        if name == "step":
            part.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these contenders, as printed")
            part.add_argument("--no_memory", action="store_true", help="times alone, no processes for memory")
    parts.add_parser("all", help="all of them, shortened", parents=[shared])
    return parser


def add_attention_options(part: argparse.ArgumentParser) -> None:
    """Lengths and sizes of both tables: the duel with the peers, and the sweep over every attention of ours."""
    part.add_argument("--tables", nargs="+", choices=("duel", "sweep"), default=["duel", "sweep"], help="which to make")
    part.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these attentions of ours alone")
    part.add_argument("--heads", type=int, default=8, help="H")
    part.add_argument("--width", type=int, default=64, help="E, the width of a head")
    part.add_argument("--duel_lengths", nargs="+", type=int, default=DUEL_LENGTHS, metavar="L")
    part.add_argument("--memory_lengths", nargs="+", type=int, metavar="L", help="of the duel, where peaks are taken")
    part.add_argument("--duel_batch", type=int, default=4, help="B of the duel")
    part.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="L", help="of the sweep")
    part.add_argument("--batch", type=int, default=1, help="B of the sweep")
    part.add_argument("--causal", action="store_true", help="the sweep in the form of a decoder")
    part.add_argument("--both_only", action="store_true", help="no forward pass alone")
    part.add_argument("--limit", type=float, default=60.0, help="seconds after which longer ones are left out")
    part.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the sweep's mechanisms: factor=3")


def check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Ends with a message and status 2 for what would only fail after minutes of measuring."""
    import torch

    values = vars(arguments)
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here. Use --device cpu, or install torch's CUDA build")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json {arguments.json}: there is no folder {arguments.json.absolute().parent}. Make it first")
    if arguments.csv and not Path(arguments.csv).is_file():
        parser.error(f"--csv {arguments.csv}: there is no such file")
    for name in POSITIVE:
        value = values.get(name)
        for number in value if isinstance(value, list) else [value]:
            if number is not None and number < 1:
                parser.error(f"--{name} {number}: must be at least 1")
    d_model, n_heads = values.get("d_model") or 512, values.get("n_heads") or 8
    if d_model % n_heads:
        parser.error(f"--d_model {d_model}: must be a multiple of --n_heads {n_heads}")
    if not 0.0 < values.get("fraction", 1.0) <= 1.0:
        parser.error(f"--fraction {arguments.fraction}: must be above 0 and at most 1")
    if arguments.part == "attention" and arguments.only:
        from forecast.config.values import options

        known = options("attention", but="inherit")
        if unknown := [name for name in arguments.only if name not in known]:
            parser.error(f"--only {unknown[0]}: there is no such attention. It is one of {', '.join(known)}")
