"""What a column is worth to a model: how its forecasts and their error change when the column is shuffled.

Breiman 2001, "Random Forests", section 10: permutation importance. Here windows exchange a column's whole course, past
and future, so that each still sees one that is possible, but not its own.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from forecast.data.prepare import Prepared
from forecast.data.windows import Batch
from forecast.evaluation.evaluate import (
    Protocol,
    chunk_on,
    evenly_spaced,
    exact_float32,
    forecast_of,
    longest_look_back,
    look_back_of,
)

Use = Literal["without effect", "useless", "useful"]


Importance = dict[str, Any]  # of a column: by how much forecasts change, and the error grows
MOST_WINDOWS, FEWEST_WINDOWS = 1024, 64
MOST_BYTES = 64_000_000  # of the windows, which are held together
# Weights times steps of all passes: about half a minute of one core.
MOST_WORK = 400_000_000_000
SHUFFLES = 3
EFFECT = 1e-6  # standard deviations of the train rows: less is rounding
SURE = 2.0  # standard errors above 0 from which an importance counts


@torch.inference_mode()
def column_use(
    model: nn.Module, data: Prepared, *, split: str, protocol: Protocol, roles: Mapping[str, str]
) -> dict[str, dict[str, object]]:
    """Of each column in `roles` (its name -> its role) what it is worth on windows of a split.

    role; change: the mean absolute change of the forecast when windows exchange the column, scaled units; importance:
    how much their MAE grows by it, scaled; error: its standard error; use: "without effect" where no forecast changes,
    "useless" where the importance is not above SURE standard errors, else "useful". The model is in evaluation mode and
    on the data's device. The same windows and exchanges for every column, whatever the others are.
    """
    batch, independent = chosen_windows(model, data, split=split, protocol=protocol, columns=len(roles))
    if len(batch.target) < 2:  # nothing to exchange
        return {}
    rows, generator = look_back_of(model, data), torch.Generator().manual_seed(0)
    orders = [_exchange(len(batch.target), generator) for _ in range(SHUFFLES)]
    with exact_float32():
        forecast = _forecasts(model, batch, rows)
        error = _errors(forecast, batch)
        uses = {}
        for name, role in roles.items():
            changes, differences = [], []
            for order in orders:
                shuffled = _forecasts(model, exchanged(batch, data, name, order), rows)
                changes.append((shuffled - forecast).abs().double())
                differences.append(_errors(shuffled, batch) - error)
            uses[name] = {"role": role, **_summary(torch.stack(changes), torch.stack(differences), independent)}
    return uses


def chosen_windows(
    model: nn.Module, data: Prepared, *, split: str, protocol: Protocol, columns: int
) -> tuple[Batch, int]:
    """Evenly spaced windows of a split that count, and how many of them share no forecast step with another."""
    windows = data.windows(split, look_back=longest_look_back([model], data))
    counted = protocol.counted(windows)
    work = sum(weight.numel() for weight in model.parameters()) * (data.seq_len + data.pred_len)
    passes = 1 + SHUFFLES * columns
    affordable = min(MOST_WINDOWS, max(FEWEST_WINDOWS, MOST_WORK // max(1, work * passes)))
    most = max(2, min(affordable, MOST_BYTES // windows.window_bytes))
    numbers = counted[evenly_spaced(len(counted), most)]
    apart = len(counted) * protocol.stride // data.pred_len
    independent = len(numbers) if len(data.frame) > 1 else max(2, min(len(numbers), apart))
    return windows.__getitems__(numbers), independent


def exchanged(batch: Batch, data: Prepared, name: str, order: Tensor) -> Batch:
    """The windows (B of them) with the column of this name of the windows `order` (B,)."""

    def with_column(values: Tensor, column: int) -> Tensor:
        changed = values.clone()
        changed[..., column] = values[order.to(values.device)][..., column]
        return changed

    known = (*data.covariates, *facts_of(data))
    if name in known:
        column = data.n_known - len(known) + known.index(name)
        past_known, future_known = (with_column(part, column) for part in (batch.past_known, batch.future_known))
        return batch._replace(past_known=past_known, future_known=future_known)
    return batch._replace(past=with_column(batch.past, data.frame.columns.index(name)))


def roles_of(data: Prepared) -> dict[str, str]:
    """The role of each column beside the targets, by its name."""
    observed = [name for name in data.frame.columns[: data.n_columns] if name not in data.target_names]
    return {
        **dict.fromkeys(observed, "past"),
        **{name: "past" if name in data.hidden else "known" for name in data.covariates},
        **dict.fromkeys(facts_of(data), "static"),
    }


def facts_of(data: Prepared) -> tuple[str, ...]:
    """The facts of the series of a panel: the last known features."""
    return () if data.frame.facts is None else data.frame.facts.names


def _exchange(count: int, generator: torch.Generator) -> Tensor:
    """An order of `count` windows in which none keeps its place: a random cycle."""
    cycle = torch.randperm(count, generator=generator)
    order = torch.empty_like(cycle)
    order[cycle] = cycle.roll(1)
    return order


def _forecasts(model: nn.Module, batch: Batch, rows: int) -> Tensor:
    chunk = chunk_on(batch.target.device)
    parts = [None if part is None else torch.split(part, chunk) for part in batch]
    count = -(-len(batch.target) // chunk)
    batches = [Batch(*(None if part is None else part[i] for part in parts)) for i in range(count)]  # type: ignore[arg-type]
    return torch.cat([forecast_of(model, some, rows) for some in batches])


def _errors(forecast: Tensor, batch: Batch) -> Tensor:
    """The mean absolute error of each window (B,), over the cells that were measured."""
    error = (forecast - batch.target).abs().double()
    if batch.measured is None:
        return error.mean((1, 2))
    measured = batch.measured.double()
    return (error * measured).sum((1, 2)) / measured.sum((1, 2)).clamp_min(1.0)


def _summary(changes: Tensor, differences: Tensor, independent: int) -> Importance:
    """Changes (R, B, P, T), differences (R, B): of R exchanges of B windows."""
    by_window = differences.mean(0).cpu().numpy()
    importance, error = float(by_window.mean()), float(by_window.std(ddof=1) / np.sqrt(independent))
    use: Use = "useful" if importance > SURE * error else "useless"
    if float(changes.max()) <= EFFECT:
        use = "without effect"
    return {"change": float(changes.mean()), "importance": importance, "error": error, "use": use}
