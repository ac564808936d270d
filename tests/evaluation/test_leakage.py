"""The leakage guard lets the real models through and catches planted leaks, each by its name."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from models.small import window_shape
from models.test_model_laws import MODELS, small_model
from torch import nn

from forecast.data.frame import SeriesFrame
from forecast.data.gaps import Repair
from forecast.data.prepare import prepare
from forecast.data.scaling import Scaler
from forecast.data.split import ShareSplit, split_rows
from forecast.errors import UserError
from forecast.evaluation import leakage
from forecast.evaluation.leakage import (
    check_forecasts,
    check_leakage,
    check_scaler,
    check_splits,
    check_training_outputs,
)
from forecast.models.base import ForecastModel

N, L, P = 131, 19, 5  # L and P are those of models.small
COLUMNS = ("load", "wind", "sun")
CPU = torch.device("cpu")
LENGTHS = {"seq_len": L, "pred_len": P}
SKIP = "checks.leakage=false trains without this check"


def frame_of(values, filled=None, repair=None):
    changes = {"filled": filled, "repair": repair} if repair else {}
    timestamps = pd.date_range("2021-03-01", periods=len(values), freq="h")
    return SeriesFrame(values, timestamps, COLUMNS, "h", "own.csv", **changes)


def made_data(frame=None, **changes):
    values = np.random.default_rng(0).normal(size=(N, 3)).cumsum(0)
    frame = frame or frame_of(values + np.array([5.0, -40.0, 1e6]))
    settings = {"splits": split_rows(frame, ShareSplit(), **LENGTHS), "targets": (0, 1, 2), "encoding": "timeF"}
    return prepare(frame, **LENGTHS, **{**settings, **changes})


@pytest.fixture
def data():
    return made_data()


@pytest.fixture
def plain():
    """A real model without a leak."""
    return small_model("dlinear")


def leak(model, data, check=check_forecasts):
    with pytest.raises(UserError) as error:
        check(model, data, device=CPU)
    return str(error.value)


# the real models


@pytest.mark.parametrize("name", MODELS)
def test_every_model_passes(name, data):
    check_leakage(small_model(name), data, device=CPU)


@pytest.mark.parametrize("attention", ["prob", "prob_causal", "lsh"])
@pytest.mark.parametrize("eval_seed", ["0", "null"])
def test_attentions_that_draw_pass_also_with_fresh_draws(attention, eval_seed, data):
    check_leakage(small_model("informer", f"attention={attention}", f"eval_seed={eval_seed}"), data, device=CPU)


def test_a_model_that_decodes_step_by_step_passes(data):
    check_leakage(small_model("informer", "attention=full", "model.decode=autoregressive"), data, device=CPU)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_models_of_fewer_targets_pass_on_every_split(split):
    data = made_data(targets=(2, 0))
    check_leakage(small_model("gpt", window={"targets": (2, 0)}), data, device=CPU, split=split)


@pytest.mark.parametrize("policy", ["interpolate", "mask", "forward_fill"])
def test_repaired_data_pass(policy, plain):
    filled = np.zeros(N, dtype=bool)
    filled[40:43] = filled[111] = True
    frame = frame_of(np.random.default_rng(0).normal(size=(N, 3)), filled, Repair(policy=policy))
    check_leakage(plain, made_data(frame), device=CPU)


# the model


class Leaky(ForecastModel):
    """A linear model with a leak beside it: `peek` of its inputs is added to every forecast."""

    def __init__(self, peek):
        super().__init__(window_shape())
        self.linear = nn.Linear(L, P)
        self.peek = peek

    def forecast(self, past, past_known, future_known):
        return self.linear(past.mT).mT + self.peek(past, past_known, future_known)


def behind(past):
    """The batch's memory, which holds the future too: (B, L + P, C + F)."""
    return past._base.view(len(past), L + P, -1)


def test_a_model_that_reads_the_memory_behind_its_input_is_caught(data):
    said = leak(Leaky(lambda past, *_: behind(past)[:, L:, :3]), data)
    assert "origin at 2021-03-01 18:00:00 changes when the rows after it become noise" in said
    assert "step 1, column 'load'" in said and "Leaky reads the future" in said and SKIP in said


def test_a_model_that_reads_the_memory_behind_a_known_feature_is_caught(data):
    """One number, and a small share of it: the first step of one column that changes is named."""

    def peek(past, past_known, future_known):
        out = torch.zeros(len(past), P, 3)
        out[:, 2, 1] = 1e-5 * behind(past_known)[:, L + 4, 0]
        return out

    assert "first in step 3, column 'wind'" in leak(Leaky(peek), data)


@pytest.mark.parametrize("row", [-1, slice(60, None)], ids=["last row", "mean of later rows"])
def test_a_model_that_keeps_a_reference_to_the_series_is_caught(row, data):
    assert "reads the future" in leak(Leaky(lambda *_: data.series[row, 0].mean()), data)


@pytest.mark.parametrize("window", [0, -1])
def test_a_model_that_leaks_in_the_first_or_the_last_window_alone_is_caught(window, data):
    windows = data.windows("train")
    number = range(len(windows))[window]
    that = windows[number].past
    said = leak(Leaky(lambda past, *_: data.series[-1, 0] if torch.equal(past, that) else 0.0), data)
    assert f"origin at {data.frame.timestamps[number + L - 1]} " in said


def test_a_leak_in_evaluation_mode_alone_is_caught(data):
    model = Leaky(lambda *_: 0.0 if model.training else data.series[-1, 0]).train()
    assert "reads the future" in leak(model, data)


def test_the_windows_of_the_split_are_checked(data):
    """The first forecast row of test is what no train or val window has in its future but as a later row."""
    said = leak(
        Leaky(lambda past, *_: behind(past)[:, L:, :3]), data, lambda *a, **k: check_forecasts(*a, split="test", **k)
    )
    assert f"a test window with its origin at {data.frame.timestamps[data.splits['test'].start - 1]}" in said


def test_forecasts_that_are_no_numbers_are_no_leak(data):
    check_forecasts(Leaky(lambda *_: torch.nan), data, device=CPU)


# the training


class Taught(Leaky):
    """Learns each step from the step before it; `shift` 0 lets it see the step itself, -1 the one after."""

    def __init__(self, shift, rows=P, weight=1.0):
        super().__init__(lambda *_: 0.0)
        self.shift, self.rows, self.weight = shift, rows, weight

    def training_outputs(self, past, past_known, future_known, future):
        both = torch.cat([past, future], dim=1)
        seen = both.roll(self.shift, 1)[:, -self.rows :] * self.weight
        return seen, both[:, -self.rows :]


@pytest.mark.parametrize("rows", [P, L + P - 1])
def test_training_outputs_of_the_steps_before_pass(rows, data):
    check_training_outputs(Taught(1, rows), data, device=CPU)


def test_training_outputs_that_see_the_step_itself_are_caught(data):
    said = leak(Taught(0, weight=1e-5), data, check_training_outputs)
    assert "origin at 2021-03-01 18:00:00, the training's prediction of step 1, column 'load', changes" in said
    assert "true steps from 1 on become noise" in said and "Taught.training_outputs" in said and SKIP in said


def test_training_outputs_that_see_the_last_step_alone_are_caught(data):
    class Last(Taught):
        def training_outputs(self, past, past_known, future_known, future):
            seen, truth = super().training_outputs(past, past_known, future_known, future)
            seen[:, -1, 1] += future[:, -1, 1]
            return seen, truth

    assert f"prediction of step {P}, column 'wind'" in leak(Last(1), data, check_training_outputs)


def test_training_outputs_that_leak_in_the_last_window_alone_are_caught(data):
    class Once(Taught):
        def training_outputs(self, past, past_known, future_known, future):
            seen, truth = super().training_outputs(past, past_known, future_known, future)
            seen[-1, 0] += future[-1, 0]
            return seen, truth

    origin = data.frame.timestamps[data.splits["train"].stop - P - 1]
    assert f"origin at {origin}, the training's prediction of step 1," in leak(Once(1), data, check_training_outputs)


def test_a_row_of_the_past_that_sees_the_future_is_caught(data):
    class Early(Taught):
        def training_outputs(self, past, past_known, future_known, future):
            seen, truth = super().training_outputs(past, past_known, future_known, future)
            seen[:, 0] += future[:, 0]
            return seen, truth

    assert f"prediction of step {2 - L}, column 'load'" in leak(Early(1, L + P - 1), data, check_training_outputs)


def test_a_decoder_whose_rows_are_one_step_late_is_caught(data):
    """gpt, but each row reads the very step that it predicts."""
    model = small_model("gpt")
    rows = model.rows
    model.rows = lambda values, known: rows(values.roll(-1, 1), known)
    assert "prediction of step" in leak(model, data, check_training_outputs)
    check_forecasts(model, data, device=CPU)  # the forecast itself is honest


def test_a_leak_in_training_mode_alone_is_caught(data):
    class Sly(Taught):
        def training_outputs(self, past, past_known, future_known, future):
            self.shift = 0 if self.training else 1
            return super().training_outputs(past, past_known, future_known, future)

    assert "training" in leak(Sly(1).eval(), data, check_training_outputs)


def test_training_outputs_that_read_the_memory_behind_the_past_are_caught(data):
    class Behind(Taught):
        def training_outputs(self, past, past_known, future_known, future):
            return behind(past)[:, L:, :3].clone(), future

    assert "prediction of step 1" in leak(Behind(1), data, check_training_outputs)


# the data


def test_a_scaler_fitted_on_all_rows_is_caught(data):
    fitted = Scaler.fit(data.frame.values, COLUMNS)
    with pytest.raises(
        UserError, match=r"scaler: the mean of column 'load' is .* that of the 91 train rows, 2021-03-01"
    ):
        check_scaler(made_data(scaler=fitted))


@pytest.mark.parametrize("rows", [90, 92])
def test_one_row_more_or_less_is_caught(rows, data):
    with pytest.raises(UserError, match=SKIP):
        check_scaler(made_data(scaler=Scaler.fit(data.frame.values[:rows], COLUMNS)))


@pytest.mark.parametrize("factor", [1 + 1e-7, np.nan])
@pytest.mark.parametrize("what", ["mean", "std"])
def test_a_statistic_that_is_a_little_wrong_is_named(what, factor, data):
    wrong = getattr(data.scaler, what).copy()
    wrong[1] *= factor
    with pytest.raises(UserError, match=f"the {what} of column 'wind'"):
        check_scaler(replace(data, scaler=replace(data.scaler, **{what: wrong})))


def test_constant_columns_and_large_numbers_pass():
    values = np.random.default_rng(1).normal(size=(N, 3)) * [1e-3, 1.0, 1e9] + [1e8, 0.1, -1e12]
    values[:, 1] = 0.1
    values[100:, 1] = 5.0  # constant in the train rows
    check_scaler(made_data(frame_of(values)))


def test_splits_that_share_rows_are_caught(data):
    check_splits(data)
    shared = {"train": range(91), "val": range(88, 105), "test": range(105, N)}
    with pytest.raises(
        UserError, match=r"splits: 3 rows, 2021-03-04 16:00:00 to 2021-03-04 18:00:00, are forecast in "
    ):
        check_splits(replace(data, splits=shared))


def test_a_known_feature_made_of_values_is_caught(data, plain):
    series = data.series.clone()
    series[:-1, 3] = series[1:, 0]  # the first feature is the next value
    said = leak(plain, replace(data, series=series))
    assert "inputs: " in said and "known feature 1 at 2021-03-01 00:00:00 is not made of the frame's" in said


def test_a_calendar_that_reads_values_is_caught(data, plain, monkeypatch):
    """Were `prepare` to make known features of values, the guard would see it."""
    honest = leakage.prepare

    def leaky(frame, **settings):
        made = honest(frame, **settings)
        made.series[:, 4] += torch.from_numpy(frame.values[:, 0]).float().flip(0).cumsum(0).flip(0)
        return made

    monkeypatch.setattr(leakage, "prepare", leaky)
    calendar = leaky(data.frame, splits=data.splits, targets=(0, 1, 2), encoding="timeF", scaler=data.scaler, **LENGTHS)
    whole = replace(data, series=calendar.series)
    said = leak(plain, whole)
    assert "known feature 2 at" in said


@pytest.mark.parametrize("kind", ["scaler", "splits", "forecasts", "training"])
def test_all_checks_are_made(kind, data, plain):
    model = {"forecasts": Leaky(lambda *_: data.series[-1, 0]), "training": Taught(0)}.get(kind, plain)
    if kind == "scaler":
        data = made_data(scaler=Scaler.fit(data.frame.values, COLUMNS))
    if kind == "splits":
        data = replace(data, splits=data.splits | {"val": range(90, 105)})
    assert leak(model, data, check_leakage).startswith(f"leakage check, {kind}: ")


# what the guard leaves behind


@pytest.mark.parametrize("model", ["informer", "patchtst", "gpt"])
def test_model_data_and_random_generators_are_left_as_they_were(model, data):
    checked = small_model(model).train()
    checked.get_submodule(next(name for name, _ in checked.named_children())).eval()
    modes = [part.training for part in checked.modules()]
    state = {key: value.clone() for key, value in checked.state_dict().items()}
    series, values = data.series.clone(), data.frame.values.copy()
    drawn = torch.get_rng_state()
    check_leakage(checked, data, device=CPU)
    assert [part.training for part in checked.modules()] == modes
    assert all(torch.equal(value, state[key]) for key, value in checked.state_dict().items())
    assert torch.equal(data.series, series) and np.array_equal(data.frame.values, values)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(p.grad is None for p in checked.parameters())


def test_the_series_is_restored_when_the_model_fails_or_leaks(data):
    series = data.series.clone()

    def fail(*_):
        if not torch.equal(data.series, series):
            raise RuntimeError("failed in the noise")
        return 0.0

    with pytest.raises(RuntimeError, match="failed in the noise"):
        check_forecasts(Leaky(fail), data, device=CPU)
    assert torch.equal(data.series, series)
    leak(Leaky(lambda *_: data.series[-1, 0]), data)
    assert torch.equal(data.series, series)


def test_a_model_can_be_trained_after_the_check(data):
    """What it keeps between calls, such as a pattern's mask, must be fit for gradients."""
    model = small_model("sparse_transformer", window={"seq_len": L})
    check_leakage(model, data, device=CPU)
    batch = data.windows("train").__getitems__([0, 1])
    model.training_outputs(batch.past, batch.past_known, batch.future_known, batch.future)[0].sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_rows_far_behind_the_origin_are_not_made_anew(monkeypatch, plain, data):
    monkeypatch.setattr(leakage, "NOISY_ROWS", 7)
    made_rows = []
    honest = leakage.prepare

    def counted(frame, **settings):
        made_rows.append(len(frame))
        return honest(frame, **settings)

    monkeypatch.setattr(leakage, "prepare", counted)
    check_forecasts(plain, data, device=CPU)
    assert set(made_rows) == {L + 7}
    assert "reads the future" in leak(Leaky(lambda past, *_: behind(past)[:, L:, :3]), data)
