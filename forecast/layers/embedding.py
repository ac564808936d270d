"""How the values of a window and its calendar become the model's sequence."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import CalendarEncoding
from forecast.ops.autocast import autocast_dtype
from forecast.ops.columns import take_columns
from forecast.ops.dropout import Dropout, recomputed


class CircularConv(nn.Conv1d):
    """Each step from itself and its two neighbours, those of the ends from the other end: (B, L, C) -> (B, L, D).

    The parameters are those of a Conv1d with kernel_size 3. The neighbours stand beside each step, so that it is one
    matrix product and the sequence need not be turned.
    """

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs, kernel_size=3)

    def forward(self, x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
        """(B, L, C) -> (B, L, D)."""
        dtype = autocast_dtype(x.device)
        if dtype is not None:
            x = x.to(dtype)  # once, and not the three copies
        beside = neighbours(x)
        with recomputed(beside, lambda: neighbours(x)):
            # (D, C, 3) -> (D, 3 C), in the order of `neighbours`: all columns of a step together
            return F.linear(beside, self.weight.transpose(1, 2).flatten(1), self.bias)


def neighbours(x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
    """Each step between the one before and the one after: (B, L, C) -> (B, L, 3 C)."""
    closed = torch.cat([x[:, -1:], x, x[:, :1]], dim=1)
    return torch.cat([closed[:, :-2], x, closed[:, 2:]], dim=-1)


# Rows of the sinusoid tables: month 1-12, day 1-31, weekday 0-6, hour 0-23, quarter of the hour 0-3.
CALENDAR_SIZES = (13, 32, 7, 24, 4)


def sinusoid_table(length: int, d_model: int) -> Float[Tensor, "L D"]:
    """Sinusoids of geometrically growing period (L, D): even columns sine, odd cosine.

    Vaswani et al. 2017, section 3.5.
    """
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * (-math.log(10000.0) / d_model))
    table = torch.zeros(length, d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    # of an odd width there is one cosine fewer than sines
    table[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
    return table


class TokenEmbedding(nn.Module):
    """Convolution over three neighbouring steps, (B, L, C) -> (B, L, D), circular inside the window.

    Zhou et al. 2021, appendix B. Being circular it lets step t see step t + 1, and the first step the last.
    """

    def __init__(self, n_columns: int, d_model: int) -> None:
        super().__init__()
        self.conv = CircularConv(n_columns, d_model)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_in", nonlinearity="leaky_relu")

    def forward(self, x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
        """(B, L, C) in scaled units -> (B, L, D)."""
        return self.conv(x)


class FixedCalendarEmbedding(nn.Module):
    """Sum of frozen sinusoid tables looked up by month, day, weekday, hour (and quarter of the hour).

    n_known: how many of these five, in this order, the known features hold.
    """

    def __init__(self, n_known: int, d_model: int) -> None:
        super().__init__()
        if n_known > len(CALENDAR_SIZES):
            raise ValueError(
                f"embedding=fixed knows {len(CALENDAR_SIZES)} calendar features, got {n_known}; use embedding=timeF"
            )
        self.n_known = n_known
        for i, size in enumerate(CALENDAR_SIZES[:n_known]):
            # a formula, not a weight: not in the state dict
            self.register_buffer(f"table_{i}", sinusoid_table(size, d_model), persistent=False)

    def forward(self, known: Float[Tensor, "B L F"]) -> Float[Tensor, "B L D"]:
        """Calendar integers (B, L, F), held as floats -> (B, L, D)."""
        rows = known.long().unbind(-1)
        return torch.stack([self.get_buffer(f"table_{i}")[rows[i]] for i in range(self.n_known)]).sum(0)


class CovariateEmbedding(nn.Module):
    """Columns that are known in advance, and facts of a series: (B, L, K) -> (B, L, D).

    Numbers by one linear map, categories by a table each, summed. sizes (K,): 0 for a number, else how many categories.
    Category 0, any that the training did not see, adds nothing.
    """

    def __init__(self, sizes: Sequence[int], d_model: int) -> None:
        super().__init__()
        self.n_numbers = sum(size == 0 for size in sizes)
        self.order = sorted(range(len(sizes)), key=lambda i: sizes[i] > 0)  # numbers first; a sort keeps the order
        self.numbers = nn.Linear(self.n_numbers, d_model, bias=False) if self.n_numbers else None
        self.tables = nn.ModuleList(nn.Embedding(size, d_model, padding_idx=0) for size in sizes if size)

    def forward(self, covariates: Float[Tensor, "B L K"]) -> Float[Tensor, "B L D"]:
        """Numbers in scaled units and the numbers of categories, held as floats (B, L, K) -> (B, L, D)."""
        in_order = take_columns(covariates, self.order)
        numbers, categories = in_order[..., : self.n_numbers], in_order[..., self.n_numbers :].long()
        parts = [] if self.numbers is None else [self.numbers(numbers)]
        parts += [table(categories[..., i]) for i, table in enumerate(self.tables)]
        return torch.stack(parts).sum(0)


class DataEmbedding(nn.Module):
    """Values, position in the window, calendar and covariates, each as a (B, L, D) sequence, summed.

    n_columns: C. n_known: F, 0 when the frequency has no calendar features. max_len: longest sequence.
    encoding: what the calendar holds, see forecast.data.values.calendar. covariates (K,): what the last K of the F
    are, 0 for a number, else how many categories.
    """

    tokens: Callable[[int, int], nn.Module] = TokenEmbedding

    def __init__(
        self,
        *,
        n_columns: int,
        n_known: int,
        d_model: int,
        max_len: int,
        dropout: float,
        encoding: CalendarEncoding,
        covariates: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.values = type(self).tokens(n_columns, d_model)
        # a formula, not a weight: not in the state dict
        self.register_buffer("positions", sinusoid_table(max_len, d_model), persistent=False)
        self.calendar: nn.Module | None = None
        if n_calendar := n_known - len(covariates):
            fixed = encoding == "fixed"
            self.calendar = FixedCalendarEmbedding(n_calendar, d_model) if fixed else nn.Linear(n_calendar, d_model)
        self.n_calendar = n_calendar
        self.covariates = CovariateEmbedding(covariates, d_model) if covariates else None
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L C"], known: Float[Tensor, "B L F"]) -> Float[Tensor, "B L D"]:
        """Values (B, L, C) in scaled units and known features (B, L, F) -> (B, L, D)."""
        return self._sum(self.values(x), known, first=0)

    def _sum(self, values: Tensor, known: Tensor, *, first: int) -> Tensor:
        """Embedded values (B, L, D), position and calendar summed; first: the position of the first row."""
        embedded = values + self.get_buffer("positions")[first : first + values.shape[1]]
        if self.calendar is not None:
            embedded = embedded + self.calendar(known[..., : self.n_calendar])
        if self.covariates is not None:
            embedded = embedded + self.covariates(known[..., self.n_calendar :])
        return self.dropout(embedded)
