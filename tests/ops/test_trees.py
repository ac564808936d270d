"""Sums of trees as arrays: scikit-learn's own predictions are what they must give."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info

from forecast.ops import trees
from forecast.ops.trees import TreeSum, floor32, from_sklearn, grow

M, F = 997, 7
GROWTH = {"leaves": 13, "depth": 5, "learning_rate": 0.3, "error": "squared"}


def drawn(rows=M, seed=0):
    features = torch.randn(rows, F, generator=torch.Generator().manual_seed(seed))
    return features, features[:, 1] * (features[:, 3] > 0.3) + features[:, 0].sin()


def fitted(features, target, *, count=37, **changes):
    """A model of scikit-learn and ours, which is made from it."""
    growth = {**GROWTH, **changes}
    model = HistGradientBoostingRegressor(
        max_iter=count, max_leaf_nodes=growth["leaves"], max_depth=growth["depth"], early_stopping=False
    ).fit(features.numpy(), target.numpy())
    nodes = 2 * growth["leaves"] - 1
    return model, from_sklearn(model, np.arange(features.shape[1]), nodes=nodes, depth=growth["depth"])


def assert_same(ours, model, features):
    expected = torch.from_numpy(model.predict(features.numpy()))
    torch.testing.assert_close(ours(features).double(), expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize("shape", [{}, {"leaves": 2}, {"depth": 1}, {"leaves": 2, "depth": 1}, {"leaves": 61}])
@pytest.mark.parametrize("count", [1, 16, 37])
def test_they_say_what_scikit_learn_says(shape, count):
    model, ours = fitted(*drawn(), count=count, **shape)
    assert len(ours) == count
    assert_same(ours, model, drawn(seed=1)[0])


def test_a_value_at_a_threshold_goes_where_scikit_learn_sends_it():
    """Whole numbers, whose thresholds lie between them, and those thresholds and the float32 beside them."""
    features, target = drawn()
    features = features.mul(3).round()
    model, ours = fitted(features, target)
    asked = ours.get_buffer("threshold")[ours.get_buffer("threshold").isfinite()].unique()
    either = [asked.numpy(), *(np.nextafter(asked.numpy(), np.float32(end)) for end in (-np.inf, np.inf))]
    at = torch.from_numpy(np.concatenate(either))[:, None].expand(-1, F).contiguous()
    assert len(asked) > 5
    assert_same(ours, model, at)


def test_a_float32_lies_above_a_threshold_as_it_lies_above_the_float64_that_it_was():
    exact = np.array([0.1, -0.1, 1 / 3, 2.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0), 1e-46, -1e-46])
    floor = floor32(exact).numpy()
    values = np.concatenate([np.nextafter(floor, np.float32(end)) for end in (-np.inf, np.inf)] + [floor])
    for threshold, ours in zip(exact, floor, strict=True):
        assert ((values.astype(np.float64) > threshold) == (values > ours)).all()


def test_after_each_tree_are_the_stages_of_scikit_learn():
    features, target = drawn()
    model, ours = fitted(features, target)
    none, *stages = ours.after_each(features)
    assert not none.any() and len(stages) == 37
    for stage, expected in zip(stages, model.staged_predict(features.numpy()), strict=True):
        torch.testing.assert_close(stage.double(), torch.from_numpy(expected), rtol=0, atol=5e-6)
    assert torch.equal(stages[-1], ours(features))


@pytest.mark.parametrize("count", [0, 1, 17, 37])
def test_the_first_trees_are_the_sum_after_so_many(count):
    features, target = drawn()
    _, ours = fitted(features, target)
    first = ours.first(count)
    assert len(first) == count
    assert torch.equal(first(features), list(ours.after_each(features))[count])


def test_no_tree_adds_nothing():
    features, target = drawn()
    for none in (TreeSum(count=0, nodes=25, depth=5), grow(features, target, count=0, **GROWTH)):
        assert len(none) == 0 and not none(features).any() and not next(none.after_each(features)).any()


def test_rows_are_looked_up_in_parts_and_together_to_the_same_bits(monkeypatch):
    features, target = drawn()
    _, ours = fitted(features, target)
    together = ours(features)
    monkeypatch.setattr(trees, "ROWS_AT_ONCE", 89)
    assert torch.equal(ours(features), together)
    assert torch.equal(ours(features.T.contiguous().T), together)  # in another order in memory


def test_of_features_that_never_move_nothing_is_asked():
    features, target = drawn()
    features[:, [0, 4]] = 3.0
    ours = grow(features, target, count=11, **GROWTH)
    inner = ours.get_buffer("threshold").isfinite()
    assert not {0, 4} & set(ours.get_buffer("feature")[inner].tolist())
    model = HistGradientBoostingRegressor(
        max_iter=11, max_leaf_nodes=13, max_depth=5, learning_rate=0.3, min_samples_leaf=M // 50, early_stopping=False
    ).fit(features.numpy(), target.numpy())
    assert_same(ours, model, features)
    assert len(grow(torch.ones(M, F), target, count=11, **GROWTH)) == 0


@pytest.mark.parametrize("error", ["squared", "absolute"])
def test_what_is_lowered_is_the_error_that_is_named(error):
    """Of a target that is 0 or, in a third of the rows, 10 at random."""
    features = drawn()[0]
    target = 10.0 * (torch.rand(M, generator=torch.Generator().manual_seed(1)) < 0.3)
    centre = grow(features, target, count=3, **{**GROWTH, "error": error})(features).median()
    assert centre < 0.5 if error == "absolute" else centre > 2


def test_one_row_and_few_rows_are_enough():
    for rows in (1, 2, 3):
        features, target = drawn(rows)
        assert grow(features, target, count=5, **GROWTH)(features).isfinite().all()


def test_the_same_rows_give_the_same_trees():
    one, other = (grow(*drawn(), count=7, **GROWTH).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_trees_grow_on_the_processors_that_are_free(monkeypatch, four_threads):
    threads, fit = [], HistGradientBoostingRegressor.fit

    def watched(self, *data):
        threads.append({one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp"})
        return fit(self, *data)

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", watched)
    monkeypatch.setattr(trees, "free_threads", lambda: 1)
    before = {one["filepath"]: one["num_threads"] for one in threadpool_info()}
    grow(*drawn(), count=2, **GROWTH)
    assert threads == [{1}]
    assert {one["filepath"]: one["num_threads"] for one in threadpool_info()} == before


@pytest.mark.parametrize(("busy", "free"), [((), 3), ((1,), 2), ((0, 1), 1), ((0, 1, 2), 1), ((7,), 3)])
def test_of_three_processors_those_are_free_that_are_idle(tmp_path, monkeypatch, four_threads, busy, free):
    """Processor 7 is none that this process may use."""
    path, ticks = tmp_path / "stat", dict.fromkeys((0, 1, 2, 7), (100, 0, 10, 1000))

    def write():
        lines = [
            f"cpu{number} {user} {nice} {system} {idle} 0 0 0 0 0 0"
            for number, (user, nice, system, idle) in ticks.items()
        ]
        path.write_text("\n".join(["cpu  9 9 9 9 9 9 9 9 0 0", *lines, "intr 3 4"]))

    def pass_time(_):
        for number, (user, nice, system, idle) in ticks.items():
            ticks[number] = (user + 20, nice, system, idle) if number in busy else (user + 1, nice, system, idle + 19)
        write()

    write()
    monkeypatch.setattr(trees, "PROCESSORS", path)
    monkeypatch.setattr(trees.time, "sleep", pass_time)
    monkeypatch.setattr(trees.os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert trees.free_threads() == free


def test_where_the_system_does_not_say_trees_have_the_threads_of_torch(tmp_path, monkeypatch, four_threads):
    monkeypatch.setattr(trees, "PROCESSORS", tmp_path / "nowhere")
    assert trees.free_threads() == 4
    torch.set_num_threads(1)
    assert trees.free_threads() == 1
