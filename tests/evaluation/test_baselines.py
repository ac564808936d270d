"""The baselines against plain loops and against measured rows."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from forecast.data.prepare import prepare
from forecast.data.sources import CatalogSource
from forecast.data.split import RowSplit, split_rows
from forecast.evaluation.baselines import ClosedFormNLinear, LastValue, SeasonalNaive, fit_nlinear
from forecast.evaluation.evaluate import Protocol, evaluate, fit_baselines

B, L, C, P = 2, 11, 5, 7
NOTHING = torch.empty(B, L, 0), torch.empty(B, P, 0)


def past():
    return torch.randn(B, L, C, generator=torch.Generator().manual_seed(0))


def test_last_value_repeats_the_last_value_of_each_target():
    x = past()
    out = LastValue([3, 1], P)(x, *NOTHING)
    assert out.shape == (B, P, 2)
    for step in range(P):
        assert torch.equal(out[:, step], x[:, -1, [3, 1]])


@pytest.mark.parametrize("period", [1, 3, 11])
def test_seasonal_naive_repeats_the_last_full_period(period):
    x = past()
    out = SeasonalNaive([0, 4], P, period=period)(x, *NOTHING)
    for step in range(P):
        assert torch.equal(out[:, step], x[:, L - period + step % period, [0, 4]])
    later = SeasonalNaive([0, 4], P, period=period, offset=13).extend(x)
    longer = SeasonalNaive([0, 4], 13 + P, period=period).extend(x)
    assert torch.equal(later, longer[:, 13:])


def test_closed_form_nlinear_is_the_ridge_solution_over_all_windows_and_columns():
    generator = np.random.default_rng(0)
    windows, targets = generator.normal(size=(37, L, 3)), generator.normal(size=(37, P, 3))
    rows, sides = [], []
    for w in range(37):
        for c in range(3):
            rows.append([*(windows[w, :-1, c] - windows[w, -1, c]), 1.0])
            sides.append(targets[w, :, c] - windows[w, -1, c])
    x, y = np.array(rows), np.array(sides)
    ridge = 1e-3 * np.trace(x.T @ x) / L
    # ridge regression is least squares with extra rows
    stacked = np.concatenate([x, np.sqrt(ridge) * np.eye(L)])
    expected = np.linalg.lstsq(stacked, np.concatenate([y, np.zeros((L, P))]), rcond=None)[0].T
    batches = [(torch.from_numpy(windows[i : i + 8]), torch.from_numpy(targets[i : i + 8])) for i in range(0, 37, 8)]
    weight = fit_nlinear(batches)
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-8, atol=1e-10)
    out = ClosedFormNLinear([0, 1, 2], P, weight=weight).extend(torch.from_numpy(windows))
    column, last = windows[5, :, 2], windows[5, -1, 2]
    np.testing.assert_allclose(out[5, :, 2].numpy(), expected @ [*(column[:-1] - last), 1] + last)


def test_closed_form_nlinear_is_fitted_and_applied_in_float64_to_float32_windows():
    generator = torch.Generator().manual_seed(0)
    windows = 100 + torch.randn(37, L + P, 3, generator=generator)
    x, y = windows[:, :L], windows[:, L:]
    weight = fit_nlinear([(x, y)])
    assert torch.equal(weight, fit_nlinear([(x.double(), y.double())]))
    model = ClosedFormNLinear([0, 1, 2], P, weight=weight)
    assert torch.equal(model.extend(x), model.extend(x.double()).float())


def test_closed_form_nlinear_continues_a_line():
    line = torch.arange(60, dtype=torch.float64)
    windows = line.unfold(0, L + P, 1).unsqueeze(-1)
    weight = fit_nlinear([(windows[:, :L], windows[:, L:])])
    out = ClosedFormNLinear([0], P, weight=weight).extend(windows[-1:, :L])
    torch.testing.assert_close(out[0, :, 0], line[-P:], rtol=1e-2, atol=0)


def published():
    file = Path(__file__).parents[3] / "shared/reference/published_results.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8") as lines:
        return [row for row in csv.DictReader(lines) if row["source"] == "measured-all-windows"]


@pytest.mark.parametrize("features", ["M", "S"])
@pytest.mark.parametrize("name", ["ETTh1", "ETTh2"])
@pytest.mark.parametrize("pred_len", [24, 48, 96, 168, 192, 336, 720])
def test_baselines_reproduce_the_measured_rows(ett_root, name, features, pred_len):
    rows = [r for r in published() if (r["dataset"], r["features"], r["pred_len"]) == (name, features, str(pred_len))]
    if not rows:
        pytest.skip("no published_results.csv, or no row of these settings in it")
    errors = baseline_errors(ett_root, name, features, pred_len)
    compared = 0
    for row in rows:
        baseline = {"seasonal_naive_24": "seasonal_naive"}.get(row["model"], row["model"])
        if baseline in errors:
            expected = {key: float(row[key]) for key in ("mse", "mae")}
            assert errors[baseline] == pytest.approx(expected, abs=0.001), row
            compared += 1
    assert compared


def baseline_errors(root, name, features, pred_len, *, protocol=None):
    split, lengths = RowSplit(train=8640, val=2880, test=2880), {"seq_len": 336, "pred_len": pred_len}
    source = CatalogSource(name=name, root=str(root), features=features, target="OT", split=split)
    frame = source.frame()
    targets = source.target_columns(frame)
    data = prepare(frame, splits=split_rows(frame, split, **lengths), targets=targets, encoding="timeF", **lengths)
    options = {"split": "test", "protocol": protocol or Protocol(), "batch_size": 256, "device": torch.device("cpu")}
    evaluation = evaluate(LastValue(targets, pred_len), data, fitted=fit_baselines(data), **options)
    return {key: sums.overall(data.target_std)["scaled"] for key, sums in evaluation.baselines.items()}


@pytest.mark.parametrize(
    "pred_len, mse, mae", [(96, 1.295, 0.713), (192, 1.325, 0.733), (336, 1.323, 0.744), (720, 1.339, 0.756)]
)
def test_dropping_the_last_batch_of_32_gives_the_published_repeat_row(ett_root, pred_len, mse, mae):
    """Zeng et al. 2023 evaluated in batches of 32 and left the last one out, as the Informer's code does."""
    errors = baseline_errors(ett_root, "ETTh1", "M", pred_len, protocol=Protocol(drop_last_of=32))
    assert errors["last_value"] == pytest.approx({"mse": mse, "mae": mae}, abs=0.0006)
