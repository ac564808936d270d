"""What a checkpoint holds of a panel: in its entry `data` what it holds of one series, the scale of each in `panel`."""

import logging
from dataclasses import asdict

import numpy as np

from forecast.data.panel.saved_scale import SavedScale
from forecast.data.prepare import Prepared
from forecast.data.time_features import feature_names
from forecast.training.told_columns import told_columns

log = logging.getLogger(__name__)
NAMED = 5  # of the series that were left out


def describe_panel(data: Prepared, source: dict[str, str | None]) -> dict[str, object]:
    """Where the data came from, what the model must know of them, and which series were left out.

    source: name, path and checksum. The scaler is the mean of those of the series, for a reader who asks what size
    the values have.
    """
    frame, left_out = data.frame, data.left_out()
    for reason, names in left_out.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        first = ", ".join(names[:NAMED]) + more
        log.warning("%d of %d series left out (%s): %s", len(names), len(frame), reason, first)
    known = [*feature_names(frame.freq, data.encoding), *(["padded"] if data.pad else []), *data.covariates]
    known += [] if frame.facts is None else frame.facts.names
    return {
        **source,
        "columns": list(frame.columns),
        "targets": data.target_names,
        "known": known,
        **told_columns(data),
        "freq": frame.freq,
        "time_format": frame.time_format,
        "season": data.season,
        "scaler": {
            "columns": list(frame.columns),
            "mean": data.scaler.mean.mean(0).tolist(),
            "std": data.scaler.std.mean(0).tolist(),
        },
        "splits": {},
        "windows": {name: len(data.windows(name)) for name in data.splits},
        "scaling": data.scaler.how,
        "trained_until": panel_until(data),
        "gaps": asdict(frame.repair),
        "series": {
            "count": len(frame),
            "rows": int(frame.offsets[-1]),
            "shortest": int(frame.lengths.min()),
            "longest": int(frame.lengths.max()),
            "cells_made_up": 0 if frame.measured is None else int(np.count_nonzero(~frame.measured)),
            "left_out": {reason: {"count": len(names), "first": names[:NAMED]} for reason, names in left_out.items()},
        },
    }


def panel_until(data: Prepared) -> str:
    """The time of the last train row of any series."""
    frame = data.frame
    ends = data.splits["train"].stop - frame.offsets[:-1] + frame.steps
    return str(frame.calendar()[max(0, int(ends.max()) - 1)])


def panel_entry(data: Prepared) -> dict[str, object]:
    """The scale of each series, how a forecast is to be written, and whether windows begin before their series."""
    frame = data.frame
    return {
        "scale": SavedScale.of(data.scaler, frame.ids).state(),
        "id_column": frame.id_column,
        "time_column": frame.time_column,
        "pad": data.pad,
    }
