"""An attention that cannot serve a slot is refused before any data is read."""

import pytest
from config.composed import composed, refusal

from forecast.config.check import check_config

CROSS, DECODER = "cannot serve model.cross_attention", "cannot serve model.decoder_attention"
INSIDE = "it works inside one sequence and cannot attend to another"
CIRCULAR = "it shifts the sequence in a circle, so a step would see later ones"
WHOLE = "which steps a row sees depends on the whole sequence, so it cannot decode row by row with a cache"
REFUSED = {
    "attention@model.cross_attention=lsh": f"LshAttention {CROSS}: {INSIDE}. Say attention@model.cross_attention=full",
    "attention=strided attention@model.cross_attention=inherit": f"StridedAttention {CROSS}: {INSIDE}",
    "model=gpt attention=prob": f"ProbAttention {DECODER}: {WHOLE}. Say attention@model.decoder_attention=full",
    "attention=autocorrelation": f"AutoCorrelation {DECODER}: {CIRCULAR}",
    "model.decode=autoregressive attention=prob": f"ProbAttention {DECODER}: {WHOLE}",
    "model.decode=autoregressive attention=full attention@model.cross_attention=prob": f"{CROSS}: {WHOLE}",
    "model.decode=autoregressive attention=full model.mix=true": "autoregressive: mixed heads are not causal",
    "model.decode=autoregressive attention=full label_len=0": (
        "model.decode=autoregressive: the first step is made from the start token: label_len must be at least 1"
    ),
    "model=transformer seq_len=24 label_len=48": (
        "label_len=48: the decoder starts with the last label_len (48) of the seq_len (24) known steps"
    ),
    "model=dlinear attention=full": "attention: this model has none; leave attention= and attention.KEY= out",
    "attention=logsparse model.n_heads=7": "model.d_model=512: must be a multiple of model.n_heads (7)",
    "attention=strided attention.mechanism.heads=per_head model.d_model=15 model.n_heads=5": (
        "attention.mechanism.heads=per_head: half of the heads get each pattern: model.n_heads (5) must be even, or "
        "say heads=merged"
    ),
    "attention@model.encoder_attention=fixed model.encoder_attention.mechanism.heads=per_head model.n_heads=1": (
        "model.encoder_attention.mechanism.heads=per_head: half of the heads get each pattern: model.n_heads (1) must"
    ),
    **{
        f"attention={name} attention.mechanism.{key}=0": f"attention.mechanism.{key}=0: must be at least 1"
        for name, key in {"topk": "k", "lsh": "bucket_size", "strided": "window", "fixed": "block"}.items()
    },
    "attention=lsh attention.mechanism.n_hashes=0": "attention.mechanism.n_hashes=0: must be at least 1",
    "attention=logsparse attention.mechanism.sub_len=1": "attention.mechanism.sub_len=1: must be at least 2",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_an_attention_that_cannot_serve_is_refused_in_one_line(overrides):
    (line,) = refusal(overrides).splitlines()
    assert REFUSED[overrides] in line


ACCEPTED = [
    "attention@model.encoder_attention=lsh attention@model.decoder_attention=logsparse "
    "attention@model.cross_attention=prob",
    "attention=single_head attention@model.cross_attention=single_head model.n_heads=7",  # one head, whatever n_heads
    "attention=strided model.d_model=15 model.n_heads=5",  # odd heads, merged patterns
    "model=nlinear",  # a model without attention
    "attention=none attention@model.cross_attention=mean",  # no mixing at all but by the convolutions
    "model.decode=autoregressive attention=topk",  # step by step
    "model.decode=autoregressive attention@model.encoder_attention=lsh attention@model.decoder_attention=fixed",
    "attention@model.encoder_attention=autocorrelation attention@model.cross_attention=autocorrelation",
    "model=patchtst attention=autocorrelation",  # an encoder alone
    "model=reformer attention=prob",  # prob in an encoder
    "model=patchtst seq_len=24 label_len=48",  # a start token that the model does not have
]


@pytest.mark.parametrize("overrides", ACCEPTED)
def test_what_can_serve_is_accepted(overrides):
    check_config(composed(*overrides.split()))


def test_a_model_without_attention_has_none_in_its_config():
    assert "attention" not in composed("model=dlinear")
