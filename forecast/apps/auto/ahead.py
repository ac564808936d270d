"""The forecast that was asked for, beside the end of its history, for a page."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forecast.apps.common.continuation import continuation
from forecast.apps.common.future import future_source
from forecast.apps.common.inputs import find_device, trained_source
from forecast.checkpoint.load import load_checkpoint
from forecast.evaluation.evaluate import evenly_spaced
from forecast.evaluation.predict import split_ends

SHOWN = 25  # series of a panel


def ahead(checkpoint: Path, *, future: str | None, level: Sequence[float] | None) -> dict[str, np.ndarray]:
    """The forecast after the data that a checkpoint was trained on, of a panel of some series, in original units.

    As `results.example_windows`, without truth and baselines: past (W, L, T), forecast (W, P, T), levels (A,), lower,
    upper (W, P, T, A), timestamps (W, L + P), columns (T,), of a panel series (W,). future, level: of the forecast.
    """
    trained = load_checkpoint(checkpoint)
    source, targets = trained_source(trained, root=None), list(trained.data["targets"])
    later = future_source(trained, source, future)
    ends = continuation(trained, source, device=find_device("auto"), future=later, level=level)
    lengths = ends.frame.lengths[ends.series]
    whole = np.flatnonzero(lengths >= min(ends.seq_len, int(lengths.max())))
    shown = [int(whole[i]) for i in evenly_spaced(len(whole), SHOWN)]
    forecast = ends.some(shown)
    length = min(ends.seq_len, int(lengths[shown].min()))
    times = [ends.frame.timestamps(number, ends.pred_len)[-length - ends.pred_len :] for number in forecast.series]
    arrays = {
        "past": np.stack([ends.past(number)[-length:] for number in forecast.series]),
        "forecast": forecast.values[..., : len(targets)],
        "timestamps": np.stack([stamps.tz_localize(None).to_numpy("datetime64[ns]") for stamps in times]),
        "columns": np.array(targets),
    }
    if of_levels := split_ends(forecast.values, len(targets), ends.levels)[::-1]:
        arrays["levels"] = np.array([level for level, _, _ in of_levels])
        arrays |= {name: np.stack([end[i] for end in of_levels], axis=-1) for i, name in ((1, "lower"), (2, "upper"))}
    if ends.frame.id_column is not None:
        arrays["series"] = np.array([str(ends.frame.ids[number]) for number in forecast.series])
    return arrays
