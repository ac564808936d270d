"""Small boosted trees, series that have something for them to find, and their windows."""

import numpy as np
import torch
from models.fitting import fitting_rows

from forecast.models.base import WindowShape
from forecast.models.boosted_trees import BoostedTrees

L, P, WEEK, N, TRAIN, VAL = 11, 5, 7, 1499, 997, 1249
GENERATOR = torch.Generator().manual_seed(0)
DAYS = torch.arange(N) % WEEK
CALENDAR = torch.stack([DAYS / (WEEK - 1) - 0.5], 1)
SIZES = {"trees": 40, "leaves": 7, "learning_rate": 0.3}


def window(**sizes):
    given = {"n_columns": 1, "targets": (0,), "n_known": 1, "seq_len": L, "label_len": 0, "pred_len": P}
    return WindowShape(**{**given, **sizes})


def rows(series, *, known=CALENDAR, train=TRAIN, pred_len=P, **more):
    def origins(split, look_back):
        first, end = {"train": (look_back, train), "val": (max(train, look_back), VAL)}[split]
        return np.arange(first, end - pred_len + 1)

    seasons = {"period": WEEK, "seasons": (WEEK,)}
    return fitting_rows(series, origins, pred_len, known=known, **{**seasons, **more})


def noise(*columns, scale=0.1, generator=GENERATOR):
    return scale * torch.randn(N, *columns, generator=generator, dtype=torch.float64)


def flips(signs=(1, 1, 1, -1, -1, 1, -1), noisy=0.2):
    """Each week a wave of its own sign: what the last value says of the next depends on the day, and on no sum."""
    generator = torch.Generator().manual_seed(1)
    sign = 4.0 * torch.randint(2, (N // WEEK + 1, 1), generator=generator, dtype=torch.float64) - 2
    wave = torch.tensor(signs)[DAYS][:, None] * sign[torch.arange(N) // WEEK]
    return wave + noise(1, scale=noisy, generator=generator)


def model(shape=None, **options):
    return BoostedTrees(window=shape or window(), **{**SIZES, **options})


def fitted(series, shape=None, *, of=None, **options):
    made = model(shape, **options)
    made.fit(rows(series) if of is None else of)
    return made


def windows_of(made, series, *, known=CALENDAR, first=VAL):
    """All windows whose forecast begins after val, as a model takes them, and their truth."""
    begins = torch.arange(max(first, made.look_back), N - made.window.pred_len + 1)[:, None]
    past, future = begins + torch.arange(-made.look_back, 0), begins + torch.arange(made.window.pred_len)
    return (series[past].float(), known[past], known[future]), series[future][:, :, list(made.window.targets)].float()


@torch.no_grad()
def error(made, series, **more):
    given, truth = windows_of(made, series, **more)
    return (made(*given) - truth).square().mean().item()


def assert_same(one, other):
    states = [made.state_dict() for made in (one, other)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
