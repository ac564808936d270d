"""An entry point whose main shows what the helpers say, checks the config when told to, and misbehaves when told to.

The check imports torch, which takes longer than all the rest.
"""

import json
import os
import time
from pathlib import Path

from forecast.__main__ import exit_status
from forecast.config.compose import choices, run_folder, task_overrides
from forecast.config.entry import run
from forecast.config.resolvers import CUBLAS_WORKSPACE, LARGE_PAGES


def main(cfg):
    from forecast.errors import UserError

    match cfg.logger.name:
        case "interrupt":
            raise KeyboardInterrupt
        case "bug":
            raise RuntimeError("a bug")
        case "refuse":
            raise UserError("refused inside main")
        case "wait":
            Path("waiting").touch()
            while not Path("go").exists():
                time.sleep(0.05)
        case "check":
            from forecast.config.check import check_config

            check_config(cfg)
        case "build":
            from forecast.config.build import build

            build({"a": {"_target_": "torch.optim.Adam", "params": [], "lr": 1}})
    report = {
        "folder": str(run_folder()),
        "overrides": task_overrides(),
        "seed": cfg.seed,
        "model": choices().get("model"),
        "large pages": os.environ[LARGE_PAGES],
        "workspace": os.environ[CUBLAS_WORKSPACE],
    }
    assert choices().get("nothing") is None
    assert choices()["attention"] == choices().get("attention")
    print("RAN " + json.dumps(report))


if __name__ == "__main__":
    with exit_status():
        run(main, config_name="train")
