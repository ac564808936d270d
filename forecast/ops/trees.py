"""Sums of regression trees as plain arrays: grown by scikit-learn, evaluated here."""

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

TREES_AT_ONCE, ROWS_AT_ONCE = 16, 4096  # looked up together: what they read and write stays in the cache
SEED = 0
PROCESSORS, LOOK = Path("/proc/stat"), 0.2  # what Linux says of its processors; seconds between two looks at it
TABLES = ("feature", "threshold", "child", "value")

Array = npt.NDArray[Any]
Error = Literal["squared", "absolute"]
LOSSES: dict[Error, Literal["squared_error", "absolute_error"]] = {
    "squared": "squared_error",
    "absolute": "absolute_error",
}


class TreeSum(nn.Module):
    """The sum of K regression trees of at most N nodes each, and a number.

    count: K. nodes: N. depth: how many questions lead to a leaf at most. A node asks whether a feature is above its
    threshold; no is its child, yes the node after that. A leaf is its own child, and no feature is above its threshold.
    """

    def __init__(self, *, count: int, nodes: int, depth: int) -> None:
        super().__init__()
        self.depth = min(depth, nodes)  # no way to a leaf has more questions
        self.register_buffer("feature", torch.zeros(count, nodes, dtype=torch.int32))
        self.register_buffer("threshold", torch.full((count, nodes), torch.inf))
        self.register_buffer("child", torch.zeros(count, nodes, dtype=torch.int32))
        self.register_buffer("value", torch.zeros(count, nodes))
        self.register_buffer("base", torch.zeros(()))

    def __len__(self) -> int:
        return self.get_buffer("feature").shape[0]

    def forward(self, features: Float[Tensor, "M F"]) -> Float[Tensor, "M"]:
        """Features (M, F) -> sums (M,)."""
        if torch.compiler.is_compiling():  # for any number of rows
            return self.of_all(features)
        return torch.cat([self.of_all(some) for some in torch.split(features, ROWS_AT_ONCE)])

    def of_all(self, features: Float[Tensor, "M F"]) -> Float[Tensor, "M"]:
        """`forward` of all rows together.

        One tree after the other: what a row gets does not depend on how many there are, as in a sum over trees.
        """
        # the sums on the way to the last are dropped as they come
        return deque(self.after_each(features), maxlen=1).pop()

    def after_each(self, features: Float[Tensor, "M F"]) -> Iterator[Float[Tensor, "M"]]:
        """The sums of none, for which 0 stands, of the first tree, of the first two, and so on."""
        total = features.new_zeros(features.shape[0])  # len would be a number in an exported program
        yield total
        total = total + self.get_buffer("base")
        for values in self.each(features):
            for tree_values in values:
                total = total + tree_values
                yield total

    def first(self, count: int) -> "TreeSum":
        """Of the first trees, without any 0."""
        trees = TreeSum(count=count, nodes=self.get_buffer("feature").shape[1], depth=self.depth)
        for name in TABLES:
            trees.get_buffer(name).copy_(self.get_buffer(name)[:count])
        if count:
            trees.get_buffer("base").copy_(self.get_buffer("base"))
        return trees

    def each(self, features: Float[Tensor, "M F"]) -> Iterator[Float[Tensor, "K M"]]:
        """The values (K, M) of a few trees after the other.

        Tables of int32 and `index_select` take a third of the time of int64 and brackets.
        """
        count, nodes = self.get_buffer("feature").shape
        size, like = features.shape[0], self.get_buffer("feature")
        # feature after feature, so that the rows of one question lie side by side
        read, column = features.T.flatten(), torch.arange(size, dtype=like.dtype, device=like.device)
        for first in range(0, count, TREES_AT_ONCE):
            tables = [self.get_buffer(name)[first : first + TREES_AT_ONCE] for name in TABLES]
            feature, threshold, value = (tables[i].flatten() for i in (0, 1, 3))
            root = torch.arange(0, len(feature), nodes, dtype=like.dtype, device=like.device).unsqueeze(1)
            begin, left = feature * size, (tables[2] + root).flatten()
            node, columns = root.expand(-1, size).flatten(), column.expand(len(root), -1).flatten()
            for _ in range(self.depth):
                feature_values = read.index_select(0, begin.index_select(0, node) + columns)
                # no branch: a way that has ended stays at its leaf, since no value is above an infinite threshold
                node = left.index_select(0, node) + (feature_values > threshold.index_select(0, node))
            yield value.index_select(0, node).view(len(root), size)


def grow(
    features: Float[Tensor, "M F"],
    target: Float[Tensor, "M"],
    *,
    count: int,
    leaves: int,
    depth: int,
    learning_rate: float,
    error: Error,
) -> TreeSum:
    """Boosts trees one after the other (Friedman 2001, on binned features as Ke et al. 2017, "LightGBM").

    count: of trees. leaves, depth: of each at most. learning_rate: the share of a tree's values that is added. error:
    whose mean over the rows is lowered. No feature may be NaN.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # here: a forecast needs the arrays alone
    from threadpoolctl import threadpool_limits

    rows = features.numpy()
    useful = np.flatnonzero((rows != rows[:1]).any(0))  # of one that never moves nothing can be asked
    if count and len(useful):
        model = HistGradientBoostingRegressor(
            loss=LOSSES[error],
            max_iter=count,
            max_leaf_nodes=leaves,
            max_depth=depth,
            min_samples_leaf=min(40, max(5, len(rows) // 50)),
            learning_rate=learning_rate,
            # the number of trees is chosen on validation windows; early stopping would split off train rows
            early_stopping=False,
            # the bins of very many rows are found on a random sample of them
            random_state=SEED,
        )
        with threadpool_limits(free_threads(), user_api="openmp"):  # their number changes no bit
            model.fit(rows[:, useful], target.numpy())
        return from_sklearn(model, useful, nodes=2 * leaves - 1, depth=depth)
    return TreeSum(count=0, nodes=2 * leaves - 1, depth=depth)


def free_threads() -> int:
    """How many threads may grow trees: as many as torch may use, and no more than there are idle processors.

    Threads of OpenMP wait for one another after each node, and burn their time while other work keeps one of them from
    running: two threads beside it take ten times as long as one (scikit-learn issue 30662).
    """
    most = torch.get_num_threads()
    if most == 1:
        return 1
    try:
        before = processor_times()
        time.sleep(LOOK)
        now = processor_times()
    except (OSError, ValueError, AttributeError):  # another system, which does not say
        return most
    passed = [now[number] - before[number] for number in now.keys() & before.keys()]
    idle = sum(float(ticks[3:5].sum() / max(1, ticks.sum())) for ticks in passed)
    return max(1, min(most, round(idle)))


def processor_times() -> dict[int, Array]:
    """Ticks of each processor that this process may use, in the order of proc(5); the fourth and fifth are idle."""
    ours, times = os.sched_getaffinity(0), {}
    for line in PROCESSORS.read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu" and (number := int(name[3:])) in ours:
            times[number] = np.array([int(tick) for tick in ticks[:8]])
    return times


class Predictor(Protocol):
    """A tree of scikit-learn's."""

    nodes: Array


class Boosted(Protocol):
    """What is used of a fitted HistGradientBoostingRegressor: its trees, and what they are added to.

    Private: scikit-learn has no public way to the nodes. Tests compare the sums with its own predictions.
    """

    _predictors: list[list[Predictor]]
    _baseline_prediction: Array


def from_sklearn(model: Boosted, useful: Array, *, nodes: int, depth: int) -> TreeSum:
    """The trees of a fitted HistGradientBoostingRegressor.

    useful (G,): the numbers, among all features, of those that it has seen.
    """
    trees = [iteration[0].nodes for iteration in model._predictors]
    tree_sum = TreeSum(count=len(trees), nodes=nodes, depth=depth)
    for tree, feature, threshold, child, value in zip(
        trees, *(tree_sum.get_buffer(name) for name in TABLES), strict=True
    ):
        order, children = siblings_together(tree)
        used, leaf = tree[order], torch.from_numpy(tree["is_leaf"][order].astype(bool))
        size = len(order)
        feature[:size] = torch.from_numpy(np.where(used["is_leaf"], 0, useful[used["feature_idx"]]))
        threshold[:size] = torch.where(leaf, torch.inf, floor32(used["num_threshold"]))
        child[:size] = torch.from_numpy(children)
        value[:size] = torch.from_numpy(used["value"].astype(np.float32))
    tree_sum.get_buffer("base").fill_(float(model._baseline_prediction.item()))
    return tree_sum


def siblings_together(tree: Array) -> tuple[Array, Array]:
    """An order of scikit-learn's nodes, a right child behind its left one, and where the left child of each stands."""
    order, children = [0], []
    for place, node in enumerate(order):  # it grows meanwhile
        if tree["is_leaf"][node]:
            children.append(place)
        else:
            children.append(len(order))
            order += [int(tree["left"][node]), int(tree["right"][node])]
    return np.array(order), np.array(children)


def floor32(values: Array) -> Tensor:
    """The largest float32 that are not above float64 values: what lies above the one lies above the other."""
    rounded = values.astype(np.float32)
    above = rounded.astype(np.float64) > values
    return torch.from_numpy(np.where(above, np.nextafter(rounded, np.float32(-np.inf)), rounded))
