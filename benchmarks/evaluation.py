"""The test split by the same weights: ours by `forecast.evaluation`, the authors' by their test loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import ours, timing
from benchmarks.data import floats, their_loader
from benchmarks.peers import Informer2020, authors
from benchmarks.setting import Setting, Sizes
from forecast.errors import UserError
from forecast.evaluation.evaluate import Evaluation, Protocol, evaluate, fit_baselines
from forecast.export.informer2020.names import copy_in

# Both draw keys at random, each its own: the errors agree so far.
TOLERANCE = 0.02


def compare(setting: Setting, *, csv: Path, sizes: Sizes) -> dict[str, Any]:
    """Seconds of both, in turns, and the two errors. Raises UserError when these differ: the work was not the same.

    Equal work: every test window once, float32, data read and model built beforehand. Ours computes beside it three
    baselines and the errors by step, column and window, which is part of its time.
    """
    peer = authors(setting.peers)
    torch.manual_seed(0)
    model = ours.model_of(ours.config_of("informer2020", sizes), sizes)
    errors: dict[str, float] = {}
    theirs = None
    if peer is not None:
        their_model = peer.model(sizes, "cpu")
        copy_in(model, their_model.state_dict())
        theirs = their_test(peer, their_model.to(setting.device), setting, csv=csv, sizes=sizes, errors=errors)
    contenders = {"ours": our_test(model.to(setting.device), setting, csv=csv, sizes=sizes, errors=errors)}
    if peer is not None and theirs is not None:
        contenders[peer.name] = theirs
    seconds = timing.turns(
        contenders, rounds=setting.rounds, budget=setting.budget, warm_up=0, synchronise=setting.synchronise()
    )
    figures = timing.compared(seconds, [peer.name] if peer else [])
    for name in figures:
        figures[name]["mse"] = errors[name]
        if abs(errors[name] / errors["ours"] - 1.0) > TOLERANCE:
            raise UserError(
                f"evaluation: with the same weights the MSE of {name} is {errors[name]:.4f}, ours "
                f"{errors['ours']:.4f}, more than {TOLERANCE:.0%} apart: the two do not compute the same. Check the "
                "checkout and the file."
            )
    return {**sizes.plain(), "contenders": figures}


def our_test(
    model: torch.nn.Module, setting: Setting, *, csv: Path, sizes: Sizes, errors: dict[str, float]
) -> Callable[[], None]:
    """What evaluate.py does once data and model are there."""
    data = ours.read(csv, sizes)
    weight, device = fit_baselines(data), torch.device(setting.device)
    model.eval()

    def run() -> None:
        found: Evaluation = evaluate(
            model,
            data,
            split="test",
            protocol=Protocol(),
            nlinear_weight=weight,
            batch_size=sizes.batch,
            device=device,
        )
        errors["ours"] = found.errors.overall(data.target_std)["scaled"]["mse"]

    return run


def their_test(
    peer: Informer2020,
    model: torch.nn.Module,
    setting: Setting,
    *,
    csv: Path,
    sizes: Sizes,
    errors: dict[str, float],
) -> Callable[[], None]:
    """Their loop: no torch.no_grad, forecasts and truths gathered as arrays; but no window is dropped."""
    dataset = peer.dataset(csv, "test", sizes)

    def run() -> None:
        model.eval()
        forecasts, truths = [], []
        for items in their_loader(dataset, sizes, train=False):
            forecast, truth = peer.processed(model, sizes, floats(items, setting.device))
            forecasts.append(forecast.detach().cpu().numpy())
            truths.append(truth.detach().cpu().numpy())
        made, true = np.concatenate(forecasts), np.concatenate(truths)
        errors[peer.name] = float(np.mean((made - true) ** 2))

    return run
