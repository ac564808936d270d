"""The parts of the benchmark: from the command line's values to printed lines and figures for the file."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import (
    attention,
    changes,
    data,
    decoding,
    epoch,
    evaluation,
    machine,
    ours,
    programs,
    record,
    step,
    tables,
)
from benchmarks.fresh import prepare_process
from benchmarks.peers import load_peer
from benchmarks.setting import Setting, Sizes

Figures = dict[str, Any]


def say(*lines: str) -> None:
    """Prints at once: a measurement takes minutes."""
    print(*lines, sep="\n", flush=True)


def measure(part: str, arguments: argparse.Namespace) -> None:
    """Measures one part, prints it and writes it. Raises UserError for what the user can mend."""
    setting = make_setting(arguments)
    prepare_process(setting, bounded=False)
    for peer in map(load_peer, setting.peers):
        say(*([f"Mind: {peer.note}."] if peer.note else []))
    described = machine.describe(setting)
    if arguments.json and arguments.json.exists():
        record.check_same_machine(arguments.json, described)
    say(f"\n== {part} ==", tables.machine_line(described))
    before = machine.rates(setting)
    say(tables.rates_line("before", before))
    figures = PARTS[part](setting, arguments)
    after = machine.rates(setting)
    say(tables.rates_line("after", after))
    if arguments.json:
        rates = {"before": before, "after": after, "date": described["date"], "commit": described["commit"]}
        record.write(arguments.json, {**described, "rates": dict.fromkeys(figures, rates)}, figures)


def make_setting(arguments: argparse.Namespace) -> Setting:
    """What all parts are told."""
    import torch

    return Setting(
        device=arguments.device,
        threads=arguments.threads or torch.get_num_threads(),
        peers=tuple(absolute(peer) for peer in arguments.peer),
        rounds=arguments.rounds,
        budget=arguments.budget,
        memory=arguments.memory,
    )


def absolute(peer: str) -> str:
    """NAME=FOLDER with the folder absolute: other processes begin elsewhere."""
    name, mark, folder = peer.partition("=")
    return f"{name}={Path(folder).absolute()}" if mark and folder else peer


def given_sizes(arguments: argparse.Namespace) -> dict[str, int]:
    """The sizes that the command line names."""
    names = ("seq_len", "label_len", "pred_len", "batch", "factor", "d_model", "n_heads", "d_ff")
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def series_file(arguments: argparse.Namespace) -> Path:
    """ETTh1.csv: --csv, else from $FORECAST_DATA, downloaded when it is not there."""
    from forecast.config.compose import composed
    from forecast.data.catalog import locate

    if arguments.csv:
        return Path(arguments.csv).absolute()
    return locate("ETTh1", composed(["data=ETTh1"]).values["data"]["root"]).absolute()


def run_data(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """Windows per second."""
    sizes = Sizes(**given_sizes(arguments))
    found = data.compare(setting, csv=series_file(arguments), sizes=sizes, fraction=arguments.fraction)
    say(f"A shuffled epoch of train windows, {sizes}", *tables.contender_lines(found["contenders"]))
    return {"data": found}


def run_attention(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """The duel and the sweep, or one of them."""
    sizes = {"heads": arguments.heads, "width": arguments.width}
    found: Figures = {}
    if "duel" in arguments.tables:
        say(f"Forward and backward, B {arguments.duel_batch}, H {arguments.heads}, E {arguments.width}, float32")
        found["duel"] = attention.duel(
            setting,
            lengths=arguments.duel_lengths,
            memory_lengths=arguments.memory_lengths or arguments.duel_lengths,
            only=arguments.only,
            batch=arguments.duel_batch,
            tell=lambda row: say(*tables.duel_lines(row)),
            **sizes,
        )
    if "sweep" in arguments.tables:
        form = f"{'causal' if arguments.causal else 'not causal'}, float32: {' | '.join(passes(arguments))}"
        say(f"B {arguments.batch}, H {arguments.heads}, E {arguments.width}, {form}")
        more = {**sizes, "batch": arguments.batch, "causal": arguments.causal, "settings": arguments.set}
        found["attention"] = attention.sweep(
            setting,
            only=arguments.only,
            lengths=arguments.lengths,
            passes=passes(arguments),
            limit=arguments.limit,
            sizes=more,
            tell=lambda name, row: say(tables.sweep_line(name, row)),
        )
        say(*(tables.growth_line(name, each["growth"]) for name, each in found["attention"].items()))
    return found


def passes(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Forward alone is left out where time is short."""
    return attention.PASSES[1:] if arguments.both_only else attention.PASSES


def run_step(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """The training steps; without named sizes at those of `step.SIZES`, and the memory of a large one."""
    given = given_sizes(arguments)
    sizes = [Sizes(**given)] if given else list(step.SIZES)
    tell: Callable[[Figures], None] = lambda row: say(*tables.step_lines(row))  # noqa: E731
    rows = step.compare(setting, sizes=sizes, only=arguments.only, memory=not arguments.no_memory, tell=tell)
    if not given and not arguments.no_memory:
        rows.append(step.large_memory(setting, only=arguments.only))
        tell(rows[-1])
    return {"step": rows}


def run_epoch(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """From the file to the validation metric."""
    sizes = Sizes(**given_sizes(arguments))
    say(f"From the CSV to the validation metric, {sizes}, {arguments.fraction:.0%} of the batches")
    csv = series_file(arguments)
    found = epoch.compare(
        setting,
        csv=csv,
        sizes=sizes,
        fraction=arguments.fraction,
        tell=lambda name, seconds: say(f"  {name:{tables.NAME_WIDTH}} {seconds:.1f} s"),
    )
    say("In all:", *tables.contender_lines(found["contenders"]))
    return {"epoch": found}


def run_evaluation(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """The test split."""
    sizes = Sizes(**given_sizes(arguments))
    found = evaluation.compare(setting, csv=series_file(arguments), sizes=sizes)
    say(f"All test windows by the same weights, {sizes}", *tables.contender_lines(found["contenders"]))
    return {"evaluation": found}


def run_predict(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """predict.py from the shell."""
    sizes = Sizes(**given_sizes(arguments))
    found = programs.predict(setting, csv=series_file(arguments), sizes=sizes)
    say("From the shell to the CSV", *tables.contender_lines(found["contenders"]))
    return {"predict": found}


def run_startup(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """How long programs take to start."""
    sizes = Sizes(**given_sizes(arguments))
    found = programs.startup(setting, csv=series_file(arguments), sizes=sizes)
    say("From the shell", *tables.contender_lines(found["contenders"]))
    return {"startup": found}


def run_changes(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """What each change of our step is worth."""
    sizes = Sizes(**given_sizes(arguments))
    found = {}
    for recipe in ours.RECIPES:
        found[recipe] = changes.compare(setting, sizes=sizes, recipe=recipe)
        say(f"A step of {recipe}, {sizes}, and how many times slower it is without each of its changes")
        say(*tables.changes_lines(found[recipe]))
    return {"changes": found}


def run_decoding(setting: Setting, arguments: argparse.Namespace) -> Figures:
    """With and without the cache."""
    say(f"{arguments.model}, B {arguments.batch}, seq_len {arguments.seq_len}, 2 layers")
    rows = decoding.compare(
        setting,
        model=arguments.model,
        seq_len=arguments.seq_len,
        pred_lens=arguments.pred_lens,
        batch=arguments.batch,
        tell=lambda row: say(tables.decoding_line(row)),
    )
    return {"decoding": rows}


PARTS: dict[str, Callable[[Setting, argparse.Namespace], Figures]] = {
    "data": run_data,
    "attention": run_attention,
    "step": run_step,
    "epoch": run_epoch,
    "evaluation": run_evaluation,
    "predict": run_predict,
    "startup": run_startup,
    "decoding": run_decoding,
    "changes": run_changes,
}
