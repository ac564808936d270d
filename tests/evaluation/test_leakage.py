"""The leakage guard lets the real models through and catches planted leaks, each by its name."""

import re
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from data.csv_files import series_frame
from data.splits import split_rows
from models.small import window_shape
from models.test_model_laws import MODELS, small_model
from scales import all_rows
from torch import nn

from forecast.data import prepare as preparing
from forecast.data.grid import fill_cells
from forecast.data.panel import Repair
from forecast.data.prepare import prepare
from forecast.data.scaling import Scales
from forecast.data.split import ShareSplit, TargetRows
from forecast.errors import UserError
from forecast.evaluation import leakage, leakage_windows
from forecast.evaluation.leakage import (
    check_borders,
    check_forecasts,
    check_leakage,
    check_scaler,
    check_splits,
)
from forecast.evaluation.leakage_windows import NothingShown, affordable_windows, check_training_outputs
from forecast.models.base import ForecastModel

N, L, P = 131, 19, 5  # L and P are those of models.small
COLUMNS = ("load", "wind", "sun")
CPU = torch.device("cpu")
LENGTHS = {"seq_len": L, "pred_len": P}
SKIP = "checks.leakage=false trains without this check"


def frame_of(values, **repair):
    timestamps = pd.date_range("2021-03-01", periods=len(values), freq="h")
    return series_frame(values, timestamps, COLUMNS, "h", "own.csv", **repair)


def made_data(frame=None, **changes):
    frame = frame or frame_of(np.random.default_rng(0).normal(size=(N, 3)).cumsum(0) + np.array([5.0, -40.0, 1e6]))
    settings = {"splits": split_rows(frame, ShareSplit(), **LENGTHS), "targets": (0, 1, 2), "encoding": "timeF"}
    return prepare(frame, **LENGTHS, **settings | changes)


@pytest.fixture
def data():
    return made_data()


@pytest.fixture
def plain():
    """A real model without a leak."""
    return small_model("dlinear")


def leak(model, data, check=check_forecasts, **options):
    """The message of the check that catches a leak."""
    with pytest.raises(UserError) as error:
        check(model, data, device=CPU, **options)
    return str(error.value)


# the real models


DRAWING = [
    ("informer", f"attention={attention}", f"eval_seed={seed}")
    for attention in ("prob", "prob_causal", "lsh")
    for seed in ("0", "null")  # the same draws in each call, and fresh ones
]
STEP_BY_STEP = ("informer", "attention=full", "model.decode=autoregressive")


@pytest.mark.parametrize("choice", [*((name,) for name in MODELS), *DRAWING, STEP_BY_STEP], ids=" ".join)
def test_every_model_passes_also_one_that_draws_or_decodes_step_by_step(choice, data):
    check_leakage(small_model(*choice), data, device=CPU)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_models_of_fewer_targets_pass_on_every_split(split):
    data = made_data(targets=(2, 0))
    check_leakage(small_model("gpt", window={"targets": (2, 0)}), data, device=CPU, split=split)


@pytest.mark.parametrize("policy", ["interpolate", "mask", "forward_fill"])
def test_repaired_data_pass(policy, plain):
    missing = np.repeat(np.isin(np.arange(N), [40, 41, 42, 111])[:, None], 3, axis=1)
    values = np.where(missing, np.nan, np.random.default_rng(0).normal(size=(N, 3)))
    fill_cells(values, frame_of(values).timestamps(0).asi8, policy)
    frame = frame_of(values, missing=missing, repair=Repair(policy=policy))
    check_leakage(plain, made_data(frame), device=CPU)


def with_gaps(policy="interpolate", *, few_whole=True):
    """Data of a frame with gaps over the ends of train and val, as a reader fills it."""
    rng = np.random.default_rng(0)
    values, missing = rng.normal(size=(N, 3)), np.zeros((N, 3), bool)
    if few_whole:
        missing[np.arange(N), np.arange(N) % 3] = True
        missing[::L] = False
    missing[[88, 89, 90, 91, 92], 1] = missing[[103, 104, 105], 2] = True  # train ends at row 91, val at 105
    missing[[0, -1]] = False
    values[missing] = np.nan
    fill_cells(values, frame_of(values).timestamps(0).asi8, policy)
    return made_data(frame_of(values, missing=missing, repair=Repair(policy=policy)))


@pytest.mark.parametrize("few_whole", [True, False])
@pytest.mark.parametrize("policy", ["interpolate", "mask", "forward_fill"])
def test_gaps_over_the_ends_of_splits_pass(policy, few_whole):
    check_borders(with_gaps(policy, few_whole=few_whole))
    check_scaler(with_gaps(policy, few_whole=few_whole))


# the model


class Leaky(ForecastModel):
    """A linear model with a leak beside it: what `peek` makes of itself and its inputs is added to every forecast."""

    def __init__(self, data, peek):
        super().__init__(window_shape())
        self.linear = nn.Linear(L, P)
        self.data, self.peek = data, peek

    def forecast(self, past, past_known, future_known):
        return self.linear(past.mT).mT + self.peek(self, past, past_known)


def memory_of(past):
    """The memory that a batch is a view of, which holds the future too: (B, L + P, C + F)."""
    return past._base.view(len(past), L + P, -1)


def future(model, past, past_known):
    return memory_of(past)[:, L:, :3]


def last_row(model, past, past_known):
    return model.data.kept[-1, 0]


def a_bit_of_a_known_feature(model, past, past_known):
    out = torch.zeros(len(past), P, 3)
    out[:, 2, 1] = 1e-5 * memory_of(past_known)[:, L + 4, 0]
    return out


def in_window(number):
    def peek(model, past, past_known):
        return last_row(model, past, past_known) * torch.equal(past, model.data.windows("train")[number].past)

    return peek


FIRST, LAST = "2021-03-01 18:00:00", "2021-03-04 13:00:00"  # origins of train windows, the rows L - 1 and 91 - P - 1
LEAKS = {
    "the memory behind its input": (
        future,
        f"origin at {FIRST} changes when the rows of all series after it become noise, first",
    ),
    "and names the step": (future, f"step 1, column 'load'.*Leaky reads the future, .*{SKIP}"),
    "a bit of the memory behind a known feature": (a_bit_of_a_known_feature, "first in step 3, column 'wind'"),
    "the last row": (last_row, "reads the future"),
    "the mean of later rows": (lambda model, *_: model.data.kept[60:, 0].mean(), "reads the future"),
    "in the first window alone": (in_window(0), f"origin at {FIRST} "),
    "in the last window alone": (in_window(67), f"origin at {LAST} "),
    "in evaluation alone": (lambda model, *_: model.data.kept[-1, 0] * (not model.training), "reads the future"),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_model_that_reads_the_future_is_caught(kind, data):
    peek, message = LEAKS[kind]
    assert re.search(message, leak(Leaky(data, peek).train(), data))


def test_a_leak_below_the_floor_is_caught(data):
    """What a floor cuts is the same whatever a model reads: here all of it."""
    bounded = replace(data, scaler=replace(data.scaler, floor=np.full(data.n_columns, 1e30)))
    assert "reads the future" in leak(Leaky(bounded, last_row).train(), bounded)


def test_the_windows_of_the_split_are_checked(data):
    """The first forecast row of test is what no train or val window has in its future but as a later row."""
    origin = data.times_of(data.splits["test"].first - 1, np.zeros(1, int))[0]
    assert f"a test window with its origin at {origin}" in leak(Leaky(data, future), data, split="test")


def large_model(weights):
    """What says how long a model takes, and nothing else of it."""
    return SimpleNamespace(parameters=lambda: [torch.empty(weights, device="meta")])


@pytest.mark.parametrize(
    "weights, seq_len, pred_len, windows",
    [(11_000_000, 96, 24, 4), (11_000_000, 720, 720, 1), (11_000_000, 336, 336, 2), (10**12, 19, 5, 1), (0, 19, 5, 4)],
)
def test_a_training_waits_for_as_many_windows_as_take_a_second_or_two(weights, seq_len, pred_len, windows):
    lengths = SimpleNamespace(seq_len=seq_len, pred_len=pred_len)
    assert affordable_windows(large_model(weights), lengths) == windows


@pytest.mark.parametrize("kind", [kind for kind in LEAKS if "first window" not in kind])
def test_of_a_large_model_the_last_window_finds_the_same_leaks(kind, data, monkeypatch):
    monkeypatch.setattr(leakage_windows, "MOST_WORK", 0)
    message = LEAKS[kind][1].replace(FIRST, LAST)
    assert re.search(message, leak(Leaky(data, LEAKS[kind][0]).train(), data, check_leakage))


def test_a_leak_in_another_window_alone_is_left_to_the_command(data, monkeypatch):
    model = Leaky(data, in_window(0))
    monkeypatch.setattr(leakage_windows, "MOST_WORK", 0)
    check_leakage(model, data, device=CPU)
    assert f"origin at {FIRST} " in leak(model, data)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_of_forecasts_that_are_no_numbers_nothing_is_said(value, data):
    says = rf"leakage check, forecasts: .*origin at {FIRST} .*not finite.*optim.lr.*{SKIP}"
    with pytest.raises(NothingShown, match=says):
        check_forecasts(Leaky(data, lambda *_: value), data, device=CPU)
    with pytest.raises(NothingShown, match=r"leakage check, training: .*not finite.*optim.lr"):
        check_training_outputs(Leaky(data, lambda *_: value), data, device=CPU)


# the training


class Taught(Leaky):
    """Predicts each step as the step before it; in training, `seen` of these predictions see a bit of `of` the future.

    rows: how many of the last steps it predicts.
    """

    def __init__(self, seen=(), of=(), rows=L + P - 1):
        super().__init__(None, lambda *_: 0.0)
        self.seen, self.of, self.rows = seen, of, rows

    def training_outputs(self, past, past_known, future_known, future):
        both = torch.cat([past, future], dim=1)
        predicted = both.roll(1, 1)[:, -self.rows :].clone()
        if self.training and self.seen:
            predicted[self.seen] += 1e-4 * future[self.of]
        return predicted, both[:, -self.rows :]


@pytest.mark.parametrize("rows", [P, L + P - 1])
def test_training_outputs_of_the_steps_before_pass(rows, data):
    check_training_outputs(Taught(rows=rows), data, device=CPU)


@pytest.mark.parametrize(
    ("seen", "of", "message"),
    [
        (np.s_[:, -P:], np.s_[:], f"origin at {FIRST}, the training's prediction of step 1, column 'load', changes "),
        (np.s_[:, -P:], np.s_[:], f"true steps from 1 on become noise: Taught.training_outputs .*{SKIP}"),
        (np.s_[:, -1, 1], np.s_[:, -1, 1], f"prediction of step {P}, column 'wind'"),
        (np.s_[-1, -P], np.s_[-1, 0], f"origin at {LAST}, the training's prediction of step 1,"),
        (np.s_[:, 0], np.s_[:, 0], f"prediction of step {2 - L}, column 'load'"),
    ],
    ids=[
        "each step itself",
        "each step itself, of what",
        "the last",
        "the last window's first",
        "a past row the future",
    ],
)
def test_training_outputs_that_see_what_they_predict_are_caught(seen, of, message, data):
    assert re.search(message, leak(Taught(seen, of).eval(), data, check_training_outputs))


def test_a_decoder_whose_rows_are_one_step_late_is_caught(data):
    """gpt, but each row reads the very step that it predicts."""
    model = small_model("gpt")
    rows = model.rows
    model.rows = lambda values, known: rows(values.roll(-1, 1), known)
    assert "prediction of step" in leak(model, data, check_training_outputs)
    check_forecasts(model, data, device=CPU)  # the forecast itself is honest


def test_training_outputs_that_read_the_memory_behind_the_past_are_caught(data):
    class Behind(Taught):
        def training_outputs(self, past, past_known, future_known, future):
            return memory_of(past)[:, L:, :3].clone(), future

    assert "prediction of step 1" in leak(Behind(), data, check_training_outputs)


def fitted_on(rows):
    return lambda data: all_rows(data.frame.values[:rows], COLUMNS)


def with_wrong(what, factor):
    return lambda data: replace(data.scaler, **{what: getattr(data.scaler, what) * [1.0, factor, 1.0]})


@pytest.mark.parametrize(
    ("scaler", "message"),
    [
        (fitted_on(N), "scaler: the mean of column 'load' is .* that of the 91 train rows is"),
        (fitted_on(90), SKIP),
        (fitted_on(92), SKIP),
        *((with_wrong(w, f), f"the {w} of column 'wind'") for w in ("mean", "std") for f in (1 + 1e-7, np.nan)),
    ],
)
def test_a_scaler_of_other_rows_or_a_little_wrong_is_caught(scaler, message, data):
    with pytest.raises(UserError, match=message):
        check_scaler(replace(data, scaler=scaler(data)))


def test_constant_columns_and_large_numbers_pass():
    values = np.random.default_rng(1).normal(size=(N, 3)) * [1e-3, 1.0, 1e9] + [1e8, 0.1, -1e12]
    values[:, 1] = 0.1
    values[100:, 1] = 5.0  # constant in the train rows
    check_scaler(made_data(frame_of(values)))


@pytest.mark.parametrize("few_whole", [True, False])
def test_gaps_filled_over_the_end_of_a_split_are_caught(few_whole, monkeypatch):
    monkeypatch.setattr(preparing, "filled_within", lambda frame, splits: frame)
    borders = rf"a value of column 'wind' changes when the rows after train become other noise: .*{SKIP}"
    with pytest.raises(UserError, match=f"leakage check, borders: {borders}"):
        check_borders(with_gaps(few_whole=few_whole))


def test_a_gap_filled_over_the_end_of_val_is_caught(monkeypatch):
    honest = preparing.filled_within
    monkeypatch.setattr(preparing, "filled_within", lambda frame, splits: honest(frame, [next(iter(splits))]))
    with pytest.raises(UserError, match=r"a value of column 'sun' changes when the rows after val"):
        check_borders(with_gaps())


def test_what_is_fitted_on_rows_after_train_is_caught(data, monkeypatch):
    with monkeypatch.context() as patch:
        fit = Scales.fit
        later = lambda frame, how, first, stop, **options: fit(frame, how, first, stop + 1, **options)  # noqa: E731
        patch.setattr(Scales, "fit", later)
        with pytest.raises(UserError, match="borders: the scale's mean of column 'load' changes"):
            check_borders(data)
    honest = leakage.fit_nlinear
    val = data.splits["val"]
    late = TargetRows(val.first - L, val.stop)
    of_val = lambda data: honest(replace(data, splits={"train": late}))  # noqa: E731
    monkeypatch.setattr(leakage, "fit_nlinear", of_val)
    with pytest.raises(UserError, match="borders: the closed-form NLinear changes when the rows after train"):
        check_borders(data)


def test_the_baseline_is_fitted_anew_on_the_last_windows_alone(data):
    with mock.patch.object(leakage, "fit_nlinear", wraps=leakage.fit_nlinear) as fit:
        check_borders(data)
    assert [len(call.args[0].windows("train")) for call in fit.call_args_list] == [leakage.FITTED_WINDOWS] * 2
    last = fit.call_args_list[0].args[0].windows("train")
    assert torch.equal(last[63].target, data.windows("train")[67].target)


def test_rows_far_from_the_end_of_a_split_are_not_made_anew(data, monkeypatch):
    monkeypatch.setattr(leakage, "FITTED_WINDOWS", 1)
    monkeypatch.setattr(leakage, "NOISY_ROWS", 31)
    with mock.patch.object(leakage, "prepare", wraps=leakage.prepare) as prepare_again:
        check_borders(with_gaps())
    assert {len(call.args[0].values) for call in prepare_again.call_args_list} == {62, 57}
    monkeypatch.setattr(leakage, "NOISY_CELLS", 29 * 3)
    with mock.patch.object(leakage, "prepare", wraps=leakage.prepare) as prepare_again:
        check_borders(with_gaps())
    assert {len(call.args[0].values) for call in prepare_again.call_args_list} == {58, 55}
    monkeypatch.setattr(preparing, "filled_within", lambda frame, splits: frame)
    with pytest.raises(UserError, match="borders"):
        check_borders(with_gaps())


def test_a_column_that_is_still_in_the_train_rows_looked_at_passes(monkeypatch):
    """Scaled by those, its other rows would be farther away than models compute."""
    monkeypatch.setattr(leakage, "NOISY_ROWS", 31)
    values = np.random.default_rng(1).normal(size=(N, 3))
    values[50:91, 1] = 1e-20 * values[50:91, 1]
    check_borders(made_data(frame_of(values)))


def test_splits_that_share_rows_are_caught(data):
    check_splits(data)
    rows = {"train": range(91), "val": range(88, 105), "test": range(105, N)}
    shared = {name: TargetRows.of(part) for name, part in rows.items()}
    message = "splits: 3 rows, 2021-03-04 16:00:00 to 2021-03-04 18:00:00, are forecast in "
    with pytest.raises(UserError, match=message):
        check_splits(replace(data, splits=shared))


def test_a_known_feature_made_of_values_is_caught(data, plain):
    series = data.kept.clone()
    series[:-1, 3] = series[1:, 0]  # the first feature is the next value
    message = leak(plain, replace(data, kept=series))
    assert "inputs: " in message and "known feature 1 at 2021-03-01 00:00:00 is not made of the frame's" in message


def test_a_calendar_that_reads_values_is_caught(data, plain, monkeypatch):
    """Were `prepare` to make known features of values, the guard would see it."""
    honest = leakage.scaled_rows

    def leaky(frame, scaler, calendar, n_columns, rows):
        table = honest(frame, scaler, calendar, n_columns, rows)
        table[:, 4] += float(frame.values[:, 0].sum())
        return table

    for module in (leakage, preparing):
        monkeypatch.setattr(module, "scaled_rows", leaky)
    message = leak(plain, made_data())
    assert "known feature 2 at" in message and "changes with the rows after it" in message


@pytest.mark.parametrize("kind", ["scaler", "splits", "borders", "forecasts", "training"])
def test_all_checks_are_made(kind, data, plain, monkeypatch):
    model = {"forecasts": Leaky(data, last_row), "training": Taught(np.s_[:, -P:], np.s_[:])}.get(kind, plain)
    if kind == "scaler":
        data = made_data(scaler=all_rows(data.frame.values, COLUMNS))
    if kind == "borders":
        monkeypatch.setattr(preparing, "filled_within", lambda frame, splits: frame)
        data = with_gaps(few_whole=False)
    if kind == "splits":
        data = replace(data, splits=data.splits | {"val": TargetRows.of(range(90, 105))})
    assert leak(model, data, check_leakage).startswith(f"leakage check, {kind}: ")


# the state after the guard


@pytest.mark.parametrize("model", ["informer", "patchtst", "gpt"])
def test_model_data_and_random_generators_are_left_as_they_were(model, data):
    checked = small_model(model).train()
    checked.get_submodule(next(name for name, _ in checked.named_children())).eval()
    modes = [part.training for part in checked.modules()]
    state = {key: value.clone() for key, value in checked.state_dict().items()}
    series, values = data.kept.clone(), data.frame.values.copy()
    drawn = torch.get_rng_state()
    check_leakage(checked, data, device=CPU)
    assert [part.training for part in checked.modules()] == modes
    assert all(torch.equal(value, state[key]) for key, value in checked.state_dict().items())
    assert torch.equal(data.kept, series) and np.array_equal(data.frame.values, values)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(p.grad is None for p in checked.parameters())


def test_the_series_is_restored_when_the_model_fails_or_leaks(data):
    series = data.kept.clone()

    def fail(*_):
        if not torch.equal(data.kept, series):
            raise RuntimeError("failed in the noise")
        return 0.0

    with pytest.raises(RuntimeError, match="failed in the noise"):
        check_forecasts(Leaky(data, fail), data, device=CPU)
    assert torch.equal(data.kept, series)
    leak(Leaky(data, last_row), data)
    assert torch.equal(data.kept, series)


def test_a_model_can_be_trained_after_the_check(data):
    """What it keeps between calls, such as a pattern's mask, must be fit for gradients."""
    model = small_model("sparse_transformer", window={"seq_len": L})
    check_leakage(model, data, device=CPU)
    batch = data.windows("train").__getitems__([0, 1])
    model.training_outputs(batch.past, batch.past_known, batch.future_known, batch.future)[0].sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_rows_far_after_the_origin_are_not_made_anew(monkeypatch, plain, data):
    monkeypatch.setattr(leakage, "NOISY_ROWS", 7)
    with mock.patch.object(leakage, "scaled_rows", wraps=leakage.scaled_rows) as scaled_again:
        check_forecasts(plain, data, device=CPU)
    assert {len(call.args[4]) for call in scaled_again.call_args_list} == {L + P, 7}
    assert "reads the future" in leak(Leaky(data, future), data)


# columns known in advance


def known_in_advance(**changes):
    data = made_data(targets=(0,), covariates=COLUMNS[1:], **changes)
    sizes = {"n_columns": 1, "targets": (0,), "n_known": data.n_known, "covariates": data.covariate_sizes}
    return data, sizes


def test_a_model_that_reads_what_is_known_of_its_forecast_steps_passes():
    data, sizes = known_in_advance()
    model = small_model("informer", window=sizes)
    check_leakage(model, data, device=CPU)
    batch = data.windows("train")[3]
    later = batch.future_known.clone()
    later[:, -1, -1] += 1
    assert not torch.equal(model.eval()(*batch[:3]), model(*batch[:2], later)), "it does read them"


def test_what_is_known_of_steps_after_the_horizon_has_no_part():
    data, sizes = known_in_advance()

    class Peeking(ForecastModel):
        def forecast(self, past, past_known, future_known):
            row = int((data.kept[:, :1] == past[0, -1]).flatten().nonzero()[0])
            return future_known[..., -1:] + data.kept[min(row + P + 1, N - 1), -1]

    assert "after it become noise" in leak(Peeking(window_shape(**sizes)), data)


def test_a_known_column_that_is_smoothed_with_later_rows_is_caught(monkeypatch, plain):
    data, _ = known_in_advance()
    honest = preparing.scaled_rows

    def smoothed(*made_of):
        scaled, later = honest(*made_of), honest(*made_of[:-1], (made_of[-1] + 1).clip(max=N - 1))
        scaled[:, -1] = (scaled[:, -1] + later[:, -1]) / 2
        return scaled

    for module in (leakage, preparing):
        monkeypatch.setattr(module, "scaled_rows", smoothed)
    data, sizes = known_in_advance()
    model = small_model("informer", window=sizes)
    assert "changes with the rows after it" in leak(model, data)
