"""Time and memory of the parts of the program. Usage: python scripts/benchmark.py attention|decoding [--help]

Each measurement runs in a process of its own: its peak memory is its own, and running out of it ends nothing else.
"""

import argparse
import json
import math
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LENGTHS = (96, 192, 336, 720, 1024, 2048, 4096, 8192, 16384)
GROWTH_FROM = 1024  # the growth exponent is fitted from this length on
LEAST_SECONDS, LEAST_REPEATS = 0.5, 3
PASSES = ("forward", "forward+backward")


def main() -> None:
    """Runs the benchmark that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    attention = parts.add_parser("attention", help="every attention of conf/attention by length")
    attention.add_argument("--only", nargs="+", metavar="NAME", help="these attentions alone")
    attention.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="L")
    attention.add_argument("--batch", type=int, default=1, help="B")
    attention.add_argument("--heads", type=int, default=8, help="H")
    attention.add_argument("--width", type=int, default=64, help="E, the width of a head")
    attention.add_argument("--causal", action="store_true", help="the form of a decoder")
    attention.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the mechanism, such as factor=3"
    )
    decoding = parts.add_parser("decoding", help="forecasting step by step with and without the cache")
    decoding.add_argument("--model", choices=("gpt", "logtrans", "sparse_transformer"), default="gpt")
    decoding.add_argument("--seq_len", type=int, default=96)
    decoding.add_argument("--pred_lens", nargs="+", type=int, default=(24, 48, 96, 192), metavar="P")
    decoding.add_argument("--batch", type=int, default=32, help="B")
    for part in (attention, decoding):
        part.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
        part.add_argument("--threads", type=int, default=1, help="CPU threads")
        part.add_argument("--limit", type=float, default=60.0, help="seconds after which longer ones are left out")
        part.add_argument("--memory", type=float, default=12.0, help="10^9 bytes a process may take")
        part.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
        part.add_argument("--measure", help=argparse.SUPPRESS)  # the measuring process itself
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    if arguments.measure:
        measures: dict[str, Callable[..., dict[str, float]]]
        measures = {"attention": measure_attention, "decoding": measure_decoding}
        print(json.dumps(measures[arguments.part](arguments, *json.loads(arguments.measure))))
    elif arguments.part == "attention":
        benchmark_attention(arguments)
    else:
        benchmark_decoding(arguments)


def check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Ends with a message and status 2 for what would only fail after minutes of measuring."""
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here. Use --device cpu, or install torch's CUDA build")
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json {arguments.json}: there is no folder {arguments.json.absolute().parent}. Make it first")
    for name in ("batch", "heads", "width", "threads", "seq_len", "lengths", "pred_lens"):
        given = getattr(arguments, name, 1)
        wrong = [size for size in (given if isinstance(given, list | tuple) else [given]) if size < 1]
        if wrong:
            parser.error(f"--{name} {wrong[0]}: must be at least 1")


def benchmark_attention(arguments: argparse.Namespace) -> None:
    """Prints a table and the growth exponents, and writes them when asked to."""
    unknown = [name for name in arguments.only or [] if name not in attentions()]
    if unknown:
        sys.exit(f"--only {unknown[0]}: there is no such attention. It is one of {', '.join(attentions())}")
    form = "causal" if arguments.causal else "not causal"
    print(f"B {arguments.batch}, H {arguments.heads}, E {arguments.width}, {form}, {machine(arguments)}")
    print("The mechanism alone, float32: median time, and memory above the inputs; forward | forward+backward\n")
    figures = {}
    for name in arguments.only or attentions():
        figures[name] = rows = measure_lengths(arguments, name)
        slopes = {each: growth({row["L"]: row[each]["seconds"] for row in rows if each in row}) for each in PASSES}
        for row in rows:
            print(f"{name:18} L {row['L']:6}  " + "  |  ".join(shown(row.get(each)) for each in PASSES), flush=True)
        print(f"{name:18} growth of time from L = {GROWTH_FROM}: {' | '.join(exponent(s) for s in slopes.values())}\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(arguments), "attention": figures}, indent=1) + "\n")


def attentions() -> list[str]:
    """The options of the group attention."""
    folder = Path(__file__).resolve().parents[1] / "conf" / "attention"
    return sorted(file.stem for file in folder.glob("*.yaml") if file.stem != "inherit")


def measure_lengths(arguments: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """One row a length, until the time or the memory is used up."""
    rows: list[dict[str, Any]] = []
    for length in sorted(arguments.lengths):
        row: dict[str, Any] = {"L": length}
        for each in PASSES:
            figures = in_own_process([name, length, each])
            if isinstance(figures, str):
                print(f"{name:18} L {length:6}  {each} not measured: {figures}", flush=True)
                break
            row[each] = figures
        rows.append(row)
        if len(row) <= len(PASSES) or row[PASSES[-1]]["seconds"] > arguments.limit:
            break
    return rows


def in_own_process(what: list[Any]) -> dict[str, Any] | str:
    """What the measuring process found for `what`, or the last line of its complaint."""
    command = [sys.executable, __file__, *sys.argv[1:], "--measure", json.dumps(what)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        return (child.stderr.strip().splitlines() or [f"ended with status {child.returncode}"])[-1][:120]
    figures: dict[str, Any] = json.loads(child.stdout)
    return figures


def measure_attention(arguments: argparse.Namespace, name: str, length: int, which: str) -> dict[str, float]:
    """Seconds and 10^6 bytes of one pass of an attention at one length."""
    import torch

    prepare_process(arguments)
    mechanism = built_mechanism(name, causal=arguments.causal, settings=arguments.set).to(arguments.device)
    heads, width = (
        (1, arguments.heads * arguments.width) if name == "single_head" else (arguments.heads, arguments.width)
    )
    sizes = (arguments.batch, heads, length, width)
    q, k, v = (torch.randn(sizes, device=arguments.device, requires_grad=True) for _ in range(3))

    def forward() -> None:
        with torch.no_grad():
            mechanism(q, k, v)

    def both() -> None:
        torch.autograd.grad(mechanism(q, k, v).sum(), (q, k, v))

    return measured(forward if which == "forward" else both, arguments.device)


def prepare_process(arguments: argparse.Namespace) -> None:
    """Threads, random numbers, and a bound on the memory."""
    import torch

    limit = int(arguments.memory * 1e9)
    if arguments.device == "cpu":  # CUDA reserves address space that it never uses
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)


def benchmark_decoding(arguments: argparse.Namespace) -> None:
    """Prints seconds and computed rows of a forecast with and without the cache, by pred_len."""
    print(f"{arguments.model}, B {arguments.batch}, seq_len {arguments.seq_len}, {machine(arguments)}")
    print("A forecast of a batch, default sizes, 2 layers; rows: of a window, through the head\n")
    rows = []
    for pred_len in arguments.pred_lens:
        cached, plain = (in_own_process([pred_len, how]) for how in ("cached", "uncached"))
        if isinstance(cached, str) or isinstance(plain, str):
            print(f"P {pred_len:4}  not measured: {cached if isinstance(cached, str) else plain}", flush=True)
            break
        rows.append({"pred_len": pred_len, "cached": cached, "uncached": plain})
        times = "  |  ".join(f"{each['seconds']:8.3f} s {each['rows']:6} rows" for each in (cached, plain))
        print(f"P {pred_len:4}  cached | not: {times}  |  {plain['seconds'] / cached['seconds']:.1f} times", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(arguments), "decoding": rows}, indent=1) + "\n")


def measure_decoding(arguments: argparse.Namespace, pred_len: int, how: str) -> dict[str, float]:
    """Seconds of a forecast, its memory, and how many rows of a window its last map computes."""
    import torch

    from forecast.models.base import WindowShape

    prepare_process(arguments)
    n_columns, n_known = 7, 4
    window = WindowShape(
        n_columns=n_columns,
        targets=tuple(range(n_columns)),
        n_known=n_known,
        seq_len=arguments.seq_len,
        label_len=0,
        pred_len=pred_len,
    )
    model = built_model(arguments.model, window).to(arguments.device).eval()
    sizes = ((arguments.seq_len, n_columns), (arguments.seq_len, n_known), (pred_len, n_known))
    inputs = [torch.randn(arguments.batch, *size, device=arguments.device) for size in sizes]
    rows: list[int] = []
    model.head.register_forward_hook(lambda _, taken, __: rows.append(taken[0].shape[1]))
    forecast = model.forecast if how == "cached" else model.forecast_uncached

    def run() -> None:
        rows.clear()
        with torch.inference_mode():
            forecast(*inputs)

    return {**measured(run, arguments.device), "rows": sum(rows)}


def built_model(name: str, window: Any) -> Any:
    """The model of conf/model/NAME.yaml with its paper's attention."""
    from hydra import compose, initialize_config_dir

    from forecast.config import resolvers
    from forecast.config.build import build
    from forecast.config.values import CONF

    resolvers.register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", overrides=[f"model={name}", "model.decoder_layers=2"])
    return build(cfg.model, window=window)


def built_mechanism(name: str, *, causal: bool, settings: list[str]) -> Any:
    """The mechanism of conf/attention/NAME.yaml, without dropout, in training mode: fresh random draws at each call."""
    from omegaconf import OmegaConf

    from forecast.config.build import build
    from forecast.config.values import CONF

    around = {"model": {"dropout": 0.0}, "eval_seed": 0}
    chosen = OmegaConf.load(CONF / "attention" / f"{name}.yaml").mechanism
    config = OmegaConf.merge(
        OmegaConf.create({**around, "mechanism": chosen}), {"mechanism": OmegaConf.from_dotlist(settings)}
    )
    node: Any = OmegaConf.to_container(config, resolve=True)
    return build(node["mechanism"])(causal=causal, layer=0)


def measured(run: Callable[[], None], device: str) -> dict[str, float]:
    """Median seconds of a call after one to warm up, and the bytes that it takes at its peak."""
    import torch

    from forecast.memory import PeakMemory

    def synchronised() -> None:
        run()
        if device == "cuda":
            torch.cuda.synchronize()

    memory = PeakMemory()
    before = torch.cuda.memory_allocated() if device == "cuda" else resident()
    synchronised()
    peak = memory.megabytes(torch.device(device))
    seconds: list[float] = []
    while len(seconds) < LEAST_REPEATS or sum(seconds) < LEAST_SECONDS:
        start = time.perf_counter()
        synchronised()
        seconds.append(time.perf_counter() - start)
        if seconds[0] > 20 * LEAST_SECONDS:
            break
    return {"seconds": statistics.median(seconds), "megabytes": (peak or math.nan) - before / 1e6}


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(seconds: dict[int, float]) -> float | None:
    """The exponent e of seconds ~ L^e, fitted to the lengths from GROWTH_FROM on; None for fewer than two."""
    points = [(math.log(length), math.log(value)) for length, value in seconds.items() if length >= GROWTH_FROM]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None


def exponent(value: float | None) -> str:
    """An exponent in words."""
    return "-" if value is None else f"L^{value:.2f}"


def shown(figures: dict[str, float] | None) -> str:
    """Milliseconds and 10^6 bytes in columns."""
    return f"{figures['seconds'] * 1e3:10.2f} ms {figures['megabytes']:9.1f} MB" if figures else "-"


def machine(arguments: argparse.Namespace) -> str:
    """What was measured on."""
    import torch

    device = torch.cuda.get_device_name() if arguments.device == "cuda" else f"CPU, {arguments.threads} threads"
    return f"{device}, torch {torch.__version__}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
