"""Evaluating a panel: every window once, in fixed chunks, all forecasters on the same ones; series by name."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluation.small_panels import LENGTHS, L, P, panel, prepared
from torch import nn

from forecast.data.panel import Repair
from forecast.data.split import LastSplit, ShareSplit
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines, make_baselines, season, window_shape
from forecast.evaluation.blocks import baseline_metrics, check_offsets, split_metrics
from forecast.evaluation.evaluate import Protocol, counted_windows, evaluate, look_back_of
from forecast.evaluation.fitting import fitted_series, rows_to_fit, train_season
from forecast.files import json_text
from forecast.models.naive import LastValue, SeasonalNaive

CPU = torch.device("cpu")
SEASON = 7


class Wave(nn.Module):
    """A forecast that depends on the whole past: the last value, and a wave as high as the past varies."""

    def forward(self, past, past_known, future_known):
        steps = torch.arange(P)[:, None]
        return past[:, -1:, [0, 2]] + past.std(1, keepdim=True)[:, :, [0, 2]] * torch.sin(steps + past[:, :1, [0, 2]])


def evaluated(data, model=None, *, batch_size=32, protocol=None, split="test", fitted="all"):
    fitted = fit_baselines(data) if fitted == "all" else fitted
    options = {"split": split, "protocol": protocol or Protocol(), "batch_size": batch_size, "device": CPU}
    return evaluate((model or Wave()).eval(), data, fitted=fitted, **options)


def many():
    """Enough windows for chunks that are not whole."""
    return prepared(panel((61, 17, 43, 89, 5, 43, 200), gaps=0.1), split=LastSplit(horizon=P, val=2, test=5))


def test_figures_are_equal_to_the_last_bit_for_any_batch_size():
    data = many()
    first = evaluated(data)
    assert first.errors.n_windows % 32 != 0
    for batch_size in (1, 7, 64, 1000):
        other = evaluated(data, batch_size=batch_size)
        assert torch.equal(other.errors.sums, first.errors.sums)
        assert torch.equal(other.baselines["ridge"].sums, first.baselines["ridge"].sums)
        assert np.array_equal(other.forecasts["model"], first.forecasts["model"])


def test_every_forecaster_is_summed_over_the_same_windows():
    data = many()
    fitted = fit_baselines(data)
    found = evaluated(data, fitted=fitted)
    forecasters = {"model": Wave(), **make_baselines(data, fitted=fitted)}
    fits = {"train_mean", "closed_form_nlinear", "ridge", "smoothing"}
    assert set(forecasters) == {"model", "last_value", "seasonal_naive", *fits}
    longest = max(look_back_of(one, data) for one in forecasters.values())
    windows = data.windows("test", look_back=longest)
    for name, forecaster in forecasters.items():
        errors = found.errors if name == "model" else found.baselines[name]
        total, reads = 0.0, look_back_of(forecaster, data)
        for number in range(len(windows)):
            batch = windows[number]
            forecast = forecaster(batch.past[:, -reads:], batch.past_known[:, -reads:], batch.future_known)
            total += float(((forecast - batch.target).double().square() * batch.measured).sum())
        assert errors.total("squared").sum() == pytest.approx(total, rel=1e-5), name
        assert errors.windows.tolist() == data.origins("test").counts.tolist()


def test_the_memory_is_that_of_the_series_however_many_windows():
    def n_windows(data):
        return len(counted_windows(data.windows("test"), "test", Protocol()))

    def numbers(data):
        found = evaluated(data)
        kept = [v for v in vars(found.errors).values() if isinstance(v, torch.Tensor)]
        return sum(v.numel() for v in kept) + sum(v.size for v in found.forecasts.values())

    few, more = (prepared(panel((300, 300)), split=LastSplit(horizon=P, test=test)) for test in (1, 40))
    assert n_windows(more) > 100 * n_windows(few)
    assert numbers(few) == numbers(more)


def test_the_block_of_metrics_json_names_and_counts_the_series():
    data = many()
    found = evaluated(data)
    block = json.loads(json_text(split_metrics(found, data, "test")))
    mase = found.errors.table(found.naive)["mase"]
    order = [f"shop {s}" for s in np.argsort(mase) if np.isfinite(mase[s])]
    assert [row["id"] for row in block["series"]["best"]] == order[:3]
    assert [row["id"] for row in block["series"]["worst"]] == order[::-1][:3]
    assert block["series"]["worst"][0]["mase"] == pytest.approx(np.nanmax(mase), abs=1e-6)
    assert block["series"]["count"] == 7 and block["series"]["evaluated"] == 6
    assert block["series"]["without_mase"] == 6 - len(order)
    assert block["mase"] == pytest.approx(np.mean([column["mase"] for column in block["columns"].values()]), abs=1e-6)
    assert set(block["columns"]) == {"y", "x"} and block["windows"] == found.errors.n_windows
    baselines = baseline_metrics(found.baselines, data, found.naive)
    assert baselines["seasonal_naive"]["period"] == SEASON
    naive = baselines["seasonal_naive"]["scaled"]["mse"]
    assert block["skill"] == pytest.approx(1 - block["scaled"]["mse"] / naive, abs=1e-5)


def test_forecasts_are_kept_of_the_last_windows_of_the_worst_and_the_best():
    data = many()
    found = evaluated(data)
    windows = data.windows("test")
    for place, (s, origin) in enumerate(zip(found.shown, found.origins, strict=True)):
        assert origin == data.frame.offsets[s + 1] - P
        number = int(data.origins("test").ends[s]) - 1
        batch = windows[number]
        expected = Wave()(batch.past, batch.past_known, batch.future_known)[0]
        np.testing.assert_allclose(found.forecasts["model"][place], expected, rtol=1e-5, atol=1e-6)


def test_a_protocol_drops_the_last_windows_of_all():
    data = many()
    whole, part = evaluated(data), evaluated(data, protocol=Protocol(drop_last_of=32))
    assert part.errors.n_windows == whole.errors.n_windows // 32 * 32
    assert part.errors.windows.tolist()[:-1] == whole.errors.windows.tolist()[:-1]
    assert part.origins.max() < whole.origins.max()


def test_of_each_series_the_windows_apart_begin_with_its_first():
    data = many()
    every, apart = evaluated(data), evaluated(data, protocol=Protocol(stride=P))
    assert apart.errors.windows.tolist() == [-(-count // P) for count in every.errors.windows.tolist()]
    for s in np.unique(every.windows.series):
        own, some = (found.windows.start[found.windows.series == s] for found in (every, apart))
        assert some.tolist() == own[::P].tolist()


def test_each_window_is_scaled_by_the_rows_of_its_series_before_it():
    """By hand: MASE of a series is the mean over its windows of MAE / mean seasonal difference before the forecast."""
    data = prepared(panel((61, 43, 89), gaps=0.05, seed=2), split=LastSplit(horizon=P, val=2, test=5))
    found = evaluated(data, LastValue(window=window_shape(data)), protocol=Protocol(mase_scale="window"))
    frame, ratios = data.frame, {}
    for number in range(len(data.windows("test"))):
        batch = data.windows("test")[number]
        s, origin = int(batch.series), int(data.windows("test").places([number])[1][0])
        begin, error = frame.offsets[s], (batch.past[0, -1, [0, 2]] - batch.target[0]).abs().double()
        error = torch.where(batch.measured[0], error, torch.nan).nanmean(0).numpy()
        for place, column in enumerate((0, 2)):
            rows = [r for r in range(begin + SEASON, origin) if frame.measured[[r, r - SEASON], column].all()]
            steps = np.abs(frame.values[rows, column] - frame.values[np.array(rows) - SEASON, column])
            ratios.setdefault((s, place), []).append(error[place] / (steps.mean() / data.scaler.std[s, column]))
    table = found.errors.series(found.naive)["mase"]
    assert found.naive is None and len(ratios) == 6
    for (s, place), values in ratios.items():
        assert table[s, place] == pytest.approx(np.nanmean(values), rel=1e-6)


def test_series_too_short_for_the_look_back_count_where_windows_are_padded():
    dropped, padded = (prepared(panel((61, 13)), pad=pad) for pad in (False, True))
    assert evaluated(dropped).errors.windows.tolist() == [6, 0]
    assert evaluated(padded).errors.windows.tolist() == [6, 6]


def test_a_split_without_a_measured_cell_is_refused():
    frame = panel((61, 61), gaps=0.01)
    data = prepared(frame)
    for first, stop in zip(data.splits["test"].first, data.splits["test"].stop, strict=True):
        frame.measured[first:stop] = False
    with pytest.raises(UserError, match="no value of the split test was measured"):
        evaluated(data)


def test_a_forecast_that_is_not_finite_is_refused():
    class Diverged(nn.Module):
        def forward(self, past, past_known, future_known):
            return torch.full((len(past), P, 2), torch.nan)

    with pytest.raises(UserError, match="not finite numbers: the training has diverged"):
        evaluated(many(), Diverged())


def test_offsets_that_no_series_has_room_for_are_refused():
    with pytest.raises(UserError, match=r"at 240 steps from its window no forecast .* the largest possible is \d+\."):
        check_offsets(many(), "test", Protocol(horizon_offsets=[240]))
    check_offsets(many(), "test", Protocol())


def linear_panel(noise=0.0):
    """Each value is 0.5 of the last and 0.4 of that 11 rows before, of whatever level and scale."""
    draws, lengths = np.random.default_rng(5), (150, 90, 211, 120)
    series = []
    for s, length in enumerate(lengths):
        values = list(draws.normal(size=L))
        for _ in range(length - L):
            values.append(0.5 * values[-1] + 0.5 * values[-L] + noise * draws.normal())
        series.append(10.0 ** (s - 1) * (np.array(values) + 3 * s))
    return panel(lengths, columns=("y",), values=np.concatenate(series)[:, None])


def test_the_linear_baselines_find_the_law_that_all_series_share():
    data = prepared(linear_panel(), targets=(0,))
    found = evaluated(data, LastValue(window=window_shape(data)))
    last = found.errors.overall(found.naive)["scaled"]["mse"]
    for name in ("closed_form_nlinear", "ridge"):
        assert found.baselines[name].overall(found.naive)["scaled"]["mse"] < 1e-3 * last, name


def test_nlinear_is_least_squares_over_the_windows_inside_series():
    data = prepared(panel(columns=("y",)), targets=(0,))
    windows, inputs, outputs = data.windows("train"), [], []
    for number in range(len(windows)):
        batch = windows[number]
        last = batch.past[0, -1:, 0].double()
        inputs.append(torch.cat([batch.past[0, :-1, 0].double() - last, torch.ones(1)]))
        outputs.append(batch.target[0, :, 0].double() - last)
    x, y = torch.stack(inputs), torch.stack(outputs)
    centred = x[:, :-1] - x[:, :-1].mean(0)
    # ours: regressors less their means, a ridge of so many of their mean variance, the zero row of the last among them
    strength = 1e-3 * float(centred.square().mean(0).sum()) / L
    gram = centred.T @ centred / len(x) + strength * torch.eye(L - 1).double()
    weight = torch.linalg.solve(gram, centred.T @ (y - y.mean(0)) / len(x)).T
    found = fit_baselines(data)["nlinear_weight"]
    torch.testing.assert_close(found[:, :-1], weight, rtol=1e-3, atol=1e-3)


def test_no_window_that_a_map_is_fitted_to_reaches_over_the_border_of_its_series():
    data = prepared(panel())
    rows = rows_to_fit(data, period=SEASON)
    begin = data.frame.offsets[:-1]
    for look_back in (1, 7, 23):
        for split in ("train", "val"):
            origins = rows.origins(split, look_back)
            series = np.searchsorted(data.frame.offsets, origins, side="right") - 1
            assert (origins - look_back >= begin[series]).all()
            assert (origins >= data.splits[split].first[series]).all()
            assert (origins + P <= data.splits[split].stop[series]).all()
            expected = [
                o
                for s in range(len(LENGTHS))
                for o in range(begin[s] + look_back, data.frame.offsets[s + 1])
                if data.splits[split].first[s] <= o <= data.splits[split].stop[s] - P
            ]
            assert origins.tolist() == expected


def test_linear_maps_learn_from_no_target_that_was_made_up(caplog):
    data = prepared(panel(gaps=0.05))
    rows = rows_to_fit(data, period=SEASON)
    for split in ("train", "val"):
        every = data.origins(split, context=3)
        _, every = every.places(np.arange(len(every)))
        whole = [o for o in every if data.frame.measured[o : o + P][:, [0, 2]].all()]
        assert rows.origins(split, 3).tolist() == whole and 0 < len(whole) < len(every)
    assert "linear maps are fitted to such windows" not in caplog.text
    none = prepared(panel(gaps=0.9))
    assert len(rows_to_fit(none, period=SEASON).origins("train", 3)) == len(none.origins("train", context=3))
    assert "Each train window has a target that was filled in: linear maps are fitted to such windows" in caplog.text


def test_the_map_of_a_planted_law_does_not_depend_on_what_a_gap_was_filled_with():
    """The last P train rows of each series were made up: no window has them in its past."""
    weights = []
    for filled in (None, 1000.0, -50.0):
        frame = panel(columns=("y",))
        data = prepared(frame, targets=(0,), scaling="none")
        measured = np.ones_like(frame.values, dtype=bool)
        if filled is not None:
            for s in range(len(frame)):
                gap = slice(max(frame.offsets[s], data.splits["train"].stop[s] - P), data.splits["train"].stop[s])
                frame.values[gap], measured[gap] = filled, False
            data = prepared(replace(frame, measured=measured), targets=(0,), scaling="none")
        weights.append(fit_baselines(data)["nlinear_weight"])
    assert torch.equal(weights[1], weights[2]) and not torch.equal(weights[0], weights[1])


def test_of_a_large_panel_whole_series_are_drawn(monkeypatch, caplog):
    data = prepared(panel())
    monkeypatch.setattr("forecast.evaluation.fitting.FITTED_CELLS", 2 * 130)
    with caplog.at_level("INFO"):
        rows = rows_to_fit(data, period=SEASON)
    chosen = fitted_series(data.frame, 2)
    assert 0 < len(chosen) < len(LENGTHS) and len(rows.series) == data.frame.lengths[chosen].sum() <= 130
    assert f"Linear maps are fitted to {len(chosen)} of 6 series, {len(rows.series)} rows" in caplog.text
    place = 0
    for s in chosen:  # the rows of each, scaled
        expected = (data.frame.rows(s)[:, [0, 2]] - data.scaler.mean[s, [0, 2]]) / data.scaler.std[s, [0, 2]]
        np.testing.assert_allclose(rows.series[place : place + len(expected)], expected, rtol=1e-5, atol=1e-6)
        place += len(expected)
    whole = data.origins("train", context=3).counts[chosen]
    assert len(rows.origins("train", 3)) == whole.sum()


def test_without_a_whole_train_window_there_is_no_nlinear():
    data = prepared(panel((29, 31, 28)), seq_len=19, pad=True)
    assert "nlinear_weight" not in fit_baselines(data)
    found = evaluated(data)
    assert set(found.baselines) == {"last_value", "seasonal_naive", "train_mean", "ridge", "smoothing"}


def season_of(data):
    return train_season(data.frame, data.splits["train"], data.targets, pred_len=data.pred_len)


def test_the_season_is_that_which_most_series_show():
    """Of hours: three repeat a day, one a week, one nothing that is longer than an hour."""
    draws, hours = np.random.default_rng(2), np.arange(700)
    day, week = np.tile(draws.normal(size=24), 30)[:700], np.tile(draws.normal(size=168), 5)[:700]
    series = [day + 0.1 * draws.normal(size=700) for _ in range(3)] + [week, np.zeros(700)]
    values = np.concatenate(series)[:, None]
    data = replace(prepared(panel((700,) * 5, columns=("y",), values=values), targets=(0,), season=None))
    assert season_of(data) == 24 == season(data) and len(hours) == 700
    weekly = np.concatenate([week, week, day])[:, None]
    data = prepared(panel((700,) * 3, columns=("y",), values=weekly), targets=(0,), season=None)
    assert season_of(data) == 168
    assert season_of(replace(data, frame=replace(data.frame, freq="ms"))) is None


def test_the_seasonal_naive_repeats_the_last_rows_of_its_own_series():
    data = prepared(panel())
    found = evaluated(data, SeasonalNaive(window=window_shape(data), period=SEASON))
    errors = 0.0
    for s in range(len(LENGTHS)):
        rows = data.frame.rows(s).astype(np.float64)
        for origin in range(len(rows) - 2 * P, len(rows) - P + 1):
            if origin >= L:
                repeated = rows[origin - SEASON + np.arange(P) % SEASON]
                scaled = (rows[origin : origin + P] - repeated) / data.scaler.std[s]
                errors += np.abs(scaled[:, [0, 2]]).sum()
    assert found.errors.total("absolute").sum() == pytest.approx(errors, rel=1e-4)
    assert torch.equal(found.errors.sums, found.baselines["seasonal_naive"].sums)


def test_of_a_masked_panel_the_last_served_windows_are_shown():
    """Windows that the gaps forbid lie between those that are served, in some series at their end."""
    frame = replace(panel((120, 140, 130), gaps=0.01, seed=4), repair=Repair("mask"))
    data = prepared(frame, split=ShareSplit(train=0.5, val=0.2, test=0.3))
    windows = data.windows("test")
    assert 0 < len(windows) < len(data.origins("test"))
    found = evaluated(data)
    assert found.errors.n_windows == len(windows) == windows.ends[-1]
    last = {int(s): int(row) for s, row in zip(*windows.places(range(len(windows))), strict=True)}
    assert dict(zip(found.shown.tolist(), found.origins.tolist(), strict=True)) == {s: last[s] for s in found.shown}


def test_with_mask_a_linear_map_is_fitted_to_no_past_with_a_made_up_cell():
    frame = replace(panel((120, 140, 130), gaps=0.01, seed=4), repair=Repair("mask"))
    rows = rows_to_fit(prepared(frame, split=ShareSplit(train=0.5, val=0.2, test=0.3)), period=SEASON)
    origins = rows.origins("train", L)
    pasts = frame.measured[origins[:, None] + np.arange(-L, 0)]
    assert len(origins) > 10 and pasts.all()
