"""Networks side by side whose mean is the forecast: networks=N."""

import pytest
import torch
from models.inputs import batch
from models.small import informer, window_shape
from models.test_fitted import rows as fitting_rows
from models.test_fitted import season, window
from models.test_informer_plus import plus
from program import BRIEF, call, refusal

from forecast.checkpoint.load import load_checkpoint
from forecast.models.ensemble import Ensemble
from forecast.models.spread import Normal, Quantiles

N, P = 3, 5


def members(make=informer, **changes):
    torch.manual_seed(2)
    return [make(**changes).eval() for _ in range(N)]


def test_the_forecast_is_the_mean_of_its_members():
    some = members()
    each = torch.stack([one(*batch()) for one in some])
    assert not torch.allclose(each[0], each[1])
    torch.testing.assert_close(Ensemble(some).eval()(*batch()), each.mean(0))


def test_each_member_learns_from_its_own_error_as_it_would_alone():
    """The gradient is an N-th of what it has alone, which Adam does not see."""
    some, alone = members(), members()
    ensemble, (past, *known) = Ensemble(some), batch()
    future = torch.randn(2, P, 3, generator=torch.Generator().manual_seed(1))
    forecast, truth = ensemble.training_outputs(past, *known, future)
    assert forecast.shape == truth.shape == (N * 2, P, 3)
    (forecast - truth).square().mean().backward()
    for ours, theirs in zip(some, alone, strict=True):
        (theirs(past, *known) - future).square().mean().backward()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.grad * N, other.grad)


@pytest.mark.parametrize("spread", [Quantiles(levels=[0.1, 0.5, 0.9]), Normal()], ids=["quantiles", "normal"])
def test_of_a_spread_the_mean_of_each_parameter(spread):
    some = [plus(window_shape(outputs=spread.n_outputs)) for _ in range(N)]
    for one in some:
        torch.nn.init.normal_(one.network.decoder.head.weight)
    ensemble = Ensemble(some)
    ensemble.add_spread(spread)
    each = torch.stack([one.predicted(*batch()) for one in some])
    torch.testing.assert_close(ensemble.predicted(*batch()), each.mean(0))
    point, lower, upper = ensemble.interval(*batch(), [80])
    assert (lower[..., 0] < point).all() and (point < upper[..., 0]).all()


def test_what_is_fitted_before_the_training_is_fitted_once_and_shared():
    shape = window(targets=(0, 1), n_columns=2, label_len=3)
    some = [plus(shape, skip="ridge") for _ in range(N)]
    ensemble = Ensemble(some)
    options = ensemble.prepare(fitting_rows(season(13, noise=0.3, n_targets=2), period=13))
    assert options["skip_options"]["look_back"] == ensemble.look_back
    assert all(torch.equal(one.skip.weight, some[0].skip.weight) for one in some)
    assert some[0].skip.weight.abs().sum() > 0
    assert some[1].skip is not some[0].skip


def test_a_run_with_seeds_leaves_one_checkpoint_that_forecasts_with_the_mean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    linear = [word for word in BRIEF if not word.startswith("model.")]
    call("train", *linear, "model=dlinear", "networks=2", f"hydra.run.dir={tmp_path}/run")
    best = load_checkpoint(tmp_path / "run/checkpoints/best.ckpt")
    model = best.model()
    past, known, future = (torch.randn(3, rows, width) for rows, width in ((19, 7), (19, 4), (5, 4)))
    each = torch.stack([one(past, known, future) for one in model.members])
    assert len(each) == 2 and not torch.allclose(each[0], each[1])
    torch.testing.assert_close(model(past, known, future), each.mean(0))
    for words in (["predict", "output=f.csv"], ["evaluate", f"hydra.run.dir={tmp_path}/e"]):
        call(words[0], f"ckpt_path={best.path}", *words[1:])
    call("export", best.path, "exported.pt2")


def test_one_seed_is_the_run_of_before(tmp_path):
    for name, words in {"one": ["networks=1"], "none": []}.items():
        call("train", *BRIEF, "trainer.limit_train_batches=2", *words, f"hydra.run.dir={tmp_path}/{name}")
    one, none = (load_checkpoint(tmp_path / name / "checkpoints/best.ckpt").weights for name in ("one", "none"))
    assert all(torch.equal(value, one[key]) for key, value in none.items()) and one.keys() == none.keys()


def test_seeds_of_a_model_that_draws_nothing_are_refused(tmp_path, capsys):
    message = refusal(capsys, "train", "model=ridge", "data=demo", "networks=5", f"hydra.run.dir={tmp_path}")
    assert "networks=5" in message and "every seed gives the same. Leave networks out" in message
    message = refusal(capsys, "train", "data=demo", "networks=0", f"hydra.run.dir={tmp_path}")
    assert "networks=0: must be between 1 and 1000" in message
