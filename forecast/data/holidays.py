"""The public holidays of a country as a column that is known in advance."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.panel import STEP_FREQ, PanelFrame
from forecast.data.roles import HOLIDAY
from forecast.errors import UserError, closest
from forecast.text.overrides import install


def holiday_flags(timestamps: pd.DatetimeIndex, country: str) -> npt.NDArray[np.float64]:
    """1 for each timestamp (N,) that lies in a public holiday of a country, else 0.

    UserError for a country that the package holidays does not know, and where that is not installed.
    """
    try:
        import holidays
    except ImportError as error:
        raise UserError(f"data.holidays={country} needs the package holidays: {install('holidays')}") from error
    known = list(holidays.list_supported_countries())
    if country not in known:
        raise UserError(
            f"data.holidays={country}: the package holidays knows no such country.{closest(country.upper(), known)} "
            "Write its two letters, as data.holidays=DE."
        )
    years = range(int(timestamps[0].year), int(timestamps[-1].year) + 1)
    days = pd.DatetimeIndex(sorted(holidays.country_holidays(country, years=years)))
    return timestamps.normalize().isin(days).astype(np.float64)


def with_holidays(frame: PanelFrame, country: str | None) -> PanelFrame:
    """The same with a last column `holiday`, of the country whose holidays are asked for; UserError as above.

    UserError for rows that no calendar counts, and where the file has a column of that name.
    """
    if country is None:
        return frame
    if frame.freq == STEP_FREQ:
        raise UserError(
            f"{frame.name}: data.holidays={country}: the rows are steps that no calendar counts, which have no "
            "holidays. Leave it out, or name a column of dates: data.time_column=NAME"
        )
    if HOLIDAY in frame.columns:
        raise UserError(
            f"{frame.name}: there is a column '{HOLIDAY}' already, which data.holidays={country} would make. Leave "
            f"data.holidays out and name it as data.known=[{HOLIDAY}], or leave it out: data.drop=[{HOLIDAY}]"
        )
    columns = (*frame.columns, HOLIDAY)
    steps = np.repeat(frame.steps - frame.offsets[:-1], frame.lengths) + np.arange(len(frame.values))
    flags = holiday_flags(frame.calendar(), country).astype(np.float32)[steps][:, None]
    measured = None if frame.measured is None else np.pad(frame.measured, ((0, 0), (0, 1)), constant_values=True)
    return replace(frame, values=np.concatenate([frame.values, flags], axis=1), columns=columns, measured=measured)
