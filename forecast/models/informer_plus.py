"""The Informer of normalised windows, on top of a forecast that is fitted at once."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import Unpack

from forecast.bounds import Layers, Positive
from forecast.layers.patched_steps import patched, unpatched
from forecast.layers.window_scale import NORMALIZATIONS, Normalization
from forecast.models.base import FittedModel, FittingRows, ForecastModel, Options, WindowShape
from forecast.models.informer import Informer, InformerOptions
from forecast.models.naive import SeasonalNaive
from forecast.models.ridge import Ridge
from forecast.models.variates import Variates
from forecast.ops.columns import take_columns

SKIPS: Mapping[str, Callable[..., FittedModel]] = {"ridge": Ridge, "seasonal": SeasonalNaive}


class InformerPlus(ForecastModel):
    """An Informer whose window and start token are normalised alike, on top of a forecast that is fitted at once.

    Past (B, L, C), calendar (B, L, F) and (B, P, F) -> forecast (B, P, T), scaled units.

    The network is that of Zhou et al. 2021, "Informer", encoder and one-shot decoder. Around it, each a switch: windows
    brought to mean 0 and deviation 1, start token included (Kim et al. 2022, "Reversible Instance Normalization", for
    models without one); columns that stand alone and share the weights, and patches of steps as its sequence (both Nie
    et al. 2023); a skip, a forecast fitted before the training, to which the network's is added times a gate of each
    target that starts at 0 (Bachlechner et al. 2021, "ReZero is All You Need"). The untrained model is then the skip
    alone, which is judged before the first step and may stay the best.

    Of patches there are few: where ProbSparse picks as many queries as there are, it is full attention.

    window: the data's sizes. normalization: of each column of a window: mean_std; last, by its last value, deviation of
        the window; tail, as mean_std of the window's last quarter; none.
    columns: joint, one sequence of all columns; independent, each target is a sequence of its own, with the columns
        that are observed beside it by their role, and the calendar.
    tokens: conv, each step is an element of the sequence; patch, each `patch_len` steps are. Embedded as an Informer's.
        variate, each column's whole window is: the network is `Variates`, without decoder, distilling and start token.
    skip: ridge, seasonal (the last season again) or none. skip_options: as `prepare` has chosen them, None before.
    encoder_attention, decoder_attention, cross_attention: the factories for each slot.
    Raises ValueError for patches and variates beside embedding=fixed, which looks single steps up.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        encoder_layers: Layers,
        distil: bool,
        normalization: Normalization,
        columns: Literal["joint", "independent"],
        tokens: Literal["conv", "patch", "variate"],
        patch_len: Positive,
        skip: Literal["ridge", "seasonal", "none"],
        skip_options: Mapping[str, object] | None = None,
        **options: Unpack[InformerOptions],
    ) -> None:
        super().__init__(window, mask_padding=options.get("mask_padding", False))
        if tokens != "conv" and options.get("embedding") == "fixed":
            raise ValueError(
                f"model.tokens={tokens} with model.embedding=fixed: a {tokens} has the calendar of several steps, and "
                "fixed looks up that of one. Set model.embedding=timeF, or model.tokens=conv"
            )
        if window.label_len > window.seq_len:
            raise ValueError(
                f"label_len ({window.label_len}) must be at most seq_len ({window.seq_len}): it is the window's tail"
            )
        self.independent = columns == "independent"
        self.patch_len = patch_len if tokens == "patch" else 1
        self.place = NORMALIZATIONS[normalization]
        inner = self.inner_window()
        self.network: Informer | Variates
        if tokens == "variate":
            self.network = Variates(window=inner, encoder_layers=encoder_layers, **options)
        else:
            self.network = Informer(window=inner, encoder_layers=encoder_layers, distil=distil, mix=False, **options)
        self.skip: FittedModel | None = None
        if skip != "none":
            plain = replace(window, outputs=1)
            self.skip = SKIPS[skip](window=plain, **(skip_options or {})).requires_grad_(False)
            self.gate = nn.Parameter(torch.zeros(window.n_targets))

    @property
    def look_back(self) -> int:
        """What the skip reads, where that is more than the network's window."""
        return self.window.seq_len if self.skip is None else max(self.window.seq_len, self.skip.look_back)

    @property
    def fitted_part(self) -> str | None:
        """The skip."""
        return None if self.skip is None else "skip"

    def prepare(self, rows: FittingRows, whole: FittingRows | None = None) -> Options:
        """Fits the skip, with `whole` to all rows; returns the options that it has chosen."""
        if self.skip is None:
            return {}
        options = self.skip.fit(rows) if whole is None else self.skip.refit(rows, whole, {})  # its rows alone decide
        self.skip.requires_grad_(False)
        return {"skip_options": options}

    @classmethod
    def has_start_token(cls) -> bool:
        """The decoder begins with the last `label_len` steps of the window."""
        return True

    def inner_window(self) -> WindowShape:
        """What the network inside sees: a patch as one step of so many times as many columns and known features."""
        window, patch = self.window, self.patch_len
        n_columns, targets = window.n_columns, window.targets
        n_calendar = window.n_known - len(window.covariates)
        if self.independent:
            n_columns, targets = 1 + len(window.observed), (0,)
        return replace(
            window,
            n_columns=patch * n_columns,
            targets=tuple(step * n_columns + target for step in range(patch) for target in targets),
            n_known=patch * window.n_known,
            covariates=patch * window.covariates,
            facts=(),
            observed=(),
            padding=tuple(step * n_calendar + i for step in range(patch) for i in window.padding),
            seq_len=-(-window.seq_len // patch),
            label_len=-(-window.label_len // patch),
            pred_len=-(-window.pred_len // patch),
        )

    def predicted(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T *O"]:
        """The skip's forecast, or the window's place, and what the network adds to it in the window's deviations."""
        recent, known = past[:, -self.window.seq_len :], past_known[:, -self.window.seq_len :]
        targets = self.window.targets
        mean, std = self.place(recent, self.padded(known))
        raw = self.forecast((recent - mean) / std, known, future_known)
        base = take_columns(mean, targets)
        if self.skip is not None:
            rows = self.skip.look_back
            base = self.skip(past[:, -rows:], past_known[:, -rows:], future_known)
            raw = raw * self.gate.repeat_interleave(self.window.outputs)
        return self.moved(self.as_parameters(raw, targets), base, take_columns(std, targets))

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """What the network says of a normalised window: (B, L, C), L = seq_len -> (B, P, T * O)."""
        n_targets = self.window.n_targets
        if self.independent:
            past = self.each_target(past)
            past_known = past_known.repeat_interleave(n_targets, 0)
            future_known = future_known.repeat_interleave(n_targets, 0)
        patches = self.network.forecast(
            patched(past, self.patch_len, first=True),
            self.known_patches(past_known, first=True),
            self.known_patches(future_known, first=False),
        )
        steps = unpatched(patches, self.patch_len, self.window.pred_len)
        if not self.independent:
            return steps
        return torch.unflatten(steps, 0, (-1, n_targets)).transpose(1, 2).flatten(2)  # (B * T, P, O) -> (B, P, T * O)

    def each_target(self, past: Float[Tensor, "B L C"]) -> Float[Tensor, "W L N"]:
        """Each target as a window of its own, with the columns observed beside it: (B, L, C) -> (B * T, L, 1 + N)."""
        targets = self.window.target_columns(past).transpose(1, 2).flatten(0, 1).unsqueeze(2)
        if not self.window.observed:
            return targets
        observed = take_columns(past, self.window.observed).repeat_interleave(self.window.n_targets, 0)
        return torch.cat([targets, observed], dim=2)

    def known_patches(self, known: Float[Tensor, "B R F"], *, first: bool) -> Float[Tensor, "B N G"]:
        """Known features by patches, the calendar of all steps before the covariates of all steps."""
        if self.patch_len == 1:
            return known
        n_calendar = known.shape[2] - len(self.window.covariates)
        parts = torch.tensor_split(known, [n_calendar], dim=2)
        return torch.cat([patched(part, self.patch_len, first=first) for part in parts], dim=2)
