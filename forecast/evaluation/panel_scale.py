"""By what MASE and RMSSE of a panel are scaled."""

from forecast.data.panel.differences import SeasonalDifferences, differences_before
from forecast.data.panel.prepare import PanelData


def seasonal_differences(data: PanelData, split: str, period: int) -> SeasonalDifferences:
    """Over the measured rows of each series that lie before its first forecast of a split: M4's train rows.

    period: the season that the seasonal naive forecast repeats; 1 where that repeats the last value.
    """
    return differences_before(data.frame, data.origins(split).first, period=period, targets=data.targets)
