"""The Informer with several encoders side by side."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import Unpack

from forecast.bounds import Layers
from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.blocks import BlockSizes
from forecast.models.base import WindowShape
from forecast.models.informer import DecodeName, DistillingEncoder, Informer, InformerOptions


class InformerStack(Informer):
    """An `Informer` whose encoder is a stack of encoders, each of which reads half as many of the latest steps.

    Zhou et al. 2021, "Self-attention Distilling", as `EncoderStack` in the authors' code at 29f2a73 (tests/golden,
    with `attention=prob_informer2020` and `mix=true`). The paper stacks an encoder of three layers on the whole window
    and one of a single layer on its last quarter; the code, by default, three encoders: `stack_layers=[3, 2, 1]`.

    stack_layers: how many layers each encoder has; the i-th, from 0, reads the last floor(L / 2^i) steps. The other
        arguments are those of `Informer`.
    Raises ValueError unless each encoder has a layer and a step to read.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        stack_layers: Sequence[Layers],
        distil: bool,
        mix: bool,
        instance_norm: bool = False,
        decode: DecodeName = "one_shot",
        **options: Unpack[InformerOptions],
    ) -> None:
        check_stacks(stack_layers, window.seq_len)
        self.stack_layers = tuple(stack_layers)  # before Informer's constructor, which calls make_encoder
        super().__init__(
            window=window,
            encoder_layers=sum(stack_layers),
            distil=distil,
            mix=mix,
            instance_norm=instance_norm,
            decode=decode,
            **options,
        )

    def make_encoder(
        self, sizes: BlockSizes, attention: AttentionFactories, *, n_layers: int, distil: bool
    ) -> nn.Module:
        """The encoders side by side, their attention layers numbered from 0 to n_layers - 1."""
        encoders, first = [], 0
        for layers in self.stack_layers:
            encoders.append(DistillingEncoder(sizes, attention, n_layers=layers, distil=distil, first=first))
            first += layers
        return EncoderStack(encoders)


class EncoderStack(nn.Module):
    """Encoders side by side: the i-th reads the last floor(L / 2^i) steps; what they say is joined along time."""

    def __init__(self, encoders: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)

    def forward(
        self, x: Float[Tensor, "B L D"], key_padding_mask: Bool[Tensor, "B L"] | None = None
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"] | None]:
        """As `DistillingEncoder`: (B, L, D) -> (B, M, D), M the sum of the encoders' own lengths."""
        length = x.shape[1]
        encoded, masks = [], []
        for i, encoder in enumerate(self.encoders):
            latest = slice(length - length // 2**i, None)
            rows, mask = encoder(x[:, latest], None if key_padding_mask is None else key_padding_mask[:, latest])
            encoded.append(rows)
            masks.append(mask)
        return torch.cat(encoded, dim=1), None if key_padding_mask is None else torch.cat(masks, dim=1)


def check_stacks(stack_layers: Sequence[int], seq_len: int) -> None:
    """Raises ValueError unless each of the encoders has at least one layer and at least one of `seq_len` steps."""
    if not stack_layers or min(stack_layers) < 1:
        raise ValueError(
            f"stack_layers={list(stack_layers)} must name the layers of at least one encoder, at least 1 each"
        )
    most = seq_len.bit_length()
    if len(stack_layers) > most:
        raise ValueError(
            f"stack_layers={list(stack_layers)} has {len(stack_layers)} encoders, of which each reads half the steps "
            f"of the one before: of seq_len={seq_len} steps none is left for the last. "
            f"Give at most {most} encoders, or seq_len of at least {2 ** (len(stack_layers) - 1)}"
        )
