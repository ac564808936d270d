"""The forecasts that every model is compared with: last value, seasonal naive, the mean of the train rows, two linear
maps fitted at once, and exponential smoothing.

Where most values of a target are 0, the mean of the last season too.

Each is a model of the group `model` too, or what it computes. They see the targets' own past alone, the ridge the
columns that are known in advance too; a look-back longer than seq_len reaches into earlier rows, of any split.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data.prepare import Prepared
from forecast.data.seasonality import mostly_zero, seasonal_period
from forecast.evaluation.fitting import rows_to_fit
from forecast.models.base import FittingRows, ForecastModel, WindowShape
from forecast.models.naive import LastValue, SeasonalNaive, SeasonMean, TrainMean
from forecast.models.ridge import Ridge
from forecast.models.smoothing import QuickSmoothing
from forecast.ops.ridge import LinearMap, ridge_maps

# Of the closed-form NLinear, as a share of the mean variance of its regressors: keeps the system solvable.
NLINEAR_STRENGTH = 1e-3
# What a checkpoint keeps of the fitted ones, so that an evaluation needs no train rows, and what they are called.
WEIGHTS = {"nlinear_weight": "closed_form_nlinear", "ridge_weight": "ridge"}
RIDGE_EFFECT = "ridge_effect"  # of the covariates, where there are any
TRAIN_MEAN = "train_mean"  # both the key in a checkpoint and the name
SMOOTHING, SMOOTHED = "smoothing", "smoothing_rows"  # its settings; its look-back, clip and seasons
MOST_SMOOTHED = 25_000  # windows of the test, of each target: what takes two seconds


def as_weight(linear: LinearMap) -> Float[Tensor, "P L"]:
    """A map, whose rows sum to one, as a checkpoint has it: the bias stands where the weight of the last row would."""
    return torch.cat([linear.weight[..., :-1], linear.bias.unsqueeze(-1)], dim=-1)


def linear_model(
    window: WindowShape,
    weight: Float[Tensor, "*maps P L"],
    effect: Float[Tensor, "maps P M"] | None = None,
) -> Ridge:
    """The model of maps as a checkpoint has them, float64: one for all columns, or (maps, P, L) one each.

    effect: what weighs the covariates' regressors; None: the map reads the targets' past alone.
    """
    if effect is None:
        window = replace(window, covariates=(), facts=())
    ridge = Ridge(window=window, look_back=weight.shape[-1])
    maps = weight.reshape(-1, *weight.shape[-2:])
    last = 1 - maps[..., :-1].sum(-1, keepdim=True)
    ridge.set_maps(torch.cat([maps[..., :-1], last], -1), maps[..., -1], effect)
    return ridge.requires_grad_(False)


def window_shape(data: Prepared) -> WindowShape:
    """The sizes of the data's windows, for models without a start token."""
    covariates = data.covariate_sizes
    return WindowShape(
        n_columns=data.n_columns,
        targets=tuple(data.targets),
        n_known=data.n_known,
        seq_len=data.seq_len,
        label_len=0,
        pred_len=data.pred_len,
        covariates=covariates,
        facts=tuple(range(len(data.covariates), len(covariates))),
    )


def season(data: Prepared) -> int | None:
    """Steps in a season: what is known of the data, else that which people expect of their frequency."""
    return data.season or seasonal_period(data.frame.freq)


def fitting_rows(data: Prepared, *, recent: int | None = None) -> FittingRows:
    """What a fitted model may see: the scaled targets, and where a forecast may begin; recent: as `Prepared` has it."""
    return rows_to_fit(replace(data, recent=recent), period=season(data))


def fit_nlinear(data: Prepared, rows: FittingRows | None = None) -> Float[Tensor, "P L"]:
    """NLinear by least squares, L = seq_len, over all train windows and targets, as `as_weight` has it.

    rows: those of the data, where they are known. Zeng et al. 2023, "Are Transformers Effective for Time Series
    Forecasting?", where gradient descent fits it.
    """
    rows = rows or fitting_rows(data)
    starts = rows.origins("train", data.seq_len) - data.seq_len
    sums = rows.sums(rows.series, starts, data.seq_len + data.pred_len)
    (linear,) = ridge_maps(sums, data.seq_len, naive="last", strengths=(NLINEAR_STRENGTH,))
    return as_weight(linear)


def fit_baselines(data: Prepared, *, ridge: bool = True) -> dict[str, Tensor]:
    """What is fitted of the baselines, by its names in a checkpoint: TRAIN_MEAN, the keys of WEIGHTS, RIDGE_EFFECT,
    SMOOTHING and SMOOTHED.

    ridge: whether that one and the smoothing are wanted, which take longest. Without NLinear for a panel in which no
    train window lies whole in its series, without the smoothing where it would have many windows to forecast.
    """
    rows = fitting_rows(data)
    whole = len(rows.origins("train", data.seq_len)) > 0
    fits = {TRAIN_MEAN: rows.train_mean(), **({"nlinear_weight": fit_nlinear(data, rows)} if whole else {})}
    if ridge:
        fits |= fit_ridge(data, rows)
    if ridge and len(data.origins("test")) * len(data.targets) <= MOST_SMOOTHED:
        fits |= fit_smoothing(data, rows)
    return fits


def fit_smoothing(data: Prepared, rows: FittingRows) -> dict[str, Tensor]:
    """What the smoothing among the baselines has chosen, by its names in a checkpoint."""
    smoothing = QuickSmoothing(window=window_shape(data))
    options = smoothing.fit(rows)
    settings, of_rows = options["fitted"], [smoothing.rows, smoothing.clip, *smoothing.seasons]
    return {
        key: torch.tensor(values, dtype=torch.float64) for key, values in ((SMOOTHING, settings), (SMOOTHED, of_rows))
    }


def fit_ridge(data: Prepared, rows: FittingRows) -> dict[str, Tensor]:
    """The weights of the ridge among the baselines, and of its covariates, by their names in a checkpoint."""
    ridge = Ridge(window=window_shape(data), columns=None if data.covariate_sizes else "shared")
    ridge.fit(rows)
    linear = LinearMap(ridge.weight.detach().double(), ridge.bias.detach().double())
    if ridge.regressors is None:
        return {"ridge_weight": as_weight(linear)[0]}
    return {"ridge_weight": as_weight(linear), RIDGE_EFFECT: ridge.effect.detach().double()}


def make_baselines(
    data: Prepared, *, fitted: Mapping[str, Tensor] | None = None, offset: int = 0
) -> dict[str, ForecastModel]:
    """The baselines for forecasts that begin `offset` steps after their windows, by their names in metrics.json.

    fitted: as `fit_baselines` gives them; those that are missing have no baseline. An unknown season makes the
    seasonal one a last value.
    """
    window = window_shape(data)
    seasonal = SeasonalNaive(window=window, period=season(data))
    seasonal.offset = offset
    baselines: dict[str, ForecastModel] = {"last_value": LastValue(window=window), "seasonal_naive": seasonal}
    if any(mostly_zero(data.frame.values[:, target]) for target in data.targets):
        baselines["season_mean"] = SeasonMean(window=window, period=season(data))
    fitted = fitted or {}
    if TRAIN_MEAN in fitted:
        constant = TrainMean(window=window)
        constant.mean = fitted[TRAIN_MEAN]
        baselines[TRAIN_MEAN] = constant
    for key in (key for key in WEIGHTS if key in fitted):
        effect = fitted.get(RIDGE_EFFECT) if key == "ridge_weight" else None
        baselines[WEIGHTS[key]] = linear_model(window, fitted[key], effect)
    if SMOOTHING in fitted:
        rows, clip, *seasons = fitted[SMOOTHED].cpu().tolist()
        options = {"look_back": int(rows), "clip": clip, "seasons": list(map(int, seasons))}
        smoothing = QuickSmoothing(window=window, **options, fitted=fitted[SMOOTHING].cpu().tolist())
        baselines[SMOOTHING] = smoothing.to(fitted[SMOOTHING].device)
    return baselines


def baseline_look_backs(fitted: Mapping[str, Tensor]) -> dict[str, int]:
    """How many rows the fitted baselines read that read a number of their own."""
    read = {WEIGHTS[key]: fitted[key].shape[-1] for key in fitted.keys() & WEIGHTS.keys()}
    return read | ({SMOOTHING: int(fitted[SMOOTHED][0])} if SMOOTHING in fitted else {})
