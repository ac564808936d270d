"""The forecasts every model is compared with: last value, seasonal naive, closed-form NLinear.

They are called like every model, (past, past_known, future_known) -> forecast, and see the past alone.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Ridge of the closed-form NLinear as a share of the mean diagonal of X'X: keeps the system solvable.
RIDGE = 1e-3


class Baseline(nn.Module):
    """A forecast of the target columns from their own past. targets: their numbers among the C columns."""

    def __init__(self, targets: Sequence[int], pred_len: int) -> None:
        super().__init__()
        self.targets = list(targets)
        self.pred_len = pred_len

    def forward(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """Past (B, L, C) scaled -> forecast (B, P, T) scaled; the known features are not used."""
        del past_known, future_known
        return self.extend(past[:, :, self.targets])

    def extend(self, past: Tensor) -> Tensor:
        """The target columns' past (B, L, T) -> their future (B, P, T)."""
        raise NotImplementedError


class LastValue(Baseline):
    """The last value, repeated."""

    def extend(self, past: Tensor) -> Tensor:
        """(B, L, T) -> (B, P, T)."""
        return past[:, -1:].expand(-1, self.pred_len, -1)


class SeasonalNaive(Baseline):
    """The last full period of the window, repeated.

    period: its steps, at most L. offset: how many steps lie between the window and the first forecast step.
    """

    def __init__(self, targets: Sequence[int], pred_len: int, *, period: int, offset: int = 0) -> None:
        super().__init__(targets, pred_len)
        self.period, self.offset = period, offset

    def extend(self, past: Tensor) -> Tensor:
        """(B, L, T) -> (B, P, T)."""
        steps = (torch.arange(self.pred_len, device=past.device) + self.offset) % self.period
        return past[:, past.shape[1] - self.period + steps]


class ClosedFormNLinear(Baseline):
    """NLinear fitted by least squares: one linear map of the window less its last value, shared by the columns.

    Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?", where gradient descent fits it.
    weight (P, L) float64: the first L - 1 columns weigh the past less its last value, the last one is the intercept.
    """

    def __init__(self, targets: Sequence[int], pred_len: int, *, weight: Float[Tensor, "P L"]) -> None:
        super().__init__(targets, pred_len)
        self.register_buffer("weight", weight, persistent=False)

    def extend(self, past: Tensor) -> Tensor:
        """(B, L, T) -> (B, P, T)."""
        columns = past.double().transpose(1, 2)  # (B, T, L)
        weight = self.get_buffer("weight").to(columns.device)
        forecast = _regressors(columns) @ weight.T + columns[..., -1:]
        return forecast.transpose(1, 2).to(past.dtype)


def fit_nlinear(batches: Iterable[tuple[Tensor, Tensor]]) -> Float[Tensor, "P L"]:
    """Least squares with ridge RIDGE * trace(X'X) / L over all windows and target columns, streaming, in float64.

    batches: pairs of the targets' past (B, L, T) and their future (B, P, T), scaled units.
    """
    gram = moment = None
    for past, future in batches:
        columns = past.double().transpose(1, 2)
        x = _regressors(columns).flatten(0, 1)  # (B * T, L)
        y = (future.double().transpose(1, 2) - columns[..., -1:]).flatten(0, 1)  # (B * T, P)
        gram = x.T @ x if gram is None else gram + x.T @ x
        moment = x.T @ y if moment is None else moment + x.T @ y
    assert gram is not None and moment is not None, "a train split always has windows"
    ridge = RIDGE * gram.trace() / len(gram)
    weight: Tensor = torch.linalg.solve(gram + ridge * torch.eye(len(gram), dtype=gram.dtype), moment)
    return weight.T.contiguous()


def _regressors(columns: Tensor) -> Tensor:
    """The past less its last value (..., L); that value's own difference is zero, so its place is the intercept's."""
    return torch.cat([columns[..., :-1] - columns[..., -1:], torch.ones_like(columns[..., -1:])], dim=-1)
