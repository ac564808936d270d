"""Boosted trees on top of a ridge: what they find, what val rows choose, and what they are fitted to."""

import pytest
import torch
from config.composed import composed
from models.small_trees import (
    GENERATOR,
    TRAIN,
    VAL,
    WEEK,
    N,
    P,
    assert_same,
    error,
    fitted,
    flips,
    model,
    noise,
    rows,
    window,
    windows_of,
)
from threadpoolctl import threadpool_limits

from forecast.config.check import check_config
from forecast.errors import UserError
from forecast.models.boosted_trees import FASTEST, FEWEST_TREES
from forecast.models.ridge import Ridge


@pytest.fixture(autouse=True)
def same_draws():
    """In each test, whichever were run before."""
    GENERATOR.manual_seed(0)


@pytest.fixture(scope="module")
def series():
    return flips()


@pytest.fixture(scope="module")
def found(series):
    return fitted(series)


def test_they_find_what_a_ridge_cannot(series):
    found = fitted(series, look_back=4 * WEEK)
    ridge = Ridge(window=window())
    ridge.fit(rows(series))
    assert len(found.trees) > 0 and found.seasons == [WEEK]
    assert error(found, series) < 0.8 * error(ridge, series)


def test_what_is_added_to_a_ridge_goes_beyond_all_values_seen():
    """Of a trend, which trees alone cannot continue; neither reads the level of what it has not seen."""
    trend = 0.05 * torch.arange(N, dtype=torch.float64)[:, None] + noise(1)
    assert error(fitted(trend), trend) < 0.02
    alone = fitted(trend, skip="none")
    assert alone.skip is None and error(alone, trend) < 1.0  # values are those beside the window's level


def opposed(series):
    """Nothing that the train rows teach holds in the val rows."""
    found = series.clone()
    found[TRAIN:VAL] = noise(1, scale=2.0)[TRAIN:VAL]
    return found


def test_where_no_tree_helps_on_val_it_is_the_ridge_to_the_bit(series):
    series = opposed(series)
    ridge, made = Ridge(window=window()), model()
    ridge.fit(rows(series))
    options = made.fit(rows(series))
    assert options["fitted"] == 0 == len(made.trees)
    (past, *known), _ = windows_of(made, series)
    assert torch.equal(made(past, *known), ridge(past[:, -ridge.look_back :], *known))


def test_val_rows_choose_their_number_and_nothing_after_them_or_else_has_a_say(series):
    after = series.clone()
    after[VAL:] = 100 * noise(1)[VAL:]
    made, same, other = (fitted(one, skip="none") for one in (series, after, opposed(series)))
    assert_same(made, same)
    assert len(made.trees) > len(other.trees)
    assert torch.equal(made.trees.first(len(other.trees)).threshold, other.trees.threshold)


def test_as_many_trees_are_taken_as_err_least_on_val(series):
    made, most = fitted(series, skip="none"), {}
    for trees in (1, len(made.trees) - 1, len(made.trees), 40):
        some = fitted(series, skip="none", trees=trees)
        val = windows_of(some, series, first=TRAIN)
        errors = (some(*val[0]) - val[1])[: VAL - TRAIN - P + 1].square()
        most[trees] = (len(some.trees), errors.mean().item())
    assert most[40] == most[len(made.trees)] and most[1][1] > most[40][1]
    assert most[len(made.trees) - 1][1] >= most[40][1]


@pytest.mark.parametrize("error_lowered", ["squared", "absolute"])
def test_the_error_that_is_lowered_is_that_of_the_option(error_lowered):
    """Of a column that is 0, at three steps of ten 10."""
    spikes = 10.0 * (torch.rand(N, 1, generator=torch.Generator().manual_seed(5)) < 0.3).double()
    made = fitted(spikes, skip="none", error=error_lowered)
    (given, _) = windows_of(made, spikes)
    said = made(*given).median()
    assert said < 0.7 if error_lowered == "absolute" else said > 2


def test_the_same_rows_give_the_same_model_and_a_refit_to_them_too(series, found):
    assert_same(fitted(series), found)
    again, options = model(), model().fit(rows(series))
    assert again.refit(rows(series), rows(series), options) == options
    assert_same(again, found)


def test_a_season_that_would_cost_half_of_the_train_windows_is_not_read(series):
    made = fitted(series, of=rows(series, seasons=(WEEK, 600)))
    assert made.seasons == [WEEK] and made.rows < 0.5 * TRAIN
    assert fitted(series, of=rows(series, seasons=(WEEK, 300))).seasons == [WEEK, 300]


def test_a_refit_takes_the_number_that_val_chose_and_grows_on_all_rows(series, found):
    """The rows after val are of another law: they change the trees, not their number, nor before it the skip."""
    late = series.clone()
    late[VAL:] = 5 + flips((1, -1, 1, 1, -1, -1, -1))[VAL:]
    again = model()
    options = again.refit(rows(late), rows(late, train=N), model().fit(rows(late)))
    assert options["fitted"] == len(again.trees) == len(found.trees)
    assert error(again, late) < 0.5 * error(found, late)


def test_what_fit_returns_makes_a_model_of_the_same_shapes(series):
    for given in ({}, {"skip": "none"}, {"look_back": 20, "seasons": [9, 7]}):
        made = model(**given)
        options = made.fit(rows(series))
        other = model(**{**given, **options})
        other.load_state_dict(made.state_dict())
        known, _ = windows_of(made, series)
        assert other.look_back == made.look_back and other.seasons == made.seasons == sorted(made.seasons)
        assert torch.equal(other(*known), made(*known))


def test_where_the_time_is_short_there_are_fewer_trees_of_a_larger_share(series, found):
    short, long = model(seconds=0.0), model(seconds=1e6)
    options = short.fit(rows(series))
    assert options["trees"] == FEWEST_TREES >= len(short.trees) > 0
    assert options["learning_rate"] == pytest.approx(FASTEST) and options["seconds"] is None
    assert error(short, series) < 1.5 * error(found, series)
    assert long.fit(rows(series)) == model().fit(rows(series))
    known, _ = windows_of(found, series)
    assert torch.equal(long(*known), fitted(series)(*known))


def test_the_number_of_threads_changes_no_bit(series):
    with threadpool_limits(2):
        two = fitted(series, trees=3)
    assert_same(two, fitted(series, trees=3))


@pytest.mark.parametrize("seconds", [0.0, 1e6])
def test_a_refit_has_the_trees_of_the_held_out_model_whatever_time_these_took(series, seconds):
    held_out = model(seconds=0.0)
    options = held_out.fit(rows(series))
    again = model(seconds=seconds)
    assert again.refit(rows(series), rows(series), options) == options
    assert_same(again, held_out)


@pytest.mark.parametrize("skip", ["ridge", "none"])
@pytest.mark.parametrize(
    "sizes, more",
    [
        ({}, {"period": None, "seasons": ()}),
        ({}, {"period": None, "seasons": (), "train": 21}),
        ({"pred_len": 31}, {"train": 47}),
        ({"pred_len": 1}, {}),
        ({"seq_len": 3}, {"train": 9}),
        ({"seq_len": 1}, {"train": P + 1}),
        ({}, {"seasons": (WEEK, 700)}),
        ({}, {"made_up": tuple(range(N))}),
    ],
    ids=["no season", "few years", "far", "one step", "few windows", "one window", "long season", "no whole"],
)
def test_any_rows_are_fitted_to_and_forecast(series, sizes, more, skip):
    shape = window(**sizes)
    made = model(shape, skip=skip)
    options = made.fit(rows(series, **{"pred_len": shape.pred_len, **more}))
    given, truth = windows_of(made, series, first=0)
    assert made(*given).shape == truth.shape and made(*given).isfinite().all()
    assert options["look_back"] == made.rows and all(one <= made.rows for one in made.seasons)


def test_a_look_back_or_a_season_that_no_window_has_is_refused(series):
    with pytest.raises(ValueError, match=r"model\.look_back=1100: no train window has so many rows"):
        model(look_back=1100, skip="none").fit(rows(series))
    with pytest.raises(ValueError, match=r"model\.seasons=\[7, 40\]: 40 steps are more than the 20 rows"):
        model(look_back=20, seasons=[7, 40], skip="none").fit(rows(series))


@pytest.mark.parametrize(
    "word, said",
    [
        ("leaves=1", "must be greater than 1"),
        ("learning_rate=0", "must be above 0 and at most 1"),
        ("learning_rate=1.5", "must be above 0 and at most 1"),
        ("trees=0", "must be between 1 and 100000"),
        ("depth=0", "must be at least 1"),
        ("seasons=[0]", "must be at least 1"),
        ("look_back=0", "must be at least 1"),
        ("skip=dlinear", "none"),
        ("error=quantile", "absolute"),
        ("fitted=-1", "must be at least 0"),
    ],
)
def test_a_bad_option_is_refused_in_a_sentence(word, said):
    with pytest.raises(UserError, match=rf"model\.{word.split('=')[0]}.*{said}"):
        check_config(composed("data=csv", "data.path=README.md", "model=boosted_trees", f"model.{word}"))
