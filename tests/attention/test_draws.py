"""Random draws of mechanisms: in evaluation by seed and layer alone, in training and without a seed afresh."""

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from forecast.attention.key_sampling import KeySampler, draw_by_order, draw_with_replacement, draw_without_replacement
from forecast.attention.lsh import LshAttention, Rotations
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_informer2020 import Informer2020ProbAttention

CPU = torch.device("cpu")
OF_KEYS = [partial(KeySampler, draw=draw) for draw in (draw_with_replacement, draw_without_replacement, draw_by_order)]
SAMPLERS = pytest.mark.parametrize(
    "sampler", [Rotations, *OF_KEYS], ids=["directions", "repeated keys", "keys", "keys of heads"]
)
SIZES = (17, 97, 5, CPU)  # queries, keys and samples; or width, rounds and directions


@SAMPLERS
def test_evaluation_draws_by_seed_and_layer_and_leaves_the_global_generator_alone(sampler):
    before = torch.get_rng_state()
    pairs = [(seed, layer) for seed in range(5) for layer in range(7)]
    draws = {tuple(sampler(eval_seed=s, layer=n).eval()(*SIZES).flatten().tolist()) for s, n in pairs * 2}
    assert len(draws) == len(pairs)
    assert torch.equal(torch.get_rng_state(), before)


@SAMPLERS
@pytest.mark.parametrize("training, eval_seed", [(True, 0), (False, None)])
def test_training_and_a_null_eval_seed_draw_afresh(sampler, training, eval_seed):
    draw = sampler(eval_seed=eval_seed, layer=0).train(training)
    assert not torch.equal(draw(*SIZES), draw(*SIZES))


def test_all_mechanisms_seed_their_draws_by_the_same_rule():
    """The numbers a checkpoint was evaluated with stay: seed * 1009 + layer."""
    expected = torch.randn(17, 97, 5, generator=torch.Generator().manual_seed(8 * 1009 + 3))
    assert torch.equal(Rotations(eval_seed=8, layer=3).eval()(*SIZES), expected)
    keys = torch.randint(97, (17, 5), generator=torch.Generator().manual_seed(8 * 1009 + 3))
    assert torch.equal(KeySampler(draw=draw_with_replacement, eval_seed=8, layer=3).eval()(*SIZES), keys)


@pytest.mark.parametrize(
    "kind, name, sampler",
    [
        (LshAttention, "rotations", Rotations),
        (Informer2020ProbAttention, "sampler", OF_KEYS[0]),
        (ProbAttention, "sampler", OF_KEYS[1]),
        (partial(ProbAttention, key_sampling="per_head"), "sampler", OF_KEYS[2]),
    ],
    ids=["lsh", "prob_informer2020", "prob", "prob per head"],
)
def test_an_attention_draws_in_its_own_way_from_its_seed_and_layer(kind, name, sampler):
    mechanism = kind(causal=False, layer=3, eval_seed=8).eval()
    assert torch.equal(getattr(mechanism, name)(*SIZES), sampler(eval_seed=8, layer=3).eval()(*SIZES))
    mechanism.train()
    assert not torch.equal(getattr(mechanism, name)(*SIZES), getattr(mechanism, name)(*SIZES))


@SAMPLERS
def test_what_is_kept_of_an_evaluation_is_drawn_anew_for_other_sizes(sampler):
    draw, (*sizes, third, device) = sampler(eval_seed=8, layer=3).eval(), SIZES
    first = draw(*SIZES)
    assert draw(*SIZES) is first  # no copy from the host
    other = draw(*sizes, third + 2, device)
    assert torch.equal(other, sampler(eval_seed=8, layer=3).eval()(*sizes, third + 2, device))
    with torch.inference_mode():
        kept = sampler(eval_seed=8, layer=3).eval()(*SIZES)
    assert not kept.is_inference() and torch.equal(kept, first)


def test_a_gpu_is_asked_as_often_for_many_keys_of_a_query_as_for_few():
    """Floyd's loop asks it once for each further key; a GPU waits longer for a launch than for the work."""

    class Launches(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
            self.count += 1
            return function(*args, **(kwargs or {}))

    counts = []
    for samples in (5, 40):
        with Launches() as launches:
            drawn = draw_without_replacement(720, 720, samples, device=torch.device("meta"), generator=None)
        assert drawn.shape == (720, samples)
        counts.append(launches.count)
    assert counts[0] == counts[1]
