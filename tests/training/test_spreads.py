"""Losses that ask a model for more than a point: through training, checkpoint, resuming, evaluation and forecast."""

import csv
import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from checkpoints import DEMO, LENGTHS, write_untrained
from program import TINY, call, refusal
from training.test_exact_resume import assert_equal_results, content, interrupted

from forecast.checkpoint.load import load_checkpoint
from forecast.data.windows import Batch
from forecast.errors import UserError
from forecast.models.spread import Normal, Quantiles, StudentT
from forecast.training.module import ForecastModule
from forecast.training.schedule import constant

KINDS = {"quantile": Quantiles, "normal": Normal, "student_t": StudentT}
B, L, P, C = 3, 4, 5, 2


class OfThePast(torch.nn.Module):
    """The same parameters for each step of a window but the first, all columns."""

    def __init__(self, spread):
        super().__init__()
        self.spread = spread
        self.raw = torch.nn.Parameter(torch.linspace(-1, 1, spread.n_outputs))

    def training_outputs(self, past, _, __, future):
        truth = torch.cat([past[:, 1:], future], dim=1)
        return self.spread.from_raw(self.raw.expand(*truth.shape, -1)), truth


SPREADS = [lambda: Quantiles(levels=[0.1, 0.3, 0.9]), Normal, StudentT]


def stubbed(spread):
    module = ForecastModule(OfThePast(spread), optimizer=torch.optim.Adam, schedule=constant, record={})
    module._trainer, logged = SimpleNamespace(datamodule=None), {}
    module.log = lambda name, value, **_: logged.update({name: float(value.detach())})
    return module, logged


@pytest.mark.parametrize("make", SPREADS)
def test_cells_that_nobody_measured_count_in_no_loss_of_a_spread(make):
    spread = make()
    module, logged = stubbed(spread)
    draws = torch.Generator().manual_seed(0)
    window, learnt = torch.randn(B, L + P, C, generator=draws), torch.rand(B, L + P, C, generator=draws) > 0.3
    window[~learnt] = 1e6
    batch = Batch(window[:, :L], None, None, window[:, L:], window[:, L:], None, learnt[:, L:], learnt)
    cells = []
    for b, row, c in torch.argwhere(learnt[:, 1:]).tolist():
        parameters = spread.from_raw(module.model.raw.detach()[None, None, None])
        cells.append(float(spread(parameters, window[b, 1 + row, c][None, None, None]).detach()))
    loss = module.training_step(batch)
    assert float(loss.detach()) == pytest.approx(sum(cells) / len(cells), rel=1e-5)
    assert logged == {"train/loss_scaled": float(loss.detach())}
    loss.backward()
    assert module.model.raw.grad.abs().max() < 10
    with pytest.raises(UserError, match=r"the model learns rows of its own, \(3, 8, 2\)"):
        module.training_step(batch._replace(learnt=None))
    whole = module.training_step(batch._replace(learnt=None, measured=None))
    assert float(whole.detach()) > 2 * float(loss.detach())


def test_what_a_spread_learns_stands_once_among_the_weights():
    module, _ = stubbed(StudentT())
    assert [name for name in module.state_dict() if "freedom" in name] == ["model.spread.raw_freedom"]


@pytest.mark.parametrize("loss", KINDS)
def test_a_checkpoint_says_what_its_models_numbers_are(loss, tmp_path):
    targets = ["data.features=MS", "model=gpt"]  # which learns all columns
    model = load_checkpoint(write_untrained(tmp_path / "a.ckpt", f"loss={loss}", *targets, *DEMO, *LENGTHS)).model()
    assert type(model.spread) is KINDS[loss]
    assert model.window.outputs == model.spread.n_outputs
    if loss == "student_t":
        assert model.spread.raw_freedom.shape == (model.window.n_columns,)
        assert model.spread.target_freedom.shape == (1,)


def test_a_checkpoint_with_weights_for_other_levels_is_refused(tmp_path):
    path = write_untrained(tmp_path / "a.ckpt", "loss=quantile", "loss.levels=[0.1,0.9]", *DEMO, *LENGTHS)
    saved = torch.load(path, weights_only=True)
    saved["forecast"]["config"]["loss"]["levels"] = [0.1, 0.3, 0.9]
    torch.save(saved, path)
    with pytest.raises(UserError, match=r"(?s)its weights are not those of the model in its config.*size mismatch"):
        load_checkpoint(path).model()
    saved["forecast"]["config"]["loss"]["levels"] = [0.9, 0.1]
    torch.save(saved, path)
    with pytest.raises(UserError, match=r"cannot be built: .*must be two levels or more, each above the one before"):
        load_checkpoint(path).model()


@pytest.mark.parametrize("loss", KINDS)
def test_a_run_is_evaluated_again_to_the_same_figures_and_forecasts(loss, tmp_path):
    run, again, output = tmp_path / "run", tmp_path / "again", tmp_path / "forecast.csv"
    few = ["trainer.limit_train_batches=3", "logger=none", "checks.leakage=false"]
    call("train", *TINY, f"loss={loss}", *few, f"hydra.run.dir={run}")
    metrics = json.loads((run / "metrics.json").read_text())
    best = run / "checkpoints/best.ckpt"
    call("evaluate", f"ckpt_path={best}", "device=cpu", f"hydra.run.dir={again}")
    assert json.loads((again / "metrics.json").read_text())["test"] == metrics["test"]
    call("predict", f"ckpt_path={best}", f"output={output}", "device=cpu", f"hydra.run.dir={tmp_path}/p")
    assert len(list(csv.reader(output.read_text().splitlines()))) == 1 + 5


# the second has a number of its own to learn, and rows that feed themselves
RESUMED = [["loss=quantile"], ["loss=student_t", "model=gpt"]]


@pytest.mark.parametrize("arguments", [RESUMED[0], pytest.param(RESUMED[1], marks=pytest.mark.slow)])
def test_a_run_with_a_spread_is_resumed_to_the_same_bits(arguments, tmp_path):
    few = ["trainer.max_epochs=2", "trainer.limit_train_batches=4", "logger=none"]
    whole, copies = interrupted(tmp_path, *arguments, *few, "callbacks.checkpoint.every_n_train_steps=3")
    step = content(copies[0], "last")["global_step"]
    assert 0 < step < content(whole, "last")["global_step"]
    run = shutil.copytree(copies[0], tmp_path / "run")
    call("train", f"ckpt_path={run}/checkpoints/last.ckpt")
    assert_equal_results(run, whole)


@pytest.mark.parametrize("model", ["ridge", "boosted_trees", "seasonal_naive"])
def test_a_model_that_is_fitted_at_once_is_refused_with_what_gives_it_intervals(model, capsys, tmp_path):
    words = [f"model={model}", "loss=quantile", *DEMO, *LENGTHS, f"hydra.run.dir={tmp_path}/run"]
    message = refusal(capsys, "train", *words)
    assert "fitted at once and trains on no loss: leave loss= out. Its intervals come" in message
