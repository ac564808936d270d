"""`forecast auto` from Python."""

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar, cast

import pandas as pd

from forecast.apps.auto.budget import FOLDER, STATE, check_folder
from forecast.apps.auto.command import automatic
from forecast.apps.common.tables import check_table, place_table, time_column_of
from forecast.errors import UserError
from forecast.run_folder import TRAINING_TABLE
from forecast.text.overrides import hydra_value

A = TypeVar("A", bound="Automatic")


class Automatic:
    """What makes a forecaster from a table and some time."""

    @classmethod
    def load(cls: type[A], ckpt_path: Path | str) -> A:
        """That of a checkpoint."""
        raise NotImplementedError

    @classmethod
    def auto(
        cls: type[A],
        table: pd.DataFrame | Path | str,
        *,
        output: Path | str,
        horizon: int | None = None,
        minutes: float = 10.0,
        target: str | None = None,
        level: Sequence[float] = (80, 95),
        preset: Literal["fast", "good", "best"] = "good",
        metric: Literal["mse", "mae"] = "mse",
        settings: Sequence[str] = (),
    ) -> A:
        """The best forecaster that there is time for, as `forecast auto` finds it.

        table: a DataFrame, or a file. output: the folder with forecast.csv, leaderboard.json and report.html. horizon:
        steps to forecast; None: what suits the data. level: of the intervals, in per cent. settings:
        "data.known=[load]", "future=tomorrow.csv" and whatever else the command takes. Raises UserError with the words
        of the command line.
        """
        begun, folder, file, placed = time.monotonic(), Path(output), str(table), False
        if minutes < 0:
            raise UserError(f"minutes={minutes}: must be 0 or more")
        check_table(table)
        if isinstance(table, pd.DataFrame):
            settings = [*settings, f"data.time_column={hydra_value(time_column_of(table))}"]
            check_folder(folder, make=True)
            placed, file = place_table(folder, table), str(folder / TRAINING_TABLE)
        keys = {"horizon": horizon, "minutes": minutes, "target": target, "preset": preset, "metric": metric}
        options = {"file": file, "output": str(output), "level": list(level), "settings": list(settings), **keys}
        try:
            answer = automatic(argparse.Namespace(**options), begun=begun)
        except UserError:
            if placed and not (folder / FOLDER / STATE).exists():
                Path(file).unlink()  # refused before it began: the corrected call finds nothing of this one
            raise
        return cls.load(cast(Mapping[str, str], answer.document)["checkpoint"])
