"""Statistical forecasts by statsforecast, as models: fitted anew to the past of each window.

Values are scaled, so that zero means nothing in them: every component is additive.
"""

import logging
import warnings
from collections.abc import Sequence
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.bounds import Positive, at_least
from forecast.errors import UserError
from forecast.models.base import FittedModel, FittingRows, Options, WindowShape
from forecast.text.overrides import install

log = logging.getLogger(__name__)

SEASONS, FEWEST, LONGEST = 5, 60, 1008  # the look-back: so many seasons, but no fewer and no more rows
WHOLE = 2  # seasons that must be there to tell a season from a trend
LONGEST_ETS_SEASON = 24  # statsforecast drops the seasonal states of longer ones
ORDERS = ((1, 0, 0), (0, 1, 1), (1, 1, 1), (2, 1, 2))  # (p, d, q)
TRIED_WINDOWS, TRIED_TARGETS = 6, 5  # on which the orders are compared, evenly spaced

Values = npt.NDArray[np.float64]


@runtime_checkable
class StatisticalModel(Protocol):
    """A model of statsforecast, which is fitted to the series that it forecasts."""

    def forecast(self, y: npt.NDArray[np.float64], h: int) -> dict[str, npt.NDArray[np.float64]]:
        """The series y (n,) -> "mean" (h,) of the steps after it."""


class Statistical(FittedModel):
    """A model that is fitted to each window's past of each target. A subclass gives `forecaster`.

    window: the data's sizes. period: steps in a season; None: the season of the data, 1: none. look_back: rows of a
    fit; None: some seasons, as many as the train rows allow. What a fit cannot forecast, the seasonal naive does, with
    a warning.
    """

    fits_each_window = True
    flexible = False

    def __init__(
        self, *, window: WindowShape, period: Positive | None = None, look_back: Positive | None = None
    ) -> None:
        super().__init__(window)
        self.period, self.rows = period or 1, look_back or window.seq_len
        self._given = period, look_back
        self._fits = self._failed = 0

    @property
    def look_back(self) -> int:
        """Rows of a fit."""
        return self.rows

    def fit(self, rows: FittingRows) -> Options:
        """Chooses period and look-back. Raises ValueError for rows that do not hold two seasons."""
        period, look_back = self._given
        self.period = period or rows.period or 1
        self.rows = look_back or rows_of_a_fit(rows, self.period)
        if self.rows < WHOLE * self.period:
            which = "model.look_back" if look_back else "the longest look-back that the train rows allow"
            raise ValueError(
                f"model.period={self.period}: {which} ({self.rows} rows) holds less than two seasons. "
                + (f"Say model.look_back={WHOLE * self.period}" if look_back else "Give more rows")
                + ", or model.period=1 for a forecast without a season."
            )
        return {"period": self.period, "look_back": self.rows}

    def forecaster(self) -> StatisticalModel:
        """A new model of statsforecast, whose `forecast(y=..., h=...)` gives an array "mean"."""
        raise NotImplementedError

    @torch.no_grad()
    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T), a fit in float64 for each of the B windows and T targets."""
        require_statsforecast()
        series = past.transpose(1, 2).double().cpu().numpy()
        forecasts, reasons = np.empty((*series.shape[:2], self.window.pred_len)), []
        for index in np.ndindex(series.shape[:2]):
            try:
                forecasts[index] = self.continued(series[index])
            except Exception as error:  # of many kinds, by what the optimiser meets
                forecasts[index] = np.resize(series[index][-self.period :], self.window.pred_len)
                reasons.append(str(error) or type(error).__name__)
        self._fits += forecasts.shape[0] * forecasts.shape[1]
        self._failed += len(reasons)
        if reasons:
            log.warning(
                "%d of %d fits so far failed (%s): the last season is repeated in their place.",
                *(self._failed, self._fits, reasons[0]),
            )
        return torch.from_numpy(forecasts).transpose(1, 2).to(past)

    def continued(self, series: Values) -> Values:
        """One series (L,) -> its forecast (P,). Raises ValueError when it is not finite, and what the package does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of optimisers that end early: their forecasts are judged by what they are
            forecast = self.forecaster().forecast(y=series, h=self.window.pred_len)["mean"]
        if not np.isfinite(forecast).all():
            raise ValueError("the forecast is not finite")
        return np.asarray(forecast, dtype=np.float64)


class Theta(Statistical):
    """The Theta method: of its four forms that which fits the window best.

    Assimakopoulos & Nikolopoulos 2000, "The theta model"; Fiorucci et al. 2016 for the forms.
    """

    def forecaster(self) -> StatisticalModel:
        """AutoTheta."""
        from statsforecast.models import AutoTheta

        return AutoTheta(season_length=self.period, decomposition_type="additive")


class ETS(Statistical):
    """Exponential smoothing with error, trend and season: of the additive forms that with the least AICc.

    Hyndman et al. 2002, "A state space framework for automatic forecasting using exponential smoothing methods". Longer
    seasons than LONGEST_ETS_SEASON are taken out by STL first.
    """

    def forecaster(self) -> StatisticalModel:
        """AutoETS, after STL for long seasons."""
        from statsforecast.models import AutoETS

        short = self.period <= LONGEST_ETS_SEASON
        model: StatisticalModel = AutoETS(season_length=self.period, model="AZZ") if short else AutoETS(model="AZN")
        return model if short else without_season(model, self.period)


class ARIMA(Statistical):
    """ARIMA of one order on what STL leaves of a season (a seasonal ARIMA takes minutes to choose, for one window).

    Box & Jenkins 1970, "Time Series Analysis". order: (p, d, q); None: of ORDERS that which errs least on some windows
    of val, for all targets.
    """

    def __init__(
        self,
        *,
        window: WindowShape,
        period: Positive | None = None,
        look_back: Positive | None = None,
        order: Sequence[Annotated[int, at_least(0)]] | None = None,
    ) -> None:
        super().__init__(window=window, period=period, look_back=look_back)
        if order is not None and len(order) != 3:
            raise ValueError(f"model.order={list(order)}: give the three numbers p, d, q, as model.order=[1,1,1]")
        self._order = order
        self.order = tuple(order or ORDERS[0])

    def fit(self, rows: FittingRows) -> Options:
        """Chooses period, look-back and order."""
        chosen = super().fit(rows)
        if self._order is None:
            self.order = min(ORDERS, key=lambda order: self.val_error(rows, order))
        return {**chosen, "order": list(self.order)}

    def val_error(self, rows: FittingRows, order: tuple[int, ...]) -> float:
        """The MSE of an order on TRIED_WINDOWS of val and TRIED_TARGETS of the targets."""
        self.order = order
        origins = evenly_spaced(rows.origins("val", self.rows), TRIED_WINDOWS)
        series = rows.series[:, evenly_spaced(np.arange(rows.series.shape[1]), TRIED_TARGETS)]
        past = torch.stack([series[origin - self.rows : origin] for origin in origins])
        truth = torch.stack([series[origin : origin + self.window.pred_len] for origin in origins])
        return float((self.extend(past) - truth).square().mean())

    def forecaster(self) -> StatisticalModel:
        """ARIMA of the order, after STL where there is a season."""
        from statsforecast import models

        # the package's start by least squares, "CSS-ML", fails on some windows with a moving average
        return without_season(models.ARIMA(order=self.order, method="ML"), self.period)


def without_season(forecaster: StatisticalModel, period: int) -> StatisticalModel:
    """A forecaster of what STL leaves of a season, which is repeated; the forecaster itself without one."""
    from statsforecast.models import MSTL

    return forecaster if period == 1 else MSTL(season_length=period, trend_forecaster=forecaster)


def rows_of_a_fit(rows: FittingRows, period: int) -> int:
    """SEASONS seasons, at least FEWEST rows and at most LONGEST, or two seasons; whole ones, as train rows allow."""
    longest = min(max(SEASONS * period, FEWEST), max(LONGEST, WHOLE * period))
    while longest > 1 and not len(rows.origins("train", longest)):
        longest -= 1
    return longest // period * period or longest


def evenly_spaced(values: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most so many of them, both ends included."""
    chosen = np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int)
    return np.take(values, np.unique(chosen))


def require_statsforecast() -> None:
    """Raises UserError without the package, or beside a pandas that it does not work with."""
    try:
        import statsforecast.models  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"statsforecast cannot be imported ({error}). Install it: {install('stats')}, or choose model=ridge or "
            "model=seasonal_naive"
        ) from error
