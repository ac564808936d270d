"""Why a model loses, as far as the figures of its run tell, and what to change."""

import math
from typing import NamedTuple

from forecast.run_folder.shapes import Metrics, Training, block_of

# A mean of the evaluated rows so many standard deviations from that of the train rows is a level that drifts.
DRIFT = 1.0
# From so many parameters for each train window on a model has little to learn them from.
PARAMETERS_A_WINDOW = 1000
SMALL_MODEL, SMALL_BATCH, ENOUGH_STEPS = 64, 8, 1000
# Schedules under which further epochs hardly change a weight, and one that spreads the rate over any number of them.
SHRINKING, SPREAD = ("halve_each_epoch", "decay_90"), "schedule=cosine"
NAMED = 2  # cures at most


class Cure(NamedTuple):
    """Overrides to train with, and why."""

    overrides: str
    reason: str


def cures(metrics: Metrics, split: str) -> list[Cure]:
    """What may help a model that loses, the likeliest first, NAMED at most.

    metrics: metrics.json, with `training`, `level_shift` of the split, `parameters` and `best_epoch`; without them
    nothing is known.
    """
    training = metrics.get("training") or {}
    candidates = [
        _follow_the_level(metrics, split, training),
        _fit_the_size(metrics, training),
        _train_longer(metrics.get("best_epoch"), training),
        _smaller_steps(metrics.get("best_epoch"), training),
    ]
    return [cure for cure in candidates if cure is not None][:NAMED]


def _follow_the_level(metrics: Metrics, split: str, training: Training) -> Cure | None:
    shift = block_of(metrics, split).get("level_shift")
    if shift is None or shift < DRIFT or training.get("instance_norm") is not False:
        return None
    reason = f"the mean of the {split} rows lies {shift:.1f} standard deviations of the train rows from theirs"
    return Cure("model.instance_norm=true", f"the level drifts: {reason}")


def _fit_the_size(metrics: Metrics, training: Training) -> Cure | None:
    windows, parameters = training.get("windows"), metrics.get("parameters")
    if not windows or not parameters or parameters < PARAMETERS_A_WINDOW * windows:
        return None
    batch_size, epochs = training.get("batch_size"), training.get("max_epochs")
    overrides = _smaller_model(training)
    if batch_size and epochs and math.ceil(windows / batch_size) * epochs < ENOUGH_STEPS:
        if batch_size > SMALL_BATCH:
            overrides.append(f"data.batch_size={SMALL_BATCH}")
        steps = math.ceil(windows / min(batch_size, SMALL_BATCH))
        if (enough := math.ceil(ENOUGH_STEPS / steps)) > epochs:
            overrides += _epochs(enough, training)
    reason = f"{parameters:,} parameters are learned from {windows:,} train windows"
    return Cure(" ".join(overrides), reason) if overrides else None


def _smaller_model(training: Training) -> list[str]:
    """Widths near SMALL_MODEL, of which each head has as many; none for a model that is as small or has no width."""
    heads, widths = training.get("n_heads") or 1, {}
    widths["d_model"] = heads * max(1, SMALL_MODEL // heads)
    widths["d_ff"] = 2 * widths["d_model"]
    if (training.get("d_model") or 0) <= widths["d_model"]:
        return []
    own = {"d_model": training.get("d_model"), "d_ff": training.get("d_ff")}
    return [f"model.{key}={width}" for key, width in widths.items() if (own[key] or 0) > width]


def _train_longer(best_epoch: int | None, training: Training) -> Cure | None:
    if best_epoch is None or best_epoch != training.get("max_epochs"):
        return None
    return Cure(" ".join(_epochs(3 * best_epoch, training)), f"its last epoch, {best_epoch}, was its best")


def _smaller_steps(best_epoch: int | None, training: Training) -> Cure | None:
    lr, epochs = training.get("lr"), training.get("max_epochs")
    if best_epoch != 1 or not lr or epochs == 1:
        return None
    return Cure(f"optim.lr={lr / 10:.3g}", "its first epoch was its best")


def _epochs(number: int, training: Training) -> list[str]:
    return [f"trainer.max_epochs={number}", *([SPREAD] if training.get("schedule") in SHRINKING else [])]
