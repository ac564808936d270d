"""What a checkpoint holds beside Lightning's part: all that evaluating and forecasting need, in plain values."""

import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import cast

import lightning
import numpy as np
import pandas
import torch
from torch import Tensor, nn

import forecast
from forecast.checkpoint.load import WEIGHTS_PREFIX
from forecast.checkpoint.record import RECORD, Record, SeriesRecord
from forecast.config.allow_list import own_code, trusted
from forecast.config.run_config import RunConfig
from forecast.data.prepare import Prepared
from forecast.data.roles import PADDED
from forecast.data.saved_scale import RecordedRows, SavedScale
from forecast.data.sources import CsvSource, Source
from forecast.data.values.calendar import feature_names
from forecast.evaluation.metrics import naive_errors
from forecast.run_folder.commit import commit
from forecast.run_folder.shapes import Block, DataRecord

log = logging.getLogger(__name__)
NAMED = 5  # of the series that were left out


def versions() -> dict[str, str]:
    """The versions that a result depends on, and the number of threads: other threads round sums otherwise."""
    return {
        "forecast": forecast.__version__,
        "commit": commit(),
        **own_code(trusted()),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "lightning": lightning.__version__,
        "numpy": np.__version__,
        "pandas": pandas.__version__,
        "threads": str(torch.get_num_threads()),
    }


def make_record(
    config: RunConfig,
    choices: Mapping[str, str | None],
    source: Source,
    data: Prepared,
    fitted: Mapping[str, Tensor],
) -> Record:
    """The record of a training as far as it is known before the model is built; `complete_record` adds the rest.

    choices: the chosen option of each config group. fitted: the weights of the baselines, so that an evaluation needs
    no train rows.
    """
    return Record(
        versions=versions(),
        config=config,
        choices=choices,
        data=describe_data(source, replace(data, recent=config.data.recent)),
        series=describe_series(data),
        fits=fitted,
    )


def complete_record(record: Record, model: nn.Module) -> Record:
    """The record as it is saved, with the size of the model."""
    return replace(record, parameters=sum(p.numel() for p in model.parameters() if p.requires_grad))


def weights_only_content(model: nn.Module, record: Record, *, step: int = 0, epoch: int = 0) -> dict[str, object]:
    """The content of a checkpoint of weights alone, not of a training of ours: no training can go on from it.

    step, epoch: until when the weights were trained.
    """
    return {
        "state_dict": {f"{WEIGHTS_PREFIX}{name}": value for name, value in model.state_dict().items()},
        RECORD: complete_record(record, model).saved(),
        "global_step": step,
        "loops": {"fit_loop": {"epoch_progress": {"current": {"started": epoch}}}},
    }


def trained_until(data: Prepared) -> str:
    """The time of the last train row of any series."""
    frame = data.frame
    train = data.splits["train"]
    ends = np.where(train.stop > train.first, train.stop - frame.offsets[:-1] + frame.steps, 0)
    return str(frame.shown(frame.calendar()[[max(0, int(ends.max()) - 1)]])[0])


def describe_series(data: Prepared) -> SeriesRecord:
    """What a checkpoint must know of each series."""
    frame = data.frame
    scale = SavedScale.of(data.scaler, frame.ids, naive_errors(data, "train"))
    rows, named = RecordedRows.of(frame, data.splits), {"id_column": frame.id_column, "time_column": frame.time_column}
    return SeriesRecord(scale=scale, rows=rows, pad=data.pad, **named)


def describe_data(source: Source, data: Prepared) -> DataRecord:
    """Where the data came from, what the model must know of them, what was filled in and what was left out."""
    frame, windows = data.frame, {name: data.windows_of(data.origins(name)) for name in data.splits}
    left_out = {name: len(windows[name].origins) - len(windows[name]) for name in ("train", "val", "test")}
    if any(left_out.values()):
        counts = ", ".join(f"{count} of {name}" for name, count in left_out.items())
        log.info("data.gaps=%s: windows left out beside gaps: %s", frame.repair.policy, counts)
    unscaled = (data.scaler.std == 1).all(axis=0) & (data.scaler.how != "none")
    names = (frame.columns[number] for number in np.flatnonzero(unscaled).tolist())
    if constant := [name for name in names if name not in frame.categories]:
        log.warning("Constant in the train rows, so not scaled (std 1): %s", ", ".join(constant))
    # of several series each has its own
    alone = data.splits if len(frame) == 1 else {}
    splits = {name: [int(rows.first[0]), int(rows.stop[0])] for name, rows in alone.items()}
    return cast(
        DataRecord,
        {
            "name": source.name,
            "path": frame.name if isinstance(source, CsvSource) else None,
            "checksum": frame.checksum,
            "columns": list(frame.columns),
            "targets": data.target_names,
            "known": known_names(data),
            **covariate_entries(data),
            **floor_entry(data),
            "freq": frame.freq,
            "time_format": frame.time_format,
            "season": data.season,
            "scaling": data.scaler.how,
            "splits": splits,
            "windows": {name: len(part) for name, part in windows.items()},
            "trained_until": trained_until(data),
            "gaps": {**asdict(frame.repair), "windows_left_out": left_out},
            "series": series_read(data),
        },
    )


def floor_entry(data: Prepared) -> dict[str, object]:
    """floor: of the targets that have one, nothing where none has."""
    floor = data.scaler.floor
    if floor is None:
        return {}
    return {"floor": {data.frame.columns[i]: float(floor[i]) for i in data.targets if np.isfinite(floor[i])}}


def known_names(data: Prepared) -> list[str]:
    """The known features: the calendar, the flag of padded rows, the columns that are known in advance, facts."""
    frame = data.frame
    names = [*feature_names(frame.freq, data.encoding), *([PADDED] if data.pad else []), *data.covariates]
    return names + ([] if frame.facts is None else [*frame.facts.names])


def series_read(data: Prepared) -> Block:
    """How many series there are, how long they are, and which have no window."""
    frame, left_out = data.frame, data.left_out()
    for reason, names in left_out.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        first = ", ".join(names[:NAMED]) + more
        log.warning("%d of %d series left out (%s): %s", len(names), len(frame), reason, first)
    return {
        "count": len(frame),
        "rows": int(frame.offsets[-1]),
        "shortest": int(frame.lengths.min()),
        "longest": int(frame.lengths.max()),
        "cells_made_up": 0 if frame.measured is None else int(np.count_nonzero(~frame.measured)),
        "left_out": {reason: {"count": len(names), "first": names[:NAMED]} for reason, names in left_out.items()},
    }


def covariate_entries(data: Prepared) -> dict[str, object]:
    """Of columns known in advance and facts, nothing where there are none.

    covariates: of each None for a number, or its words; hidden, facts.
    """
    frame, entries = data.frame, dict[str, object]()
    words = {name: _words(frame.categories.get(name)) for name in data.covariates}
    if data.frame.facts is not None:
        facts, scale = data.frame.facts, data.fact_scale
        assert scale is not None
        words |= {name: _words(facts.categories.get(name)) for name in facts.names}
        entries["facts"] = {"columns": list(facts.columns), "mean": scale[0].tolist(), "std": scale[1].tolist()}
    return {
        **({"covariates": words} if words else {}),
        **({"hidden": list(data.hidden)} if data.hidden else {}),
        **entries,
    }


def _words(words: Sequence[str] | None) -> list[str] | None:
    return None if words is None else list(words)
