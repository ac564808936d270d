"""What a checkpoint says of the roles of columns."""

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from forecast.config.run_config import RunConfig
from forecast.data.reading.codebook import Codebook
from forecast.data.roles import HOLIDAY, names_roles
from forecast.data.sources import CsvSource, FileSource, Source
from forecast.run_folder.shapes import DataRecord


class TrainedRoles(ABC):
    """Of the entries `data` and `config` of a record."""

    @property
    @abstractmethod
    def config(self) -> RunConfig:
        """That of the training."""

    @property
    @abstractmethod
    def data(self) -> DataRecord:
        """What is known of the data."""

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that are known in advance: the last of the columns."""
        return tuple(name for name in self.data.get("covariates") or () if name in self.data["columns"])

    @property
    def features(self) -> str:
        """The data's features: S, M or MS, or `roles` where columns have roles, or several names are the target."""
        keys = self.config.data.node
        return "roles" if names_roles(keys) else str(keys["features"])

    @property
    def future_columns(self) -> tuple[str, ...]:
        """The covariates whose values at the forecast steps someone must say."""
        return tuple(name for name in self.covariates if name not in self.hidden and name in self.read_columns)

    @property
    def holidays(self) -> str | None:
        """The country of whose holidays a column was made."""
        country = self.config.data.get("holidays")
        return None if country is None else str(country)

    @property
    def read_columns(self) -> list[str]:
        """The columns that are read from a file, and not made from its calendar."""
        return [name for name in self.data["columns"] if self.holidays is None or name != HOLIDAY]

    @property
    def hidden(self) -> tuple[str, ...]:
        """Those that are observed: categories, of which the model is not told at the forecast steps."""
        return tuple(self.data.get("hidden") or ())

    @property
    def categories(self) -> dict[str, list[str]]:
        """The words of each covariate, and each fact of the series, that is one of several words."""
        return {name: words for name, words in (self.data.get("covariates") or {}).items() if words is not None}

    @property
    def fact_columns(self) -> tuple[str, ...]:
        """The columns of the panel's files from which its facts come."""
        return tuple(facts["columns"]) if (facts := self.data.get("facts")) else ()

    @property
    def fact_scale(self) -> npt.NDArray[np.float64] | None:
        """Mean and deviation (2, G) of the facts of the series."""
        facts = self.data.get("facts")
        return None if facts is None else np.array([facts["mean"], facts["std"]], dtype=np.float64)

    def codebook(self, source: Source) -> Codebook:
        """Which columns of a file are read as categories: those that were in the training."""
        keys = source.static_on or {} if isinstance(source, CsvSource) else {}
        return Codebook(self.categories, keys, source.missing if isinstance(source, FileSource) else ())
