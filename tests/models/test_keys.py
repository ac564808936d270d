"""What the models that make all steps at once claim alike: no dead key, no dead weight, no input without effect."""

import pytest
import torch
from models.inputs import batch, make_model, reached
from models.small import FULL, PROB, SIZES
from models.test_informer_stack import stack
from models.test_patchtst import patchtst
from models.test_reformer import reformer
from models.test_sha import sha
from models.test_transformer import SLOTS, transformer

from forecast.models.informer import Informer


def informer(**changes):
    return make_model(Informer, {**SIZES, **SLOTS}, changes)


def sha_with_heads(**changes):
    return sha(**{"slot": FULL, **changes})


MAKERS = {"informer": informer, "stack": stack, "transformer": transformer, "reformer": reformer, "sha": sha}
OF_ALL = [{"d_model": 26}, {"n_heads": 1}, {"d_ff": 29}, {"embedding": "fixed"}, {"instance_norm": True}]
RELU, LATER = {"activation": "relu"}, [{"label_len": 8}, {"decode": "autoregressive"}, {"decoder_layers": 2}]
STACKS = [{"stack_layers": [3, 2]}, {"stack_layers": [3, 1, 2]}, {"slot": PROB}, {"distil": False}, {"mix": True}]
CHANGES = {
    informer: [RELU, {"d_ff": 29}, {"embedding": "fixed"}, {"distil": False}, {"mix": True}],
    stack: [*OF_ALL, RELU, *LATER, *STACKS],
    transformer: [*OF_ALL, RELU, *LATER, {"encoder_layers": 1}, *({slot: PROB} for slot in SLOTS)],
    reformer: [*OF_ALL, RELU, {"encoder_layers": 2}, {"slot": PROB}],
    sha: [{"d_model": 33}, {"d_ff": 44}, {"decoder_layers": 1}, *OF_ALL[3:], {"slot": FULL}],
    sha_with_heads: [{"n_heads": 1}],
    patchtst: [RELU, {"patch_len": 5}, {"stride": 2}, {"instance_norm": True}, {"n_heads": 7}],
}


@pytest.mark.parametrize(
    "make, change",
    [(make, change) for make, changes in CHANGES.items() for change in changes],
    ids=lambda part: getattr(part, "__name__", None) or next(iter(part)),
)
def test_each_key_changes_the_forecast(make, change):
    known = torch.ones(2, 24, 4)  # integers for embedding=fixed
    inputs = batch()[0], known[:, :19], known[:, 19:]
    assert not torch.allclose(make().eval()(*inputs), make(**change).eval()(*inputs))


@pytest.mark.parametrize("name", ["past", "past_known", "future_known"])
@pytest.mark.parametrize("make", [informer, stack, transformer, lambda: reformer(FULL), sha], ids=MAKERS)
def test_every_input_reaches_every_step_of_the_forecast(make, name):
    assert all(reached(make(), name))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_parameter_gets_a_gradient(make):
    model = make(mix=True) if make in (informer, stack) else make()
    model(*batch()).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


@pytest.mark.parametrize("make", [sha, transformer])
def test_a_forecast_step_does_not_see_the_calendar_after_it(make):
    """Nor can it see the future itself: the model does not get it."""
    assert reached(make(decoder_layers=2), "future_known", slice(3, None)) == [False, False, False, True, True]
