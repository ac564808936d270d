"""PatchTST."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import Unpack

from forecast.bounds import Layers, Positive
from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.blocks import BlockOptions, BlockSizes, EncoderLayer
from forecast.layers.heads import OutputMap
from forecast.layers.patches import ColumnsBeside, count_patches, cut_patches
from forecast.models.base import ForecastModel, WindowShape, by_step
from forecast.ops.columns import take_columns
from forecast.ops.dropout import Dropout

# Learned positions start between minus this and this.
POSITION_RANGE = 0.02


class PatchTST(ForecastModel):
    """An encoder over patches of one column at a time; a linear map of its whole output is the column's forecast.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), scaled units.

    Every column is a series of its own and all share the weights. A column is cut into overlapping patches of
    `patch_len` steps; a linear map and learned positions make them the sequence of the encoder, whose layers are
    post-norm with batch normalisation. All columns are forecast and the targets returned.

    Nie et al. 2023, "A Time Series is Worth 64 Words: Long-term Forecasting with Transformers". Differs from the
    authors' code: an attention layer does not add the scores of the layer before to its own, because a mechanism
    neither takes nor returns scores. Dropout falls on the attention weights and once on the layer's output; where
    theirs falls was not compared.

    With covariates, or columns that are observed by their role, a target's patches hold those of these columns too,
    each kind by a linear map of its own, and the known features at the forecast steps are further patches, whose values
    are 0; the targets alone are forecast then. The paper has no such columns.

    Without covariates the known features are not used; label_len never is. seq_len may be any that has a patch: from
    patch_len - stride on.

    window: the data's sizes. instance_norm: brings each column of a window to mean 0 and deviation 1, and the
        forecast back (Kim et al. 2022); the paper has it.
    patch_len: steps in a patch. stride: steps from the start of a patch to that of the next.
    encoder_attention: the factories for the slot.
    Raises ValueError when the padded window is shorter than a patch.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        encoder_layers: Layers,
        patch_len: Positive,
        stride: Positive,
        instance_norm: bool = False,
        encoder_attention: AttentionFactories,
        **options: Unpack[BlockOptions],
    ) -> None:
        super().__init__(window, instance_norm=instance_norm)
        sizes = BlockSizes(**options)
        self.patch_len, self.stride = patch_len, stride
        n_patches = count_patches(window.seq_len, patch_len, stride)
        self.beside = None
        if window.covariates or window.observed:
            self.beside = ColumnsBeside(
                n_observed=len(window.observed),
                n_known=window.n_known,
                covariates=window.covariates,
                pred_len=window.pred_len,
                patch_len=patch_len,
                stride=stride,
                d_model=sizes.d_model,
            )
            n_patches += self.beside.n_future

        self.embedding = nn.Linear(patch_len, sizes.d_model)
        self.positions = nn.Parameter(torch.empty(n_patches, sizes.d_model).uniform_(-POSITION_RANGE, POSITION_RANGE))
        self.dropout = Dropout(sizes.dropout)
        self.encoder = nn.Sequential(
            *(EncoderLayer(sizes, encoder_attention, layer=i, norm=BatchNorm) for i in range(encoder_layers))
        )
        self.head = OutputMap(n_patches * sizes.d_model, window.pred_len * window.outputs)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C) -> forecast (B, P, T); the known features (B, L + P, F) are used with covariates alone."""
        if self.beside is not None:
            beside = self.beside(take_columns(past, self.window.observed), past_known, future_known)
            return self.with_columns_beside(self.window.target_columns(past), beside)
        columns = past.transpose(1, 2).flatten(0, 1)  # (B * C, L)
        patches = self.embedding(cut_patches(columns, self.patch_len, self.stride))  # (B * C, N, D)
        encoded = self.encoder(self.dropout(patches + self.positions))
        forecast: Tensor = self.head(encoded.flatten(1))  # (B * C, P * O)
        by_column = forecast.reshape(past.shape[0], -1, forecast.shape[1])  # (B, C, P * O)
        return by_step(take_columns(by_column, self.window.targets, 1), self.window.outputs)

    def with_columns_beside(
        self, targets: Float[Tensor, "B L T"], beside: Float[Tensor, "B N D"]
    ) -> Float[Tensor, "B P M"]:
        """The targets (B, L, T), with what stands beside their patches (B, N, D) -> forecast (B, P, T)."""
        patches = self.embedding(cut_patches(targets.transpose(1, 2).flatten(0, 1), self.patch_len, self.stride))
        patches = F.pad(patches, (0, 0, 0, beside.shape[1] - patches.shape[1]))
        tokens = patches + beside.repeat_interleave(targets.shape[2], 0)  # (B * T, N, D)
        encoded = self.encoder(self.dropout(tokens + self.positions))
        forecast: Tensor = self.head(encoded.flatten(1))  # (B * T, P * O)
        return by_step(forecast.reshape(targets.shape[0], -1, forecast.shape[1]), self.window.outputs)


class BatchNorm(nn.Module):
    """Each of the D elements brought to mean 0 and deviation 1 over all steps of a batch: (B, L, D) -> (B, L, D).

    Ioffe and Szegedy 2015, "Batch Normalization", with learned scale and shift; in evaluation with the running mean and
    variance of the training. A training batch of one single step has no variance: it is normalised as in evaluation.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(d_model)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        steps, norm = x.flatten(0, 1), self.norm
        if steps.shape[0] > 1:
            normed: Tensor = norm(steps)
        else:  # torch refuses it in training
            assert norm.running_mean is not None and norm.running_var is not None
            scaled = (steps - norm.running_mean) * (norm.running_var + norm.eps).rsqrt()
            normed = scaled * norm.weight + norm.bias
        return normed.reshape(x.shape)
