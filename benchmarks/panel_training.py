"""A training on a panel as train.py does it, up to the end of its last step, by its stages."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from lightning.pytorch.callbacks import Callback

from benchmarks import timing
from benchmarks.setting import Figures, Setting
from forecast.apps.common.training_data import make_plan, read_data
from forecast.checkpoint.model import build_model
from forecast.config import entry
from forecast.evaluation.baselines import fit_baselines
from forecast.training.fit import fit
from forecast.training.record import make_record
from forecast.training.throughput import PeakMemory


def panel_training(setting: Setting, *, command: Sequence[str]) -> Figures:
    """Stage -> {"seconds", "megabytes"}: the peak of the process so far.

    opened: from the file, or its cache, to splits and scales. baselines: fitted, which nobody else does. started: model
    and trainer made, the leakage check. trained: all steps.
    """
    memory, figures = PeakMemory(), dict[str, Figures]()
    begun = highest = 0.0

    def stage(name: str) -> None:
        nonlocal begun, highest
        highest = max(highest, timing.whole_peak(memory) or 0.0)  # `Throughput` begins anew
        figures[name] = {"seconds": time.perf_counter() - begun, "megabytes": highest or None}
        begun = time.perf_counter()

    class Stages(Callback):
        """Notes when the first step begins and the last one has ended."""

        def on_train_start(self, trainer: Any, *rest: Any) -> None:
            stage("started")

        def on_train_end(self, *rest: Any) -> None:
            stage("trained")

    def main(cfg: Any) -> None:
        nonlocal begun
        plan = make_plan(cfg)
        begun = time.perf_counter()
        data = read_data(plan.source, plan.config)
        stage("opened")
        fitted = fit_baselines(data)
        stage("baselines")
        record = make_record(plan.config, plan.choices, plan.source, data, fitted)
        plan.parts.callbacks.append(Stages())
        fit(plan, build_model(plan.config, record.data), data, record)

    sys.argv = ["train.py", *command]  # what Hydra reads; this process is ours alone
    entry.run(main, config_name="train")
    return figures
