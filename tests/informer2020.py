"""Reference files of the authors' code: sizes, tensors, and the keys that they drew."""

import json

import torch
from torch import nn

from forecast.attention.prob_informer2020 import Informer2020ProbAttention


class StoredSamples(nn.Module):
    """Returns the reference file's key numbers in call order instead of drawing them."""

    def __init__(self, samples):
        super().__init__()
        self.samples = iter(samples)

    def forward(self, n_queries, n_keys, n_samples, device):
        sample = next(self.samples)
        assert sample.shape == (n_queries, n_samples)
        return sample


def tensors(case, prefix):
    """The arrays of a reference file whose names begin with `prefix`, which is taken off."""
    return {key.removeprefix(prefix): torch.from_numpy(v) for key, v in case.items() if key.startswith(prefix)}


def samples(case):
    """The key numbers of all calls, in order."""
    by_number = tensors(case, "samples/")
    return [by_number[str(i)] for i in range(len(by_number))]


def use_samples(module, numbers):
    """All ProbSparse layers of a module take their keys from one list."""
    samples = StoredSamples(numbers)
    for layer in module.modules():
        if isinstance(layer, Informer2020ProbAttention):
            layer.sampler = samples


def config_of(case):
    """The sizes and options of a reference file."""
    return json.loads(str(case["config"]))
