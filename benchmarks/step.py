"""One training step, ours and the peers': forward, loss, backward, optimizer."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import ours, timing
from benchmarks.document import print_table
from benchmarks.peers import load_peer
from benchmarks.setting import PRECISIONS, TF32, Figures, Setting, Sizes
from forecast.evaluation.metrics import mean_squared_error
from forecast.training.module import fused_keyword

SIZES = (
    Sizes(seq_len=48, label_len=48, pred_len=24, factor=3),
    Sizes(seq_len=96, label_len=48, pred_len=24),
    Sizes(seq_len=336, label_len=336, pred_len=720, batch=8),
)
# Memory alone: a step of the authors' code takes a quarter of a minute on two cores.
LARGE = replace(SIZES[2], batch=32)
# A GPU is fast enough for a large batch, and slow to compile: of these sizes alone.
WIDE = replace(SIZES[1], batch=256)
COMPILED = SIZES[1]


def run(setting: Setting) -> Figures:
    """A row for each size; without named sizes those of SIZES, and the memory of a large step."""
    rows = []
    for sizes in sizes_of(setting):
        contenders = contenders_of(setting, compiled=bool(setting.sizes) or sizes == COMPILED)
        row = {**asdict(sizes), **timed(setting, contenders, sizes)}
        for name, how in contenders.items():
            if not how.get("way"):
                row["contenders"][name] |= memory(setting, how, sizes, steps=2)
        print_table("step", [row])
        rows.append(row)
    if not setting.sizes:
        large = {
            name: how for name, how in contenders_of(setting).items() if not name.startswith("ours prob")
        }  # ours differ little
        peaks = {name: memory(setting, how, LARGE, steps=1) for name, how in large.items()}
        rows.append({**asdict(LARGE), "contenders": peaks})
        print_table("step", rows[-1:])
    return {"step": rows}


def sizes_of(setting: Setting) -> Sequence[Sizes]:
    """Those that the command line names, or SIZES, on a GPU with a large batch among them."""
    if setting.sizes:
        return [Sizes(**setting.sizes)]
    return (*SIZES, WIDE) if setting.device == "cuda" else SIZES


def contenders_of(setting: Setting, *, compiled: bool = False) -> dict[str, Figures]:
    """Name in tables and files -> what `make_step` takes: ours, on a GPU also replayed as one graph, then the peers'.

    compiled: on a GPU ours by torch.compile too.
    """
    on_gpu = setting.device == "cuda"
    ways = ["", *["graph"] * on_gpu, *["compiled"] * (on_gpu and compiled)]
    precisions = [*PRECISIONS, *[TF32] * on_gpu]
    contenders: dict[str, Figures] = {}
    for way, recipe, precision in itertools.product(ways, ours.RECIPES, precisions):
        if way == "compiled" and precision != "bf16-mixed":
            continue  # half a minute each
        contenders[f"ours {recipe} {precision} {way}".strip()] = {"recipe": recipe, "precision": precision, "way": way}
    for peer, precision in itertools.product(setting.peers, precisions):
        contenders[f"{load_peer(peer).name} {precision}"] = {"peer": peer, "precision": precision}
    return contenders


def timed(setting: Setting, contenders: Mapping[str, Figures], sizes: Sizes) -> Figures:
    """The contenders in turns, between two measurements of the machine's rate.

    gflop: the matrix products of one step of our informer2020, counted; `share` is that by the seconds by the rate of
    the contender's precision. A contender that a GPU cannot capture or compile has `failed` in place of figures.
    """
    steps, failed = dict[str, Callable[[], None]](), dict[str, Figures]()
    for name, how in contenders.items():
        try:
            steps[name] = make_step(setting, sizes, **how)
            steps[name]()
        except RuntimeError as error:
            if not how.get("way"):
                raise
            steps.pop(name, None)
            failed[name] = {"failed": str(error).strip().splitlines()[0][:200]}
    step = make_step(setting, sizes, precision="fp32", recipe="informer2020")
    with FlopCounterMode(display=False) as counter:
        step()
    gflop = float(counter.get_total_flops()) / 1e9
    before = timing.machine_rates(setting)
    seconds = timing.turns(steps, setting, warm_up=4 if setting.device == "cuda" else 1)  # torch.compile needs more
    after = timing.machine_rates(setting)
    rates = {name: (before[name] + after[name]) / 2 for name in before}
    figures = timing.compared(seconds, [name for name, how in contenders.items() if "peer" in how])
    for name, of_contender in figures.items():
        rate = rates[contenders[name]["precision"].removesuffix("-mixed")]
        of_contender["share"] = gflop / of_contender["seconds"] / rate
    return {"gflop": gflop, "rates": rates, "contenders": {**figures, **failed}}


def make_step(
    setting: Setting, sizes: Sizes, *, precision: str, recipe: str = "", way: str = "", peer: str = ""
) -> Callable[[], None]:
    """A training step on `ours.random_batch` with fresh weights and the optimizer of conf/optim, ours in one pass.

    Of one of `ours.RECIPES`, or of the peer that --peer names. Forward, loss, backward and optimizer are the same code
    for both. Autocast covers forward and loss, as Lightning's bf16-mixed does. way: "compiled", or "graph": all of the
    step recorded once by the GPU and replayed on the same batch.
    """
    torch.manual_seed(0)
    batch, make = ours.random_batch(sizes, setting.device), ours.values().optim.factory(torch.optim.Optimizer)
    if peer:
        theirs = load_peer(peer)
        model = theirs.model(sizes, setting.device).train()
        forecast, optimizer = theirs.forecaster(model, sizes, batch), make(model.parameters())
    else:
        own = ours.model_of(recipe, sizes).to(setting.device).train()
        inputs = (batch.past, batch.past_known, batch.future_known, batch.future)
        outputs = torch.compile(own.training_outputs, dynamic=False) if way == "compiled" else own.training_outputs
        forecast = lambda: outputs(*inputs)  # noqa: E731
        captured = {"capturable": True} if way == "graph" else {}
        optimizer = make(own.parameters(), **fused_keyword(make, may=True), **captured)

    def step() -> None:
        torch.set_float32_matmul_precision("high" if precision == TF32 else "highest")
        torch.backends.cudnn.allow_tf32 = precision == TF32
        optimizer.zero_grad()
        with torch.autocast(setting.device, dtype=torch.bfloat16, enabled=precision == "bf16-mixed"):
            loss = mean_squared_error(*forecast())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return recorded(step) if way == "graph" else step


def recorded(step: Callable[[], None]) -> Callable[[], None]:
    """The step as one CUDA graph. Raises RuntimeError for what waits for the GPU or copies from the host."""
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):  # what is allocated and chosen at first is no part of the graph
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(held: Callable[[], None] = step) -> None:  # the graph has the addresses of what the step holds
        graph.replay()

    return replay


def memory(setting: Setting, how: Figures, sizes: Sizes, *, steps: int) -> Figures:
    """`step_memory` in a process of its own."""
    return timing.in_own_process(step_memory, setting, how=how, sizes=asdict(sizes), steps=steps)


def step_memory(setting: Setting, *, how: Figures, sizes: dict[str, Any], steps: int) -> Figures:
    """The 10^6 bytes of a training at its peak: weights, gradients, the optimizer's state and activations."""
    # what is imported and set up once is no part of a step
    make_step(setting, replace(Sizes(**sizes), batch=1, pred_len=1), **how)

    def train() -> None:
        step = make_step(setting, Sizes(**sizes), **how)
        for _ in range(steps):
            step()

    return {"megabytes": timing.peak_above(train, setting)}
