"""What boosted trees read of a window: each number where it is said to be, and none of the future."""

import copy

import pytest
import torch
from models.small_trees import (
    CALENDAR,
    DAYS,
    GENERATOR,
    WEEK,
    N,
    P,
    error,
    fitted,
    flips,
    model,
    noise,
    rows,
    window,
    windows_of,
)

from forecast.apps.export import largest_difference, save_program, trace
from forecast.models import boosted_trees
from forecast.models.ridge import Ridge
from forecast.models.smoothing import Smoothing


@pytest.fixture(autouse=True)
def same_draws():
    """In each test, whichever were run before."""
    GENERATOR.manual_seed(0)


@pytest.fixture(scope="module")
def series():
    return flips()


@pytest.fixture(scope="module")
def found(series):
    return fitted(series, look_back=4 * WEEK)


@pytest.mark.parametrize("read, season", [(14, 7), (15, 7), (7, 7), (29, 4), (9, 9)])
@pytest.mark.parametrize("more", [0, 1, 6])
def test_a_value_seasons_ago_is_of_the_same_step_of_the_season_and_never_of_the_future(read, season, more):
    made = model()
    made.rows = read
    steps = torch.arange(41)
    found = made.seasons_ago(steps, season, more)
    assert found.min() >= 0 and found.max() < read
    assert not ((read + steps - found) % season).any()
    last = [max(row for row in range(read) if (read + step - row) % season == 0) for step in steps]
    wanted = torch.tensor(last) - more * season
    assert torch.equal(found, torch.where(wanted >= 0, wanted, found % season))


def test_each_feature_is_what_it_is_said_to_be(series, found):
    """Of one window, by its row numbers; the first is the value of the same day in the week before."""
    (past, past_known, future_known), _ = windows_of(found, series)
    past, known = past[:1, -found.rows :], (past_known[:1], future_known[:1])
    scaled = found.scaled(windows_of(found, series)[0][0][:1], *known)
    features = found.features(scaled, torch.arange(P))
    last = past[0, -WEEK:, 0]
    values = (past[0, :, 0] - last.mean()) / (last.var(correction=0) + 0.01).sqrt()
    for step in range(P):
        for more in range(3):
            torch.testing.assert_close(features[step, more], values[found.rows + step - (more + 1) * WEEK])
        torch.testing.assert_close(features[step, 7:15], values[-8:].flip(0))
        torch.testing.assert_close(features[step, 15], last.mean())
        assert features[step, 17:19].tolist() == [step, 0]
        assert features[step, -1] == future_known[0, step, 0]


def test_beside_these_stands_what_each_smoothing_of_the_window_forecasts_and_the_model_is_rebuilt(series, tmp_path):
    made = model(smoothed=True)
    options = made.fit(rows(series))
    given, _ = windows_of(made, series)
    scaled, steps, past = made.scaled(*given), torch.arange(P), given[0][:, -made.smoothing.rows :]
    assert made.smoothing.rows == made.look_back and made.smoothing.seasons == [WEEK]
    features = made.features(scaled, steps)[:, -7:-1].unflatten(0, (len(past), P))
    for place, setting in enumerate(boosted_trees.SMOOTHINGS):
        alone = Smoothing(window=window(), look_back=len(past[0]), seasons=[WEEK], fitted=[[*setting, 0.0]])
        found = features[:, :, place : place + 1] * scaled.scale + scaled.level
        torch.testing.assert_close(found, alone.extend(past), rtol=0, atol=1e-4)
    again = model(**{**options, "smoothed": True})
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(*given), made(*given))
    save_program(trace(copy.deepcopy(made), given, batch=3), tmp_path / "model.pt2")
    assert largest_difference(torch.export.load(tmp_path / "model.pt2").module(), made, given, (3,)) <= 1e-5


def test_what_is_known_of_a_step_is_used_at_that_step_and_what_was_known_a_season_before():
    """3 where a column known in advance and the end of a week come together, beside what each day has of its own."""
    shape = window(n_known=2, covariates=(0,))
    event = (torch.rand(N, 1, generator=GENERATOR) < 0.5).float()
    known = torch.cat([CALENDAR, event], 1)
    of_day = 0.3 * torch.randn(N // WEEK + 1, WEEK, generator=GENERATOR, dtype=torch.float64).cumsum(0)
    series = of_day[torch.arange(N) // WEEK, DAYS][:, None] + 3.0 * event * (DAYS[:, None] >= 3) + noise(1)
    made, blind = fitted(series, shape, of=rows(series, known=known)), fitted(series)
    ridge = Ridge(window=shape)
    ridge.fit(rows(series, known=known))
    assert error(made, series, known=known) < 0.8 * error(ridge, series, known=known) < 0.8 * error(blind, series)
    alone = fitted(series, shape, of=rows(series, known=known), skip="none")
    given, _ = windows_of(alone, series, known=known)
    other = [part.clone() for part in given]
    other[2][:, 2, 1] = 1 - other[2][:, 2, 1]
    changed = (alone(*given) != alone(*other)).any(0).flatten()
    assert changed.tolist() == [False, False, True, False, False]
    other = [part.clone() for part in given]
    other[1][:, 3 - WEEK, 1] = 1 - other[1][:, 3 - WEEK, 1]  # a week before step 3
    assert (alone(*given) != alone(*other)).any(0).flatten().tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("facts", [(0,), (1,)])
def test_facts_are_used_and_read_once_wherever_they_stand(facts):
    """Drawn anew for each row, as no fact is: what the past has of it must not be read."""
    fact = (torch.rand(N, 1, generator=GENERATOR) < 0.5).float() + 1
    columns = [noise(1).float(), fact] if facts == (1,) else [fact, noise(1).float()]
    known, shape = torch.cat([CALENDAR, *columns], 1), window(n_known=3, covariates=(0, 0), facts=facts)
    made = fitted(series := fact.double() * 2 + noise(1), shape, of=rows(series, known=known), skip="none")
    given, _ = windows_of(made, series, known=known)
    of_past, of_future = ([part.clone() for part in given] for _ in range(2))
    of_past[1][:, :, 1 + facts[0]] = 3 - of_past[1][:, :, 1 + facts[0]]
    of_future[2][:, :, 1 + facts[0]] = 3 - of_future[2][:, :, 1 + facts[0]]
    read = [made.features(made.scaled(*one), torch.arange(P)) for one in (of_past, given)]
    assert torch.equal(*read) and not torch.equal(made(*of_future), made(*given))


def test_targets_are_told_apart_in_their_own_order():
    """Column 3 is high at weekends, column 1 low; the others are not read."""
    high = torch.where(DAYS >= 5, 2.0, 0.0)
    series = noise(5)
    series[:, 3] += high
    series[:, 1] -= high
    shape = window(n_columns=5, targets=(3, 1))
    made = fitted(series, shape, of=rows(series[:, [3, 1]]), skip="none")
    assert error(made, series) < 0.05
    given, _ = windows_of(made, series)
    other = given[0].clone()
    other[:, :, [0, 2, 4]] += 9
    assert torch.equal(made(other, *given[1:]), made(*given))


def test_many_steps_are_forecast_in_parts_to_the_same_bits(series, found, monkeypatch):
    given, _ = windows_of(found, series)
    together = found(*given)
    monkeypatch.setattr(boosted_trees, "STEPS", 1)
    assert torch.equal(found(*given), together)


def test_a_window_is_forecast_alone_as_in_a_batch(series):
    made = fitted(series, skip="none")
    given, _ = windows_of(made, series)
    assert torch.equal(made(*(part[3:4] for part in given)), made(*given)[3:4])


def test_of_many_windows_some_steps_are_read_and_of_more_evenly_spread_ones(found, series):
    windows = rows(series).windows("train", found.look_back)
    count = len(windows.numbers)
    assert len(found.sample(windows, 10**6).features) == count * P
    assert len(found.sample(windows, 2 * count + 1).features) == 2 * count
    some = found.sample(windows, 50)
    assert len(some.features) == len(some.target) == len(some.scale) == 50
    first, last = (windows.gather(windows.numbers[[end]]).past[0, -1, 0] for end in (0, -1))
    level, scale = some.features[:, 15], some.features[:, 16]
    ends = some.features[:, 7] * scale + level  # the last value before the origin
    torch.testing.assert_close(torch.stack([ends[0], ends[-1]]), torch.stack([first, last]))


def test_large_levels_cost_no_digits(series, found):
    """Beside those that float32 has not."""
    (past, *known), _ = windows_of(found, series)
    low, high = (found.scaled(one, *known)._replace(skip=None) for one in (past, past + 4096))
    for one, other in zip(low, high, strict=True):
        if one is not None:
            more = 4096 if one is low.level else 0
            torch.testing.assert_close(other, one + more, rtol=0, atol=2e-3)


@pytest.mark.parametrize("batch", [None, 3])
def test_they_become_a_program_that_forecasts_the_same(series, found, batch, tmp_path):
    given, _ = windows_of(found, series)
    save_program(trace(copy.deepcopy(found), given, batch=batch), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    assert len(found.trees) > 16  # more than are looked up together
    assert largest_difference(program, found, given, (1, 2, 61) if batch is None else (3, 3)) <= 1e-5


def test_what_is_not_a_number_stays_in_its_window(series, found):
    given, _ = windows_of(found, series)
    past = given[0].clone()
    past[1, -1] = torch.nan
    said = found(past, *given[1:])
    assert said[1].isnan().all() and torch.equal(said[2:], found(*given)[2:])


def test_no_season_may_be_asked_for(series):
    made = fitted(series, seasons=[], skip="none")
    assert (
        made.seasons == [] and made.features(made.scaled(*windows_of(made, series)[0]), torch.arange(P)).shape[1] == 13
    )
