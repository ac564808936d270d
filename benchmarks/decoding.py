"""Forecasting step by step, with and without the cache of keys and values."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks import ours
from benchmarks.fresh import in_own_process, measured
from benchmarks.setting import Setting, Sizes
from forecast.config.compose import composed


def compare(
    setting: Setting,
    *,
    model: str,
    seq_len: int,
    pred_lens: Sequence[int],
    batch: int,
    tell: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """Seconds, memory and computed rows of a forecast of a batch with and without the cache, a row a pred_len."""
    rows = []
    for pred_len in pred_lens:
        row: dict[str, Any] = {"model": model, "batch": batch, "seq_len": seq_len, "pred_len": pred_len}
        for how in ("cached", "uncached"):
            row[how] = in_own_process(
                forecast, setting, model=model, seq_len=seq_len, pred_len=pred_len, batch=batch, how=how
            )
        tell(row)
        rows.append(row)
        if any("failed" in row[how] for how in ("cached", "uncached")):
            break
    return rows


def forecast(setting: Setting, *, model: str, seq_len: int, pred_len: int, batch: int, how: str) -> dict[str, float]:
    """Seconds of a forecast, its memory, and how many rows of a window its last map computes."""
    sizes = Sizes(seq_len=seq_len, label_len=0, pred_len=pred_len, batch=batch)
    config = composed([f"model={model}", "model.decoder_layers=2"]).values
    built: Any = ours.model_of(config, sizes).to(setting.device).eval()
    given = ours.random_batch(sizes, setting.device)
    rows: list[int] = []
    built.head.register_forward_hook(lambda _, taken, __: rows.append(taken[0].shape[1]))
    call = built.forecast if how == "cached" else built.forecast_uncached

    def run() -> None:
        rows.clear()
        with torch.inference_mode():
            call(given.past, given.past_known, given.future_known)

    return {**measured(run, setting), "rows": sum(rows)}
