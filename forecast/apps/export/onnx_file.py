"""A model as one ONNX file: rows and times in, forecasts and intervals out, all in the units of the data.

The scaler, the calendar, the floor and the margins of the intervals are inside; whoever runs it needs no torch.
"""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from forecast.apps.common.intervals import saved_calibration
from forecast.apps.export.program import (
    TRACED_WINDOWS,
    FileEntry,
    check_has_graph,
    graph_entry,
    noise_times,
    noise_windows,
    reason_of,
    sizes_of,
    trace,
)
from forecast.checkpoint.load import Checkpoint
from forecast.data.values.time_features import feature_rules
from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.evaluation.conformal import calibrated_interval
from forecast.models.base import ForecastModel
from forecast.text.overrides import install

ONNX = "model.onnx"
OPSET = 18  # the one that torch writes of itself: others are made of it
OUTPUTS = ("forecast", "lower", "upper")
DAY = 86_400  # seconds
EPOCH = (
    719_468  # days from 1 March of the year 0 to 1970: dates count from there, so that no division is of less than 0
)


def write_onnx(checkpoint: Checkpoint, folder: Path, *, batch: int | None) -> FileEntry:
    """Writes the file and returns what config.json says of it.

    Raises UserError without the packages of the extra, when the model cannot become one, and when the file, run by
    onnxruntime, forecasts anything else.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  what torch writes ONNX by
    except ImportError as error:
        raise UserError(f"ONNX needs onnxscript and onnxruntime ({error}). Install them: {install('onnx')}") from error
    check_has_graph(checkpoint)
    if checkpoint.record.series.pad:
        raise UserError(
            "the model reads windows that begin before their series (data.short=pad), and this file takes whole ones. "
            "Export it with --format program."
        )
    if checkpoint.record.series.id_column is not None:
        raise UserError(
            "the model is of many series, each with a scale and facts of its own, and this file holds one scale. "
            "Export it with --format program, which takes scaled windows."
        )
    model, sizes = InUnits(checkpoint, checkpoint.model()), sizes_of(batch)
    windows = raw_windows(checkpoint, model, max(sum(sizes), TRACED_WINDOWS))
    expected = InUnits(checkpoint, checkpoint.model())
    path, names = folder / ONNX, [part["name"] for part in inputs_of(checkpoint, model, "B")]
    program = trace(model, windows, batch=batch)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of torch, on what it has optimised
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions of ONNX to come
            torch.onnx.export(
                program,
                (),
                path,
                input_names=names,
                output_names=OUTPUTS[: model.n_outputs],
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # of many kinds, by what the model does
        cause: BaseException = error
        while cause.__cause__ is not None:  # the outer ones say no more than that it failed
            cause = cause.__cause__
        raise UserError(
            f"torch.onnx cannot write this model. It says: {reason_of(cause)}. Export it with --format program."
        ) from error
    finally:
        logging.disable(before)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    first, differences = 0, []
    for size in sizes:
        some = [part[first : first + size] for part in windows]
        theirs = session.run(None, {name: part.numpy() for name, part in zip(names, some, strict=True)})
        with torch.no_grad():
            ours = expected(*some)
        for their, our in zip(theirs, ours, strict=True):
            scale = model.target_std if our.ndim == 3 else model.target_std.unsqueeze(-1)
            differences.append(float(((torch.from_numpy(their) - our) / scale).abs().max()))
        first += size
    shown = "B" if batch is None else batch
    return {
        **graph_entry(path, batch, float(np.max(differences))),  # NaN if one is
        "opset": OPSET,
        "inputs": inputs_of(checkpoint, model, shown),
        "outputs": outputs_of(checkpoint, model, shown),
        "levels": list(model.levels),
    }


class InUnits(nn.Module):
    """A model that takes rows in the units of the data and times, and gives forecasts in these units.

    Past (B, L, C), time (B, L + P) seconds since 1970 as the clock of the data shows them, known (B, L + P, K) -> the
    forecast (B, P, T) and, of a calibrated model, the ends of its intervals (B, P, T, levels) twice: float64.
    """

    mean: Tensor
    std: Tensor
    target_mean: Tensor
    target_std: Tensor
    floor: Tensor

    def __init__(self, checkpoint: Checkpoint, model: ForecastModel) -> None:
        super().__init__()
        self.model, self.calibration = model, saved_calibration(checkpoint)
        self.rules = feature_rules(checkpoint.data["freq"], checkpoint.encoding)
        self.n_columns, self.n_hidden = model.window.n_columns, len(checkpoint.hidden)
        scaler, targets = checkpoint.scaler, list(model.window.targets)
        floor = np.full(len(scaler.mean), -np.inf) if checkpoint.scale.floor is None else checkpoint.scale.floor
        for name, values in (("mean", scaler.mean), ("std", scaler.std)):
            self.register_buffer(name, torch.from_numpy(values.copy()))
            self.register_buffer(f"target_{name}", torch.from_numpy(values[targets]))
        self.register_buffer("floor", torch.from_numpy(floor[targets]))

    @property
    def levels(self) -> tuple[float, ...]:
        """Of the intervals, in per cent."""
        return () if self.calibration is None else self.calibration.levels

    @property
    def n_outputs(self) -> int:
        """How many tensors come out."""
        return 3 if self.levels else 1

    def forward(self, past: Tensor, time: Tensor, known: Tensor | None = None) -> tuple[Tensor, ...]:
        """As the class says."""
        c, length = self.n_columns, past.shape[1]
        scaled = ((past - self.mean[:c]) / self.std[:c]).float()
        parts = [calendar(time, self.rules)]
        if known is not None:
            ahead = ((known - self.mean[c:]) / self.std[c:]).float()
            if self.n_hidden:  # of these the future is not known
                shown = ahead[:, length:, : -self.n_hidden]
                unknown = torch.zeros_like(ahead[:, length:, -self.n_hidden :])
                ahead = torch.cat([ahead[:, :length], torch.cat([shown, unknown], dim=2)], dim=1)
            parts.append(ahead)
        features = torch.cat(parts, dim=2)
        floor = ((self.floor - self.target_mean) / self.target_std).float().expand(1, 1, -1)
        batch = Batch(scaled, features[:, :length], features[:, length:], scaled, scaled, floor=floor)
        if self.calibration is None:
            point = batch.bounded(self.model(*batch[:3]))
            return (self.in_units(point),)
        return tuple(map(self.in_units, calibrated_interval(self.calibration, self.model, batch, length)))

    def in_units(self, scaled: Tensor) -> Tensor:
        """Scaled values (B, P, T), or ends of intervals (B, P, T, levels), in the units of the data; float64."""
        mean, std, floor = (
            part if scaled.ndim == 3 else part.unsqueeze(-1) for part in (self.target_mean, self.target_std, self.floor)
        )
        return torch.maximum(scaled.double() * std + mean, floor)


def calendar(time: Tensor, rules: Sequence[dict[str, str | int]]) -> Tensor:
    """Seconds since 1970 (B, N) -> known features (B, N, F) float32, as `time_features` gives them of such times."""
    parts = [time.new_zeros((*time.shape, 0), dtype=torch.float32)] if not rules else []
    for rule in rules:
        number = counted(time, str(rule["attribute"]))
        if "last" in rule:
            first, last = int(rule["first"]), int(rule["last"])
            parts.append((((number - first).double() / (last - first)) - 0.5).float().unsqueeze(2))
        else:
            parts.append((number // int(rule.get("every", 1))).float().unsqueeze(2))
    return torch.cat(parts, dim=2)


def counted(time: Tensor, attribute: str) -> Tensor:
    """What pandas counts of a time by this attribute, of seconds since 1970; whole numbers.

    Dates by Hinnant, "chrono-Compatible Low-Level Date Algorithms", whose years begin in March.
    """
    since = time + EPOCH * DAY
    within = {"second": (1, 60), "minute": (60, 60), "hour": (3600, 24)}
    if attribute in within:
        size, many = within[attribute]
        return since // size % many
    days = since // DAY
    weekday = (days + 2) % 7  # 1 March of the year 0 was a Wednesday
    if attribute == "day_of_week":
        return weekday
    if attribute == "week":  # of the year that its Thursday is in
        return (date(days - weekday + 3)["day_of_year"] - 1) // 7 + 1
    return date(days)[attribute]


def date(days: Tensor) -> dict[str, Tensor]:
    """Month, day and day of the year of days since 1 March of the year 0, which are not below 0."""
    day = days % 146_097  # of an era of 400 years
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365  # of the era
    day = day - (365 * year + year // 4 - year // 100)  # since 1 March
    month = (5 * day + 2) // 153  # from March, 0
    new = (month >= 10).long()  # January and February belong to the next year of the calendar
    leap = ((year % 4 == 0) & ((year % 100 != 0) | (year == 0))).long()  # of the year in which this March lies
    return {
        "month": month + 3 - 12 * new,
        "day": day - (153 * month + 2) // 5 + 1,
        "day_of_year": day + 1 + (1 - new) * (59 + leap) - new * 306,
    }


def raw_windows(checkpoint: Checkpoint, model: InUnits, count: int) -> list[Tensor]:
    """Windows of noise as `InUnits` takes them; count: how many."""
    past, past_known, future_known = noise_windows(checkpoint, count)
    length, c = past.shape[1] + future_known.shape[1], model.n_columns
    seconds = torch.from_numpy(noise_times(checkpoint, count).as_unit("s").asi8.copy())
    time = seconds[torch.arange(count).unsqueeze(1) + torch.arange(length)]
    known = torch.cat([past_known, future_known], dim=1)[..., len(model.rules) :].double()
    windows = [past.double() * model.std[:c] + model.mean[:c], time]
    return windows + ([known * model.std[c:] + model.mean[c:]] if known.shape[2] else [])


def inputs_of(checkpoint: Checkpoint, model: InUnits, windows: str | int) -> list[FileEntry]:
    """What the file is called with."""
    columns, length = checkpoint.data["columns"], model.model.look_back
    steps, c = length + checkpoint.config.pred_len, model.n_columns
    inputs: list[FileEntry] = [
        {
            "name": "past",
            "shape": [windows, length, c],
            "dtype": "float64",
            "meaning": f"the last rows, in the units of the data: {', '.join(columns[:c])}",
        },
        {
            "name": "time",
            "shape": [windows, steps],
            "dtype": "int64",
            "meaning": "of these rows and the steps that follow: seconds since 1970-01-01 00:00, by the data's clock",
        },
    ]
    if len(columns) > c:
        words = "".join(f"; {name}: 1 to {len(of)} for {', '.join(of)}" for name, of in checkpoint.categories.items())
        unread = (
            f"; what stands at the steps of {', '.join(checkpoint.hidden)} is not read" if checkpoint.hidden else ""
        )
        meaning = f"of the same: {', '.join(columns[c:])}{words}{unread}"
        inputs.append(
            {"name": "known", "shape": [windows, steps, len(columns) - c], "dtype": "float64", "meaning": meaning}
        )
    return inputs


def outputs_of(checkpoint: Checkpoint, model: InUnits, windows: str | int) -> list[FileEntry]:
    """What comes out."""
    targets = checkpoint.data["targets"]
    shape: list[str | int] = [windows, checkpoint.config.pred_len, len(targets)]
    meanings = [
        f"in the units of the data: {', '.join(targets)}",
        "the lower ends of intervals at `levels`",
        "the upper",
    ]
    levels = [len(model.levels)]
    return [
        {"name": name, "shape": [*shape, *levels] if i else shape, "dtype": "float64", "meaning": meaning}
        for i, (name, meaning) in enumerate(zip(OUTPUTS, meanings, strict=True))
    ][: model.n_outputs]
