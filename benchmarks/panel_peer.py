"""Ten thousand series beside neuralforecast: the same file, the same model and steps, each in processes of its own."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import timing
from benchmarks.panel_files import LENGTHS, ROWS, apart, overrides, sizes_of, write_panel
from benchmarks.panel_training import panel_training
from benchmarks.setting import Figures, Setting, print_now
from forecast.errors import UserError
from forecast.training.throughput import PeakMemory

PEER = "neuralforecast"
ROUNDS = 3
SCRIPT = Path(__file__).with_name("neuralforecast_panel.py")
# What both do, in order; the seconds of `prepare` end with the first training step.
STAGES = {
    "prepare": "from the file to the first training step",
    "train": "all steps",
    "predict": "every series, as a table",
    "all": "the three together",
}


def run(setting: Setting, folder: Path) -> list[Figures]:
    """A row for each of STAGES; both sides in turns. Raises UserError where one of them fails.

    Equal work: windows of a step, steps, sizes of the model, scaled by series, Adam at the same rate. Ours reads the
    calendar too, checks for leaks, writes a checkpoint and reads the file anew to predict; theirs has no calendar.
    """
    panel, sizes = folder / "peer.parquet", sizes_of(setting, **LENGTHS)
    apart(write_panel, setting, path=str(panel), series=setting.compared, rows=ROWS)
    seconds: dict[str, timing.Seconds] = {stage: {"ours": [], PEER: []} for stage in STAGES}
    peaks: dict[str, float] = {}
    begun = time.perf_counter()
    for completed in range(min(ROUNDS, setting.rounds)):
        if completed and time.perf_counter() - begun >= setting.budget:
            break
        of_round = {
            "ours": apart(ours_on, setting, panel=str(panel), folder=f"{folder}/ours{completed}"),
            PEER: theirs_on(setting, panel, asdict(sizes)),
        }
        for name, figures in of_round.items():
            figures["all"] = sum(figures[stage] for stage in STAGES if stage != "all")
            for stage in STAGES:
                seconds[stage][name].append(figures[stage])
            peaks[name] = max(peaks.get(name, 0.0), figures["megabytes"])
            print_now(f"{name}: " + ", ".join(f"{stage} {figures[stage]:.1f} s" for stage in STAGES))
    rows = []
    for stage, of_both in seconds.items():
        contenders = timing.compared(of_both, [PEER])
        for name in contenders if stage == "all" else ():
            contenders[name]["megabytes"] = peaks[name]
        sample = {"series": setting.compared, "rows": ROWS, "steps": setting.steps}
        rows.append({"stage": stage, **sample, **asdict(sizes), "contenders": contenders})
    return rows


def check_installed(setting: Setting) -> None:
    """UserError where the Python that is to run the peer has none, before minutes of measuring."""
    command = [setting.python or sys.executable, "-c", f"import {PEER}"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        said = child.stderr.strip().splitlines()[-1:] if child.returncode else []
    except OSError as error:
        said = [str(error)]
    if said:
        raise UserError(
            f"--peer {PEER}: {command[0]} does not import it: {said[0]}. Name a Python that has the package: "
            "--python FOLDER/bin/python"
        )


def ours_on(setting: Setting, *, panel: str, folder: str) -> Figures:
    """Trains as train.py does, then forecasts from the checkpoint: seconds of each stage, the peak of the process."""
    import torch

    from forecast.apps.common.continuation import continuation, forecast_table, whole_table
    from forecast.apps.common.inputs import trained_source
    from forecast.checkpoint.load import load_checkpoint

    memory = PeakMemory()
    command = overrides(panel, sizes_of(setting, **LENGTHS), f"trainer.max_steps={setting.steps}")
    stages = panel_training(setting, command=[*command, "trainer.max_epochs=-1", f"hydra.run.dir='{folder}'"])
    start = time.perf_counter()
    checkpoint = load_checkpoint(f"{folder}/checkpoints/last.ckpt")
    source = trained_source(checkpoint.config.data, root=None)
    ends = continuation(checkpoint, source, device=torch.device("cpu"))
    whole = whole_table(forecast_table(checkpoint, source, ends.frame, ends.levels), ends.blocks(0, len(ends.series)))
    predict = time.perf_counter() - start
    check_rows(len(whole), setting, "ours")
    return {
        "prepare": stages["opened"]["seconds"] + stages["started"]["seconds"],
        "train": stages["trained"]["seconds"],
        "predict": predict,
        "megabytes": max(timing.whole_peak(memory) or 0.0, stages["trained"]["megabytes"] or 0.0),
    }


def theirs_on(setting: Setting, panel: Path, sizes: Figures) -> Figures:
    """The same by `neuralforecast_panel.py`, which imports nothing of ours, with the Python that has the package."""
    task = {"panel": str(panel), "threads": setting.threads, "steps": setting.steps, **sizes}
    print_now(f"{PEER} ...")
    child = subprocess.run(
        [setting.python or sys.executable, str(SCRIPT), json.dumps(task)],
        cwd=panel.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode:
        raise UserError(f"panels: {SCRIPT.name} has failed: {child.stderr.strip()[-500:]}")
    figures: Figures = json.loads(child.stdout.strip().splitlines()[-1])
    check_rows(figures["rows"], setting, PEER)
    return figures


def check_rows(rows: int, setting: Setting, name: str) -> None:
    """UserError where not every step of every series was forecast: the work was not the same."""
    needed = setting.compared * sizes_of(setting, **LENGTHS).pred_len
    if rows != needed:
        raise UserError(f"panels: {name} has forecast {rows} rows, not {needed}: the two did not do the same.")
