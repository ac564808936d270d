"""Coverage, width, pinball loss, MSIS and quantile losses against formulas written out, and against utilsforecast."""

import numpy as np
import pandas as pd
import pytest
import torch
from utilsforecast import losses

from forecast.evaluation.scored_intervals import IntervalErrors

W, P, T, G = 11, 5, 2, 3
LEVELS = (20.0, 40.0, 60.0, 80.0, 95.0)
MEAN, STD = np.array([[1.0, -2.0], [0.5, 3.0], [4.0, 0.0]]), np.array([[2.0, 0.3], [1.5, 1.0], [0.7, 5.0]])
NAIVE = np.array([[1.3, 0.2], [0.9, 0.0], [2.0, 0.4]])  # the second series has no scale in the second column
GROUPS = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])


@pytest.fixture
def case():
    draws = torch.Generator().manual_seed(0)
    point, target = torch.randn(2, W, P, T, generator=draws)
    reach = torch.rand(2, W, P, T, len(LEVELS), generator=draws).cumsum(-1)
    measured = torch.rand(W, P, T, generator=draws) < 0.8
    return point, point[..., None] - reach[0], point[..., None] + reach[1], target, measured


def found(case, *, measured=None, sizes=(4, 7)):
    point, lower, upper, target, _ = case
    errors = IntervalErrors(LEVELS, (80.0, 95.0), P, mean=MEAN, std=STD)
    for some in torch.arange(W).split(list(sizes)):
        more = {"series": GROUPS[some], "measured": None if measured is None else measured[some]}
        errors.update(point[some], lower[some], upper[some], target[some], **more)
    return errors


def pinball(truth, ends, q):
    return np.maximum(q * (truth - ends), (q - 1) * (truth - ends))


def test_every_figure_is_that_of_its_formula(case):
    point, lower, upper, target = (part.double().numpy() for part in case[:4])
    metrics = found(case).metrics(["a", "b"], NAIVE)
    std, groups = STD[GROUPS][:, None], GROUPS.numpy()
    for k, level in ((3, "80"), (4, "95")):
        alpha = 1 - float(level) / 100
        low, high = lower[..., k], upper[..., k]
        inside = (low <= target) & (target <= high)
        score = high - low + 2 / alpha * (np.maximum(low - target, 0) + np.maximum(target - high, 0))
        block = metrics["levels"][level]
        assert block["coverage"] == pytest.approx(inside.mean()) == metrics["reliability"][level]
        assert block["width"] == pytest.approx((high - low).mean()) and block["score"] == pytest.approx(score.mean())
        both = (pinball(target, low, alpha / 2) + pinball(target, high, 1 - alpha / 2)) / 2
        assert block["pinball"] == pytest.approx(both.mean())
        for i, name in enumerate("ab"):
            column = metrics["columns"][name]["levels"][level]
            assert column["coverage"] == pytest.approx(inside[..., i].mean())
            assert column["width"] == pytest.approx(((high - low) * std)[..., i].mean())
            of_series = [(score * std)[groups == g][..., i].mean() / NAIVE[g, i] for g in range(G) if NAIVE[g, i]]
            assert column["msis"] == pytest.approx(np.mean(of_series))
    ends = {0.5: point} | {
        q: (lower if q < 0.5 else upper)[..., k]
        for q, k in zip((0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9), (0, 0, 1, 1, 2, 2, 3, 3), strict=True)
    }
    losses = sum(2 * pinball(target, end, q) for q, end in ends.items()) / 9 * std
    original = target * std + MEAN[GROUPS][:, None]
    for i, name in enumerate("ab"):
        assert metrics["columns"][name]["wql"] == pytest.approx(losses[..., i].sum() / np.abs(original[..., i]).sum())
        scaled = [losses[groups == g][..., i].mean() / NAIVE[g, i] for g in range(G) if NAIVE[g, i]]
        assert metrics["columns"][name]["sql"] == pytest.approx(np.mean(scaled))
    assert metrics["sql"] == pytest.approx(np.mean([metrics["columns"][name]["sql"] for name in "ab"]))


def test_a_cell_that_was_made_up_counts_nowhere(case):
    measured = case[4]
    changed = [part.clone() for part in case]
    changed[3][~measured] = 1e6
    one, other = (found(c, measured=measured).metrics(["a", "b"], NAIVE) for c in (case, changed))
    assert one == other != found(case).metrics(["a", "b"], NAIVE)


def test_batches_do_not_matter(case):
    one, other = (found(case, sizes=sizes) for sizes in ((4, 7), (1, 2, 8)))
    torch.testing.assert_close(one.score, other.score, rtol=1e-12, atol=0)
    torch.testing.assert_close(one.series_crps, other.series_crps, rtol=1e-12, atol=0)


def test_from_which_step_on_intervals_are_too_narrow():
    errors = IntervalErrors((80.0,), (80.0,), P, mean=np.zeros((1, 1)), std=np.ones((1, 1)))
    point, target = torch.zeros(10, P, 1), torch.zeros(10, P, 1)
    target[:2, 0] = target[:4, 3] = target[:5, 4] = 9.0  # of ten truths 8, 10, 10, 6 and 5 are held
    errors.update(point, point[..., None] - 1, point[..., None] + 1, target)
    block = errors.metrics(["a"], None)["levels"]["80"]
    assert block["narrow_from"] == 4 and block["msis"] is None
    assert errors.steps()["coverage_80"] == pytest.approx([0.8, 1.0, 1.0, 0.6, 0.5])


def test_figures_are_those_of_utilsforecast(case):
    point, lower, upper, target, _ = (
        part.double().numpy()[..., 0] if i in (0, 3) else part for i, part in enumerate(case)
    )
    lower, upper = (part.double().numpy()[:, :, 0] for part in (lower, upper))
    frame = pd.DataFrame({"unique_id": np.repeat(GROUPS.numpy(), P), "y": target.ravel(), "m": point.ravel()})
    for k, level in enumerate(LEVELS):
        frame[f"m-lo-{level:g}"], frame[f"m-hi-{level:g}"] = lower[..., k].ravel(), upper[..., k].ravel()
    errors = IntervalErrors(LEVELS, (80.0, 95.0), P, mean=np.zeros((G, 1)), std=np.ones((G, 1)))
    errors.update(*(part[:, :, :1] for part in case[:4]), series=GROUPS)
    levels = errors.metrics(["y"], None)["levels"]
    weights = np.bincount(GROUPS.numpy()) / W
    for level in (80, 95):
        held = losses.coverage(frame, ["m"], level)["m"].to_numpy()
        assert levels[str(level)]["coverage"] == pytest.approx((held * weights).sum())
        alpha = 1 - level / 100
        ends = [
            losses.quantile_loss(frame, {"m": f"m-{end}-{level}"}, q=q)["m"].to_numpy()
            for end, q in (("lo", alpha / 2), ("hi", 1 - alpha / 2))
        ]
        assert levels[str(level)]["pinball"] == pytest.approx((np.mean(ends, axis=0) * weights).sum())
