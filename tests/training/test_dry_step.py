"""What torch refuses of loss, optimizer and schedule is refused before the data are read, in its words."""

import pytest
import torch
from config.composed import composed

from forecast.apps.common.parts import build_parts
from forecast.config.check import check_config
from forecast.config.compose import plain_values
from forecast.config.run_config import RunConfig
from forecast.errors import UserError

OPTIM, TORCH = "optim._target_=torch.optim", "schedule._target_=torch.optim.lr_scheduler"
BARE = "~optim.betas ~optim.eps ~optim.weight_decay"


def config(overrides):
    cfg = composed(*overrides.split())
    check_config(cfg)
    return RunConfig.of(plain_values(cfg))


WORKS = [
    *("optim=adam", "optim=adamw", "optim=sgd optim.nesterov=true", "loss=mae", "loss=huber", "+loss.reduction=mean"),
    *("loss=quantile", "loss=normal", "loss=student_t"),
    *(f"schedule={name}" for name in ("constant", "decay_90", "halve_each_epoch", "cosine", "warmup_cosine")),
    *("schedule=plateau", "loss._target_=torch.nn.SmoothL1Loss +loss.beta=0.5"),
    # every optimizer that dense gradients do for
    *(f"{OPTIM}.{name}" for name in ("RAdam", "NAdam", "Adamax")),
    *(f"{OPTIM}.{name} {BARE}" for name in ("ASGD", "Adadelta", "Adafactor", "Adagrad", "LBFGS", "RMSprop", "Rprop")),
    # every scheduler that text and numbers can say
    f"{TORCH}.StepLR +schedule.step_size=2",
    f"{TORCH}.MultiStepLR +schedule.milestones=[1,3]",
    f"{TORCH}.ConstantLR",
    f"{TORCH}.LinearLR",
    f"{TORCH}.ExponentialLR +schedule.gamma=0.9",
    f"{TORCH}.PolynomialLR",
    f"{TORCH}.CosineAnnealingLR +schedule.T_max=4",
    f"{TORCH}.CosineAnnealingWarmRestarts +schedule.T_0=2",
    f"{TORCH}.CyclicLR +schedule.base_lr=0.1 +schedule.max_lr=1 +schedule.cycle_momentum=false",
    f"{TORCH}.OneCycleLR +schedule.max_lr=1",
    f"{TORCH}.ReduceLROnPlateau",
]


@pytest.mark.parametrize("overrides", WORKS)
def test_what_torch_can_do_passes_and_draws_nothing(overrides):
    state = torch.random.get_rng_state()
    build_parts(config(overrides))
    assert torch.equal(torch.random.get_rng_state(), state)


LOSSES = (
    "Its arguments are keys, +loss.NAME=VALUE; complete is loss=NAME, one of frequency, huber, mae, mse, "
    "normal, quantile, student_t"
)
SCHEDULES = (
    "Its arguments are keys, +schedule.NAME=VALUE; complete is schedule=NAME, one of constant, cosine, decay_90, "
    "halve_each_epoch, plateau, warmup_cosine"
)
REFUSED = {
    f"{TORCH}.StepLR": "StepLR.__init__() missing 1 required positional argument: 'step_size'. " + SCHEDULES,
    f"{TORCH}.SequentialLR": "missing 2 required positional arguments: 'schedulers' and 'milestones'. " + SCHEDULES,
    f"{TORCH}.LambdaLR +schedule.lr_lambda=x": SCHEDULES,
    "schedule=plateau schedule.factor=1.5": "Factor should be < 1.0. " + SCHEDULES,
    f"{OPTIM}.SparseAdam ~optim.weight_decay": "SparseAdam does not support dense gradients",
    "optim=sgd optim.nesterov=true optim.momentum=0": "Nesterov momentum requires a momentum",
    "loss._target_=torch.nn.GaussianNLLLoss": "missing 1 required positional argument",
    "loss._target_=torch.nn.Identity": "positional argument",
    "loss._target_=torch.nn.PairwiseDistance": f"of the shape (1, 1), and a loss is one number. {LOSSES}",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_what_torch_refuses_is_said_with_its_group_and_class(overrides):
    with pytest.raises(UserError) as error:
        build_parts(config(overrides))
    key, _, said = str(error.value).partition("=")
    assert key in ("optim._target_", "schedule._target_", "loss._target_")
    assert REFUSED[overrides] in said
