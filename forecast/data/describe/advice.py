"""What fits a file: whether its level drifts, and an Informer that its rows can train in minutes on two cores."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from forecast.data.seasonality import Lengths
from forecast.data.values.cells import FloatArray

INTERMITTENT, MANY_ZEROS = 0.5, 0.1  # shares of zeros: with fewer than the first the median is none
DRIFT = 0.5  # standard deviations: around the mean of the train rows a forecast then errs by a quarter of the variance
FEW_WINDOWS, HARDLY_ANY_WINDOWS = 2_000, 500
FEWEST_WINDOWS = 10  # to train a network on
# Steps of windows that an Informer of the widths below is trained on in two to three minutes on one core; one that is
# only evaluated costs a third.
STEPS_TO_TRAIN = 6_000_000
EVALUATED = 1 / 3
MOST_EPOCHS, FEWEST_EPOCHS, FEWEST_BATCHES = 20, 2, 50
# Forecasts without overlap that the val rows hold: fewer cannot say of trees whether they help (docs/experiments.md,
# "What check-data advises").
ENOUGH_FORECASTS = 10
MOST_FORECAST_STEPS = 5_000_000  # of all columns of val and test windows: with trees a minute and a half on one core
UPDATES = 1_000  # of the weights: where the windows are few, more epochs than MOST_EPOCHS


class Drift(NamedTuple):
    """A column, and how far the val rows lie above (below: negative) the train rows in standard deviations of those."""

    column: str
    deviations: float


def find_drift(values: FloatArray, columns: Sequence[str], *, train: range, val: range) -> Drift | None:
    """The column whose level has moved most from the train to the val rows; None when none has, by DRIFT at least.

    values (N, C). The test rows are not read: they judge a model and choose nothing.
    """
    before, after = values[train.start : train.stop], values[val.start : val.stop]
    if not len(after):
        return None
    deviation = np.where(before.std(axis=0) > 0, before.std(axis=0), np.inf)
    shift = (after.mean(axis=0) - before.mean(axis=0)) / deviation
    farthest = int(abs(shift).argmax())
    return Drift(columns[farthest], float(shift[farthest])) if abs(shift[farthest]) >= DRIFT else None


def share_of_zeros(values: FloatArray) -> float:
    """How many of the values (N,) are 0; 0 where one is below, or where all others are alike. NaN is not looked at."""
    above = values[values > 0]
    differ = len(above) and above.min() < above.max()
    return float((values == 0).sum() / np.isfinite(values).sum()) if differ and not (values < 0).any() else 0.0


def mostly_zero(values: FloatArray) -> bool:
    """Whether values (N,) are intermittent."""
    return share_of_zeros(values) > INTERMITTENT


def fitted_model(
    windows: Mapping[str, int], lengths: Lengths, *, columns: int, intermittent: bool = False
) -> tuple[str, dict[str, object]]:
    """The model without gradient steps that fits so many val and test windows of `columns`, and its keys of train.

    intermittent: most values are 0, which then has the least absolute error. Boosted trees stand on a ridge; the val
    windows choose how many there are, none among the choices.
    """
    forecasts = (windows["val"] + lengths.pred_len - 1) // lengths.pred_len
    steps = (windows["val"] + windows["test"]) * lengths.pred_len * columns
    if forecasts < ENOUGH_FORECASTS or steps > MOST_FORECAST_STEPS:
        return "ridge", {}
    return "boosted_trees", {} if intermittent else {"model.error": "absolute"}


def informer_settings(windows: Mapping[str, int], lengths: Lengths, *, drifts: bool) -> dict[str, object]:
    """Keys of train for an Informer of a size that the train windows can fit, and a training of some minutes.

    windows: how many train, val and test hold. drifts: whether the level does. The fewer train windows, the narrower
    the model and the smaller the batches. Each is seen MOST_EPOCHS times, more often where that makes less than UPDATES
    steps, and less where it is more work than STEPS_TO_TRAIN; of a file too long for FEWEST_EPOCHS an epoch is a part.
    """
    train, val, test = windows["train"], windows["val"], windows["test"]
    width = 32 if train < HARDLY_ANY_WINDOWS else 64
    batch_size = 8 if train < HARDLY_ANY_WINDOWS else 16 if train < FEW_WINDOWS else 32
    affordable = STEPS_TO_TRAIN / sum(lengths) - EVALUATED * (val + test)
    affordable_epochs = int(affordable / (train + EVALUATED * val))
    epochs = min(max(affordable_epochs, FEWEST_EPOCHS), max(MOST_EPOCHS, UPDATES * batch_size // train))
    settings: dict[str, object] = {
        "model.d_model": width,
        "model.n_heads": 4,
        "model.d_ff": 2 * width,
        **({"model.instance_norm": True} if drifts or train < FEW_WINDOWS else {}),
        "data.batch_size": batch_size,
        "optim.lr": 1e-3,
        "schedule": "cosine",
        "trainer.max_epochs": epochs,
    }
    if epochs >= MOST_EPOCHS:  # the val rows are few, too: the best of their errors is known late
        settings["callbacks.early_stopping.patience"] = epochs // 5
    if affordable_epochs < FEWEST_EPOCHS:
        batches = int((affordable / FEWEST_EPOCHS - EVALUATED * val) / batch_size)
        settings["trainer.limit_train_batches"] = max(batches, FEWEST_BATCHES)
    return settings
