"""What a sweep says of its jobs: how many there are, and a line as each ends."""

import functools
import sys
import time
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from forecast.config import resolvers
from forecast.run_folder import rank, read_run
from forecast.text.terminal import duration, is_quiet, label, mute_console, say


class SweepLines(Callback):
    """`3/6  attention=prob seed=2  mse 0.412  41 s  FOLDER` on stdout. Hydra calls it, and copies it to its workers."""

    count, keys, begun = 0, frozenset[str](), 0.0  # no count: it is no sweep

    def on_multirun_start(self, config: DictConfig, **_: object) -> None:
        """Counts the jobs, finds the keys that vary, and says where the sweep lies."""
        hydra = GlobalHydra.instance()
        parser = OverridesParser.create(config_loader=hydra.config_loader())
        words = parser.parse_overrides(resolvers.sweep_words(config))
        self.keys = frozenset(word.get_key_element() for word in words if word.is_sweep_override())
        self.count = len(BasicSweeper.split_arguments(words, None)[0])
        job_dir = functools.partial(resolvers.job_dir, self.keys)
        OmegaConf.register_new_resolver("job_dir", job_dir, replace=True)
        if rank() == 0 and not is_quiet():
            say(f"Jobs: {self.count}, in {config.hydra.sweep.dir}", file=sys.stderr)

    def on_job_start(self, config: DictConfig, **_: object) -> None:
        """Leaves what the job has to say to its log."""
        self.begun = time.monotonic()
        if self.count:
            mute_console()

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: object) -> None:
        """Prints the line."""
        if not self.count or rank():
            return
        folder, ended = Path(config.hydra.runtime.output_dir), job_return._return_value
        words = " ".join(word for word in job_return.overrides or () if word.partition("=")[0] in self.keys)
        parts = [f"{config.hydra.job.num + 1}/{self.count}", label(words)]
        scores = read_run(folder).metrics.get(OmegaConf.select(config, "split") or "test", {})
        if not isinstance(ended, Exception) and "scaled" in scores:
            parts.append(f"mse {scores['scaled']['mse']:.4f}")
        if isinstance(ended, Exception):
            parts.append(f"failed: {next(iter(str(ended).splitlines()), '')}")
        else:
            parts.append(ended or duration(time.monotonic() - self.begun))
        parts.append(str(Path(config.hydra.sweep.dir) / folder.name))
        say("  ".join(parts), file=sys.stdout)  # not to the log, which may be another process's
