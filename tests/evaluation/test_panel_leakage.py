"""The leakage guard of a panel finds planted leaks, clears honest models, and leaves the panel as it was."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from evaluation.small_panels import LENGTHS, L, P, panel, prepared
from scales import scales_of

from forecast.data import prepare
from forecast.data.panel import Repair
from forecast.data.scaling import Scales
from forecast.data.split import TargetRows
from forecast.errors import UserError
from forecast.evaluation import leakage
from forecast.evaluation.baselines import window_shape
from forecast.evaluation.leakage import check_forecasts, check_leakage, check_scaler, later_rows
from forecast.models.base import ForecastModel
from forecast.models.dlinear import DLinear
from forecast.models.naive import LastValue

CPU = torch.device("cpu")


def checked(model, data, **options):
    check_leakage(model, data, device=CPU, **options)


class Honest(ForecastModel):
    """The last values, and a little of what `leak` adds."""

    def __init__(self, data):
        super().__init__(window_shape(data))
        self.values = torch.from_numpy(data.frame.values)
        self.data = data

    def leak(self, past, past_known, future_known):
        return 0.0

    def forecast(self, past, past_known, future_known):
        last = self.window.target_columns(past)[:, -1:].expand(-1, P, -1)
        return last + 1e-3 * self.leak(past, past_known, future_known)


class OtherSeries(Honest):
    """Reads the last row of the longest series, which lies later than all origins of others."""

    def leak(self, past, *_):
        return self.values[self.data.frame.offsets[4] - 1, 0]


class OwnSeries(Honest):
    """Finds its own window in the panel and reads on."""

    def leak(self, past, *_):
        mean, std = (torch.from_numpy(part).float() for part in (self.data.scaler.mean, self.data.scaler.std))
        scale = np.repeat(np.arange(len(self.data.frame)), self.data.frame.lengths)
        scaled = ((self.values - mean[scale]) / std[scale]).unfold(0, L, 1).transpose(1, 2)
        place = (scaled[None] - past[:, None]).square().sum((2, 3)).argmin(1)
        return self.values[(place + L).clamp(max=len(self.values) - 1), 0][:, None, None]


class Neighbours(Honest):
    """Reads the other windows of its batch."""

    def leak(self, past, *_):
        return past.mean()


LEAKS = {OtherSeries: "reads the future, of this series or of another one", OwnSeries: "reads the future"}


@pytest.mark.parametrize("kind", LEAKS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_model_that_reads_the_future_is_found(kind, split):
    data = prepared(panel())
    before = data.frame.values.copy()
    with pytest.raises(UserError, match=LEAKS[kind]):
        checked(kind(data), data, split=split)
    assert np.array_equal(data.frame.values, before)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_another_series_alone_gives_it_away(split):
    """The window that is looked at, the last one, is not of the series that leaks."""
    data = prepared(panel())
    windows = data.windows(split)
    assert windows.places([len(windows) - 1])[0] == 5
    with pytest.raises(UserError, match="reads the future, of this series or of another one"):
        check_forecasts(OtherSeries(data).eval(), data, device=CPU, split=split, windows=1)


def test_a_model_that_reads_the_other_windows_of_its_batch_is_found():
    data = prepared(panel())
    with pytest.raises(UserError, match=r"leakage check, batch: .* changes with the other windows of its batch"):
        checked(Neighbours(data), data)


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("scaling", ["series", "season", "global", "none"])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_honest_models_and_scales_are_cleared(pad, scaling, gaps):
    data = prepared(panel(gaps=gaps), pad=pad, scaling=scaling)
    before = data.frame.values.copy()
    for model in (
        Honest(data),
        LastValue(window=window_shape(data)),
        DLinear(window=window_shape(data), kernel_size=5),
    ):
        checked(model, data)
    assert np.array_equal(data.frame.values, before)


@pytest.mark.parametrize("how", ["series", "season", "global"])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_a_scale_that_has_seen_later_rows_is_found(how, gaps):
    frame = panel(gaps=gaps)
    data = prepared(frame, scaling=how)
    everything = TargetRows(frame.offsets[:-1], frame.offsets[1:])
    leaky = scales_of(frame, how, everything, context=L, period=7)
    with pytest.raises(UserError, match=r"leakage check, scaler: the (mean|std) of column 'y' of series 'shop 0' is"):
        checked(Honest(data), replace(data, scaler=leaky))


def test_a_scale_of_another_series_is_found():
    data = prepared(panel())
    mean = data.scaler.mean.copy()
    mean[3] = mean[2]
    with pytest.raises(UserError, match="of series 'shop 3' is"):
        check_scaler(replace(data, scaler=replace(data.scaler, mean=mean)))


def test_a_row_in_two_splits_is_found():
    data = prepared(panel())
    val, test = data.splits["val"], data.splits["test"]
    later = np.where(np.arange(len(LENGTHS)) == 2, val.stop + 3, val.stop)
    splits = data.splits | {"val": TargetRows(val.first, later), "test": test}
    with pytest.raises(UserError, match=r"3 rows of series 'shop 2', .* are forecast in val and in test"):
        checked(Honest(data), replace(data, splits=splits))


def test_a_panel_in_a_file_that_is_mapped_for_reading_is_checked_and_left_alone(tmp_path):
    frame = panel()
    frame.values.tofile(tmp_path / "values")
    mapped = np.memmap(tmp_path / "values", dtype=np.float64, mode="r", shape=frame.values.shape)
    data = prepared(replace(frame, values=mapped))
    checked(LastValue(window=window_shape(data)), data)
    assert np.array_equal(np.fromfile(tmp_path / "values", np.float64).reshape(mapped.shape), frame.values)


def test_windows_that_read_later_rows_are_found(monkeypatch):
    """A planted fault in the windows: they begin a row late."""
    data = prepared(panel())

    class Late(type(data)):
        def windows_of(self, origins, **options):
            windows = super().windows_of(origins, **options)
            gather = windows.__getitems__
            windows_class = type("LateWindows", (type(windows),), {})
            windows_class.__getitems__ = lambda self, index: gather(index)._replace(
                past=torch.cat([gather(index).past[:, 1:], gather(index).future[:, :1]], 1)
            )
            windows.__class__ = windows_class
            return windows

    fields = {name: getattr(data, name) for name in data.__dataclass_fields__}
    with pytest.raises(UserError, match=r"inputs: .* column '[xyz]' at .* changes with the rows after it"):
        checked(LastValue(window=window_shape(data)), Late(**fields))


def test_noise_covers_all_rows_that_lie_later_in_time_and_no_others():
    data = prepared(panel())
    windows = data.windows("test")
    for window in (0, 3, len(windows) - 1):
        (s,), (origin,) = windows.places([window])
        frame = data.frame
        now = origin - frame.offsets[s] + frame.steps[s]
        series = np.repeat(np.arange(len(frame)), frame.lengths)
        steps = np.arange(len(series)) - frame.offsets[series] + frame.steps[series]
        assert later_rows(data, windows, window).tolist() == np.flatnonzero(steps >= now).tolist()


def test_of_a_large_panel_some_of_the_later_rows_become_noise_its_own_among_them(monkeypatch):
    monkeypatch.setattr(leakage, "NOISY_CELLS", 150)
    data = prepared(panel())
    windows = data.windows("train")
    for window in (0, len(windows) - 1):
        rows = later_rows(data, windows, window)
        (s,), (origin,) = windows.places([window])
        own = np.arange(origin, data.frame.offsets[s + 1])
        assert set(own) <= set(rows) and len(rows) < len(data.frame.values) / 2


# columns known in advance


class Known(Honest):
    """Reads what is known of its last forecast step."""

    def leak(self, past, past_known, future_known):
        return future_known[:, -1:, -1:]


class KnownLater(Honest):
    """Finds its own window in the panel and reads what will be known of the step after its forecast."""

    def leak(self, past, past_known, future_known):
        known = self.values[:, 2]
        place = (known.unfold(0, L, 1)[None] - past_known[:, None, :, -1]).square().sum(2).argmin(1)
        return known[(place + L + P).clamp(max=len(known) - 1)][:, None, None]


@pytest.mark.parametrize("scaling", ["series", "season", "global", "none"])
def test_what_is_known_of_the_forecast_steps_may_be_read(scaling):
    data = prepared(panel(), targets=(0,), covariates=("x",), scaling=scaling)
    for split in ("train", "test"):
        checked(Known(data), data, split=split)


def test_what_is_known_of_later_steps_may_not():
    data = prepared(panel(), targets=(0,), covariates=("x",), scaling="none")
    with pytest.raises(UserError, match="reads the future"):
        checked(KnownLater(data), data, split="train")


def test_a_known_column_that_is_scaled_by_each_series_is_found():
    data = prepared(panel(), targets=(0,), covariates=("x",))
    own = scales_of(data.frame, "series", data.splits["train"], context=L)
    with pytest.raises(UserError, match=r"column 'x'.*train rows of all series"):
        check_scaler(replace(data, scaler=own))


@pytest.mark.parametrize("scaling", ["series", "season", "global", "none"])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
@pytest.mark.parametrize("policy", ["interpolate", "forward_fill"])
def test_an_honest_panel_owes_nothing_to_later_rows(scaling, gaps, policy):
    for pad in (False, True):
        data = prepared(gappy(gaps, policy), scaling=scaling, pad=pad)
        before = data.frame.values.copy()
        leakage.check_borders(data)
        np.testing.assert_array_equal(data.frame.values, before)


def gappy(gaps, policy="interpolate"):
    frame = panel(gaps=gaps)
    if frame.measured is not None:
        frame.measured[frame.offsets[:-1]] = frame.measured[frame.offsets[1:] - 1] = True
    return leakage.refilled(replace(frame, repair=Repair(policy)))


def later(rows):
    """Train rows that reach three rows into those of val."""
    return TargetRows(rows.first, rows.stop + 3)


def leaking_scale(monkeypatch):
    fit = Scales.fit

    def of_later_rows(frame, how, first, stop, **options):
        return fit(frame, how, first, stop + 3, **options)  # of val

    monkeypatch.setattr(Scales, "fit", of_later_rows)


def leaking_season(monkeypatch):
    found = lambda frame, *_, **sizes: int(np.abs(frame.values).sum()) % 1000  # noqa: E731
    monkeypatch.setattr(leakage, "train_season", found)


def leaking_baseline(monkeypatch):
    fit = leakage.fit_nlinear
    reaching = lambda data: fit(replace(data, splits={**data.splits, "train": later(data.splits["train"])}))  # noqa: E731
    monkeypatch.setattr(leakage, "fit_nlinear", reaching)


def leaking_fill(monkeypatch):
    monkeypatch.setattr(prepare, "filled_within", lambda frame, _: frame)


@pytest.mark.parametrize(
    ("plant", "gaps", "what"),
    [
        (leaking_scale, 0.3, "the scale's mean"),
        (leaking_season, 0.3, "the season"),
        (leaking_baseline, 0.0, "the closed-form NLinear"),  # with gaps the later windows might have a made-up target
        (leaking_fill, 0.3, "a value"),
    ],
)
def test_what_is_made_of_rows_after_the_train_rows_is_found(monkeypatch, plant, gaps, what):
    plant(monkeypatch)
    data = prepared(gappy(gaps), targets=(0, 1, 2))
    with pytest.raises(UserError, match=f"leakage check, borders: {what}.* changes when the rows after train"):
        checked(LastValue(window=window_shape(data)), data)


def test_a_gap_over_the_end_of_a_split_is_filled_from_before_and_nothing_else_is():
    frame = gappy(0.3)
    data = prepared(frame)
    changed = np.argwhere(data.frame.values != frame.values)
    assert len(changed)
    ends = {int(stop) - 1 for name in ("train", "val") for stop in data.splits[name].stop}
    for row, column in changed:
        stop = next(end for end in range(row, row + 40) if frame.measured[end + 1, column] or end in ends)
        assert stop in ends and not frame.measured[row : stop + 1, column].any()
        known = next(place for place in range(row, -1, -1) if frame.measured[place, column])
        assert data.frame.values[row, column] == frame.values[known, column]
