"""What `data=NAME` names: where a series comes from, which columns count, how its rows are split."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import pooch

from forecast.bounds import Bound, Finite, Positive, Sampling, Seed, Text
from forecast.data.panel import PanelFrame
from forecast.data.reading.layout import Layout
from forecast.data.reading.table import Codebook
from forecast.data.roles import Columns, Roles, columns_by_role, names_roles
from forecast.data.scaling import How
from forecast.data.split import Split
from forecast.data.values.cells import FloatArray
from forecast.errors import UserError, closest, readable
from forecast.text.terminal import label, listed

log = logging.getLogger(__name__)
FOLDER = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small"
CATALOG = {  # the MD5 of FOLDER/NAME.csv
    "ETTh1": "8381763947c85f4be6ac456c508460d6",
    "ETTh2": "51a229a3fc13579dd939364fefe9c7ab",
    "ETTm1": "82d6bd89109c63d075d99c1077b33f38",
    "ETTm2": "7687e47825335860bf58bccb31be0c56",
}

Features = Literal["M", "S", "MS"]
PanelForm = Literal["long", "columns"]


# Level, daily, half-daily and weekly amplitude, trend from the first row to the last, all in the column's own units;
# with the change of regime a shift of the level and a factor of the daily season; of the noise its memory from hour to
# hour, and its part of the column's whole variance.
_COLUMNS = {
    "HUFL": (7.0, 5.0, 1.6, 1.5, 1.0, 2.0, 1.25, 0.80, 0.20),
    "HULL": (2.0, 1.4, 0.5, 0.5, 0.3, 0.0, 1.00, 0.75, 0.28),
    "MUFL": (4.5, 4.6, 1.8, 1.3, 0.8, 1.8, 1.25, 0.82, 0.18),
    "MULL": (0.8, 1.3, 0.4, 0.4, 0.2, 0.0, 1.00, 0.70, 0.30),
    "LUFL": (3.0, 0.9, 0.2, 0.3, -0.3, -0.4, 1.00, 0.85, 0.22),
    "LULL": (0.9, 0.5, 0.1, 0.2, -0.1, 0.0, 1.00, 0.90, 0.16),
    "OT": (17.0, 6.0, 1.0, 2.0, -2.0, -3.0, 0.80, 0.88, 0.15),
}
_REGIME_CHANGE = 0.3  # of the rows: inside train, which is the first 70 %
_START = "2016-07-01 00:00"
MOST_ROWS = 2_000_000  # hours: pandas counts time until 2262


MARKED, LATER, NOISE = 0.25, 12, 0.2  # of `RecallSource`: share of marked hours, hours until they are seen, deviation


def _parts(seed: int, rows: int) -> tuple[np.random.Generator, FloatArray, FloatArray, FloatArray]:
    """(generator, ready to draw the noise; signal (rows, 7); phi (7,); sigma (7,), the noise's step)."""
    rng, hour = np.random.default_rng(seed), np.arange(rows)[:, None]
    phases = rng.uniform(-0.5, 0.5, size=(3, len(_COLUMNS)))  # radians, of the day, the half day and the week
    level, daily, half, weekly, trend, shift, swell, phi, share = np.array(list(_COLUMNS.values())).T
    late = hour >= int(_REGIME_CHANGE * rows)
    day = daily * np.sin(2 * np.pi * hour / 24 + phases[0]) + half * np.sin(4 * np.pi * hour / 24 + phases[1])
    week = weekly * np.cos(2 * np.pi * hour / 168 + phases[2])
    signal: FloatArray = level + trend * hour / rows + np.where(late, swell, 1.0) * day + week + shift * late
    variance = signal.var(axis=0) * share / (1 - share)  # of the noise: `share` of signal and noise together
    return rng, signal, phi, np.sqrt(variance * (1 - phi**2))


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A series and how it is used.

    features: M forecasts all columns from all, S the target from itself, MS the target from all. target: a
    column's name, or None for the last one. season: steps in a season, None: that which the train rows repeat best.
    scaling: by the train rows of each series, by its seasonal differences there, by the train rows of all, or not.
    floor: below what no target can be, or {target: number}: no forecast, and no interval, reaches below it.
    UserError for a target that the file does not have, when it is read.
    """

    name: str
    split: Split
    features: Features = "M"
    target: Text | Sequence[Text] | None = "OT"
    batch_size: Positive = 32
    season: Positive | None = None
    scaling: How = "series"
    floor: Finite | Mapping[Text, Finite] | None = None

    def with_file(self, path: Path | str, **reading: object) -> "CsvSource":
        """Another file, written and used as this one is. reading: keys of a layout that differ there."""
        use = {field.name: getattr(self, field.name) for field in fields(CsvSource) if hasattr(self, field.name)}
        return CsvSource(**{**use, **reading, "name": "csv", "path": str(path)})

    @property
    def has_roles(self) -> bool:
        """Whether columns have roles, or `target` is several."""
        return names_roles(vars(self))

    def by_role(self, frame: PanelFrame) -> Columns:
        """The columns of a frame of this source by role. UserError as `columns_by_role`."""
        targets = [self.target or frame.columns[-1]] if isinstance(self.target, str | None) else self.target
        roles = self if isinstance(self, Roles) else Roles()
        columns = columns_by_role(frame.columns, roles, targets, frame.name, frame.categories)
        is_every = self.features == "M" and not self.has_roles
        return replace(columns, targets=frame.columns, past=()) if is_every else columns

    def target_columns(self, frame: PanelFrame) -> tuple[int, ...]:
        """Which columns of a frame are forecast: T indices into its C columns."""
        return tuple(frame.columns.index(name) for name in self.by_role(frame).targets)

    def floor_of(self, frame: PanelFrame) -> FloatArray | None:
        """`floor` for each column (C,), -inf where there is none; None: nowhere.

        UserError for a column that is no target, and for a value below it.
        """
        if self.floor is None:
            return None
        targets = self.by_role(frame).targets
        floors = self.floor if isinstance(self.floor, Mapping) else dict.fromkeys(targets, self.floor)
        every = np.full(len(frame.columns), -np.inf)
        for name, floor in floors.items():
            if name not in targets:
                raise UserError(
                    f"data.floor: {frame.name} has no target '{name}'.{closest(name, targets)} Name one of "
                    f"{listed(targets)}, or say data.floor=0 for all."
                )
            place = frame.columns.index(name)
            every[place] = floor
            least = np.fmin.reduce(frame.values[:, place])  # of a file that is mapped nothing is copied
            if least < floor:
                raise UserError(
                    f"data.floor={floor:g}: {frame.name} has {least:g} in column '{name}'. Leave data.floor out, or "
                    "choose a lower one."
                )
        return every


@dataclass(frozen=True, kw_only=True)
class CsvSource(Roles, Layout, Source):
    """A file of the user's own, or several that are a panel together.

    target: also several names. As soon as that is a list, or columns have roles, the targets are `target` alone, and
    the others are observed columns. `features` says what is what where no role is named.
    panel: how several series stand in it: long, a row for each series and time, with its `id_column`, one name or
    several; columns, a column a series. None: one series, or long with an id_column. path: of a panel also a pattern
    such as shops/*.parquet. short: what becomes of series too short for a window. recent: so many of the last train
    rows of each series alone are trained on, None: all; scale and baselines are those of all. windows_per_epoch: drawn
    anew for each epoch, None: all; sampling: each window alike, or each series. cache: a folder into which Parquet is
    converted once, to be read from there as an array on disk; None: it is held in memory. id_as_fact: whether its id is
    a fact of each series of a panel, a category, after all others.
    """

    name: str = "csv"
    path: str | None = None
    panel: PanelForm | None = None
    id_column: Text | Sequence[Text] | None = None
    short: Literal["drop", "pad"] = "drop"
    recent: Positive | None = None
    windows_per_epoch: Positive | None = None
    sampling: Sampling = "windows"
    cache: Text | None = None
    id_as_fact: bool = False

    @property
    def panel_form(self) -> PanelForm | None:
        """How several series stand in the file; None for one series."""
        return "long" if self.panel is None and self.id_column is not None else self.panel

    def codebook(self) -> Codebook:
        """Which columns are read as categories: those that are named so, and with a role where they hold words."""
        perhaps = [*self.known, *self.past, *self.static]
        return Codebook(self.categorical, perhaps, self.missing)

    def located(self) -> "CsvSource":
        """The same with the path of a file that is there, if it was found."""
        return self


@dataclass(frozen=True, kw_only=True)
class CatalogSource(CsvSource):
    """A published data set: root/NAME.csv, downloaded when absent, verified; `path` is read instead of it."""

    root: str

    def located(self) -> CsvSource:
        """With `path`, unverified, or the verified file under `root`."""
        return self if self.path else replace(self, path=str(locate(self.name, self.root)))


@dataclass(frozen=True, kw_only=True)
class MadeUpSource(Source):
    """A made-up series: no file, no download, and a known best error. demo_seed: of what is drawn."""

    demo_seed: Seed = 7
    rows: Annotated[int, Bound(lambda rows: 3 <= rows <= MOST_ROWS, f"must be at least 3 and at most {MOST_ROWS}")] = (
        4000
    )

    @abstractmethod
    def frame(self) -> PanelFrame:
        """All columns.

        numpy's Generator draws the same numbers on every platform; the values are rounded to 6 decimals.
        """

    @abstractmethod
    def best_mse(self, columns: Sequence[str], steps: int) -> FloatArray:
        """The expected MSE of the best possible forecast of T columns -> (steps, T), in squared original units."""

    def _hours(self, values: FloatArray, columns: Sequence[str]) -> PanelFrame:
        timestamps = pd.date_range(_START, periods=self.rows, freq="h")
        frame = PanelFrame.single(values, timestamps, columns, "h", self.name)
        return replace(frame, checksum=f"{self.name}-seed{self.demo_seed}-rows{self.rows}")


@dataclass(frozen=True, kw_only=True)
class DemoSource(MadeUpSource):
    """Hours of seven columns named as ETTh1's: seasons, a trend, a change of regime and noise with memory."""

    name: str = "demo"

    def frame(self) -> PanelFrame:
        """`demo_seed` draws the phases of the seasons and the noise."""
        rng, signal, phi, sigma = _parts(self.demo_seed, self.rows)
        noise = rng.standard_normal((self.rows, len(phi))) * sigma  # AR(1): x[t] = phi x[t-1] + sigma e[t]
        noise[0] /= np.sqrt(1 - phi**2)  # begun in its stationary state
        for t in range(1, self.rows):
            noise[t] += phi * noise[t - 1]
        return self._hours(np.round(signal + noise, 6), tuple(_COLUMNS))

    def best_mse(self, columns: Sequence[str], steps: int) -> FloatArray:
        """For h = 1 .. steps: sigma^2 (1 - phi^(2h)) / (1 - phi^2).

        That is the variance of AR(1) noise h steps ahead when its present is known (Box and Jenkins, Time Series
        Analysis, chapter 5).
        """
        _, _, phi, sigma = _parts(self.demo_seed, self.rows)
        index, h = [list(_COLUMNS).index(name) for name in columns], np.arange(1, steps + 1)[:, None]
        best: FloatArray = (sigma**2 * (1 - phi ** (2 * h)) / (1 - phi**2))[:, index]
        return best


@dataclass(frozen=True, kw_only=True)
class RecallSource(MadeUpSource):
    """Hours of a series that only attention to content can foresee: what happened at the last marked hour.

    signal is noise N(0, 1); mark is 1 at a fourth of the hours, drawn at random, else 0. y at hour t is the signal at
    the last marked hour up to t - 12, which lies at a random distance, and noise of deviation 0.2. No sum of past
    values says which signal that is: a linear map knows y only from y.
    """

    name: str = "recall"

    def frame(self) -> PanelFrame:
        """`demo_seed` draws marks, signal and noise."""
        rng, rows = np.random.default_rng(self.demo_seed), self.rows
        mark, signal = rng.random(rows) < MARKED, rng.standard_normal(rows)
        last = np.maximum.accumulate(np.where(mark, np.arange(rows), -1))
        held = np.where(last < 0, 0.0, signal[last])
        y = np.concatenate([np.zeros(min(LATER, rows)), held[:-LATER]])[:rows] + NOISE * rng.standard_normal(rows)
        values = np.stack([mark, np.round(signal, 6), np.round(y, 6)], axis=1).astype(np.float64)
        return self._hours(values, ("mark", "signal", "y"))

    def best_mse(self, columns: Sequence[str], steps: int) -> FloatArray:
        """That of the noise, up to LATER steps; of marks and signals, which nothing tells, their variance.

        Beyond these steps a marked hour may be still to come with probability 1 - (1 - MARKED)^(h - LATER), and what is
        known is worth the rest.
        """
        unknown = 1 - (1 - MARKED) ** np.maximum(0, np.arange(1, steps + 1) - LATER)
        errors = {"mark": MARKED * (1 - MARKED), "signal": 1.0, "y": NOISE**2 + unknown * (2 - unknown)}
        return np.stack([np.broadcast_to(np.asarray(errors[name]), steps) for name in columns], axis=1)


def locate(name: str, root: Path | str) -> Path:
    """The file root/NAME.csv, verified; downloaded (pooch) when it is not there.

    UserError for an unknown name, a file that is not the published one, and a download that fails.
    """
    if name not in CATALOG:
        raise UserError(
            f"The catalog has no data set '{name}', only {', '.join(CATALOG)}.{closest(name, CATALOG)} "
            "For a file of your own use data=csv data.path=my.csv."
        )
    md5, path, url = CATALOG[name], Path(root) / f"{name}.csv", f"{FOLDER}/{name}.csv"
    if path.exists():
        if file_md5(path) != md5:
            raise UserError(
                f"{path} is not the published file: its MD5 is {file_md5(path)}, not {md5}. Remove it to download it "
                "anew (a file with CRLF line ends counts as another), or read it as your own with data=csv "
                "data.path=..."
            )
        return path
    log.info("Downloading %s to %s", url, path)
    pooch.get_logger().setLevel(logging.WARNING)  # one line, ours, is enough
    try:
        # pooch writes to a temporary name and moves the file when its checksum is right.
        pooch.retrieve(url, f"md5:{md5}", fname=path.name, path=path.parent)
    # Every network error of requests is an OSError, a wrong checksum a ValueError.
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is not there and its download failed: {label(str(error), 300)}. Get it from {url} "
            f"(MD5 {md5}) and put it at {path.absolute()}, or point FORECAST_DATA or data.root to the folder that "
            "holds it. data=demo needs no download."
        ) from error
    return path


def file_md5(path: Path | str) -> str:
    """The MD5 of a file's bytes, in hexadecimal. UserError when it cannot be read."""
    with readable(path):
        return str(pooch.file_hash(path, alg="md5"))
