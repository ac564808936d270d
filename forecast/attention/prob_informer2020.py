"""ProbSparse attention as in the authors' code, defects included."""

from forecast.attention.prob import ProbAttention
from forecast.bounds import Positive, Scale, Seed


class Informer2020ProbAttention(ProbAttention):
    """ProbSparse attention as the authors' code computes it (Informer2020 at 29f2a73; tests/golden).

    Differs from `ProbAttention`: keys are sampled with replacement; the measure divides the sum over the sampled keys
    by the number of all keys and looks at later keys also when causal; an inactive row of a causal layer is the sum of
    its past, not the mean; there is no dropout on the weights. The authors draw fresh keys in evaluation too:
    `eval_seed=None`. It masks no keys.
    """

    masks_padding = False

    def __init__(
        self,
        *,
        causal: bool,
        layer: int,
        factor: Positive = 5,
        scale: Scale | None = None,
        eval_seed: Seed | None = 0,
    ) -> None:
        super().__init__(
            causal=causal,
            layer=layer,
            factor=factor,
            key_sampling="with_replacement",
            divisor="all",
            causal_measure="all",
            inactive="sum",
            scale=scale,
            eval_seed=eval_seed,
        )
