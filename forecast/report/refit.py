"""What a run says of the model that it trained on more rows."""

from forecast.report.tables import short_number
from forecast.run_folder.shapes import Metrics, RefitBlock
from forecast.text.terminal import listed


def refit_sentences(block: RefitBlock, metrics: Metrics) -> list[str]:
    """What was trained on which rows, and what that gave where test rows were left out.

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
            f"{short_number(held_out)}{_change(refitted, held_out)}."
        )
    return sentences


def _change(now: float, before: float) -> str:
    """How far an error moved, in percent of what it was."""
    if now == before or not before:
        return ""
    percent = 100.0 * abs(now / before - 1.0)
    return f": {percent:.1f} % {'lower' if now < before else 'higher'}"
