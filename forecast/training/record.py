"""What a checkpoint holds beside Lightning's part: all that evaluating and forecasting need, in plain values.

`checkpoint.validate` checks it when it is read.
"""

import logging
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import cast

import lightning
import numpy
import pandas
import torch
from torch import Tensor, nn

import forecast
from forecast.checkpoint.formats import RECORD
from forecast.checkpoint.load import WEIGHTS_PREFIX
from forecast.checkpoint.record import PanelRecord, Record
from forecast.config.commit import commit
from forecast.config.run_config import RunConfig
from forecast.config.trust import own_code, trusted
from forecast.data.prepare import Prepared
from forecast.data.recorded_rows import RecordedRows
from forecast.data.sources import Source
from forecast.data.time_features import feature_names
from forecast.evaluation.naive_errors import naive_errors
from forecast.run_folder.shapes import DataRecord
from forecast.training.panel_record import describe_panel, panel_entry, panel_until
from forecast.training.told_columns import told_columns

log = logging.getLogger(__name__)


def versions() -> dict[str, str]:
    """The versions that a result depends on, and the number of threads: other threads round sums otherwise."""
    return {
        "forecast": forecast.__version__,
        "commit": commit(),
        **own_code(trusted()),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "lightning": lightning.__version__,
        "numpy": numpy.__version__,
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
    described = (
        describe_data(config, source, data)
        if data.frame.id_column is None
        else describe_panel(data, source.describe(data.frame))
    )
    return Record(
        versions=versions(),
        config=config,
        choices=choices,
        data=cast(DataRecord, described),
        panel=None if data.frame.id_column is None else cast(PanelRecord, panel_entry(data)),
        rows=RecordedRows.of(data.frame, data.splits).state(),
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
    """The time of the last train row."""
    return panel_until(data)


def describe_data(config: RunConfig, source: Source, data: Prepared) -> dict[str, object]:
    """Where the data came from, what the model must know of them, what was filled in and the windows that it cost."""
    left_out = {name: data.windows(name).left_out for name in ("train", "val", "test")}
    if any(left_out.values()):
        counts = ", ".join(f"{count} of {name}" for name, count in left_out.items())
        log.info("data.gaps=%s: windows left out beside gaps: %s", data.frame.repair.policy, counts)
    scaler = data.scaler
    if constant := [name for name, flag in zip(data.frame.columns, scaler.constant[0], strict=True) if flag]:
        log.warning("Constant in the train rows, so not scaled (std 1): %s", ", ".join(constant))
    return {
        **source.describe(data.frame),
        "columns": list(data.frame.columns),
        "targets": data.target_names,
        "known": [*feature_names(data.frame.freq, config.encoding), *data.covariates],
        **told_columns(data),
        "freq": data.frame.freq,
        "time_format": data.frame.time_format,
        "season": data.season,
        "scaler": scaler.alone(data.frame.columns).state(),
        "scaling": scaler.how,
        "splits": {name: [rows.alone.start, rows.alone.stop] for name, rows in data.splits.items()},
        "trained_until": trained_until(data),
        "naive": naive_errors(data, "train").state(),
        "gaps": {**asdict(data.frame.repair), "windows_left_out": left_out},
    }
