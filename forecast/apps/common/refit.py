"""A model trained on more rows after its results are known, and what is shown of it: the held-out model's figures."""

import json
from collections.abc import Mapping
from pathlib import Path

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.allow_list import trust_words
from forecast.files import json_text
from forecast.report.tables import short_number
from forecast.run_folder import FILES, SAME_DATA, checkpoint_path
from forecast.run_folder.shapes import Block, Metrics
from forecast.text.overrides import typed
from forecast.text.terminal import listed

# Of metrics.json, what a checkpoint of a refitted model does not keep: how long it took, what lies beside it.
NOT_KEPT = ("status", "cost", FILES, SAME_DATA)


def kept_metrics(metrics: Mapping[str, object]) -> dict[str, object]:
    """The figures of the held-out model as a checkpoint holds them: plain values, as in metrics.json."""
    kept: dict[str, object] = json.loads(json_text({key: metrics[key] for key in metrics if key not in NOT_KEPT}))
    return kept


def chosen_checkpoint(folder: Path) -> Checkpoint:
    """The best.ckpt of a run, without one its last.ckpt."""
    best = checkpoint_path(folder, "best")
    return load_checkpoint(best if best.exists() else checkpoint_path(folder, "last"))


def shown(block: Block, metrics: Metrics, path: Path) -> list[str]:
    """What the log says of a refit, and the command that forecasts with it.

    block: `refit` of metrics.json, metrics: the whole.
    """
    steps = f"{block['steps']} steps, as many as validation chose" if block["steps"] else "the options as chosen"
    sentences = [
        f"Trained once more on the rows of {listed(block['rows'])}, up to {block['trained_until']}, with {steps}: "
        "refit.ckpt. The figures above are those of the held-out model, best.ckpt; both are scaled by the train rows."
    ]
    if "test" in block:
        held_out, refitted = (errors["test"]["scaled"]["mse"] or 0.0 for errors in (metrics, block))
        sentences.append(
            f"On the test windows the MSE of refit.ckpt is {short_number(refitted)}, that of the held-out model "
            f"{short_number(held_out)}."
        )
    command = f"forecast predict {trust_words()}{typed('ckpt_path', str(path))} output=forecast.csv"
    return [*sentences, f"Next: {command}"]
