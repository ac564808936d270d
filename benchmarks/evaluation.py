"""The test split by the same weights: ours by `forecast.evaluation`, the authors' by their test loop."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import ours, timing
from benchmarks.peers import Informer2020, authors
from benchmarks.setting import Figures, Setting, Sizes, print_now
from forecast.apps.import_informer2020.command import copy_in
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines
from forecast.evaluation.evaluate import Protocol, evaluate

# Both draw keys at random, each its own: the errors agree so far.
TOLERANCE = 0.02


def run(setting: Setting) -> Figures:
    """Seconds of both, in turns, and the two errors. Raises UserError when these differ: the work was not the same.

    Equal work: every test window once, float32, data read and model built beforehand. Ours computes beside it three
    baselines and the errors by step, column and window, which is part of its time.
    """
    sizes, csv, errors = Sizes(**setting.sizes), ours.series_file(setting), dict[str, float]()
    data, device = ours.prepared(csv, sizes), torch.device(setting.device)
    weight = fit_baselines(data)
    torch.manual_seed(0)
    model = ours.model_of("informer2020", sizes)

    def our_test() -> None:
        how: dict[str, Any] = {
            "protocol": Protocol(),
            "fitted": weight,
            "batch_size": sizes.batch,
            "device": device,
        }
        evaluation = evaluate(model.to(device).eval(), data, split="test", **how)
        errors["ours"] = evaluation.errors.mse() or 0.0  # each window has a truth

    contenders: dict[str, Callable[[], None]] = {"ours": our_test}
    if peer := authors(setting):
        their_model = peer.model(sizes, "cpu")
        copy_in(model, their_model.state_dict())
        contenders[peer.name] = their_test(peer, their_model.to(device), csv, setting, errors)
    figures = timing.compared(timing.turns(contenders, setting, warm_up=0), [peer.name] if peer else [])
    for name, error in errors.items():
        figures[name]["mse"] = error
        if abs(error / errors["ours"] - 1.0) > TOLERANCE:
            raise UserError(
                f"evaluation: with the same weights the MSE of {name} is {error:.4f}, ours {errors['ours']:.4f}, more "
                f"than {TOLERANCE:.0%} apart: the two do not compute the same. Check the checkout and the file."
            )
    print_now(*(f"MSE of {name}: {error:.4f}" for name, error in errors.items()))
    return {"evaluation": {**asdict(sizes), "contenders": figures}}


def their_test(
    peer: Informer2020, model: nn.Module, csv: Path, setting: Setting, errors: dict[str, float]
) -> Callable[[], None]:
    """The authors' test loop, which puts its MSE into `errors`.

    No torch.no_grad, forecasts and truths gathered as arrays, as in theirs; but no window is dropped.
    """
    sizes = Sizes(**setting.sizes)
    dataset = peer.dataset(csv, "test", sizes)

    def test() -> None:
        model.eval()
        pairs = [
            [tensor.detach().cpu().numpy() for tensor in peer.processed(model, sizes, batch)]
            for batch in peer.batches(dataset, sizes, setting.device, train=False)
        ]
        forecasts, truths = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
        errors[peer.name] = float(np.mean((forecasts - truths) ** 2))

    return test
