"""`forecast auto` from Python."""

import argparse
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar, cast

import pandas as pd

from forecast.apps.auto.budget import BOARD, FOLDER, STATE, check_folder, default_folder
from forecast.apps.auto.command import automatic
from forecast.apps.common.frame_kinds import Kind, Table, frame_of
from forecast.apps.common.inputs import horizon_of
from forecast.apps.common.tables import data_keys, place_table
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.run_folder import TRAINING_TABLE
from forecast.run_folder.shapes import Block
from forecast.text.overrides import override_words, setting_words

A = TypeVar("A", bound="Automatic")


class Automatic:
    """What makes a forecaster from a table and some time."""

    _kind: Kind

    @property
    def folder(self) -> Path:
        """The run folder."""
        raise NotImplementedError

    @classmethod
    def load(cls: type[A], ckpt_path: Path | str) -> A:
        """That of a checkpoint."""
        raise NotImplementedError

    @classmethod
    def auto(
        cls: type[A],
        table: Table,
        *,
        output: Path | str | None = None,
        horizon: int | None = None,
        minutes: float = 10.0,
        target: str | None = None,
        level: Sequence[float] = (80, 95),
        preset: Literal["fast", "good", "best"] = "good",
        metric: Literal["mse", "mae"] = "mse",
        settings: Sequence[str] | Mapping[str, object] = (),
        **lengths: int | None,
    ) -> A:
        """The best forecaster that there is time for, as `forecast auto` finds it.

        table: as `fit` takes it, or a file. output: the folder with forecast.csv, leaderboard.json and report.html;
        None: auto/ and the name of the file, of a table the time.
        horizon: steps to forecast, by any of their names; None: what suits the data. level: of the intervals, in per
        cent. settings: {"data.known": ["load"], "future": "tomorrow.csv"} and whatever else the command takes. Raises
        UserError with the words of the command line.
        """
        horizon = horizon_of({"horizon": horizon, **lengths})
        of_file = isinstance(table, Path | str)
        name = str(table) if of_file else f"{datetime.now():%Y-%m-%d-%H-%M-%S}"
        folder = Path(output) if output else default_folder(name)
        begun, file, placed = time.monotonic(), str(table), False
        if minutes < 0:
            raise UserError(f"minutes={minutes}: must be 0 or more")
        words, kind = override_words(settings), Kind()
        if not of_file:
            # the ids are for the check of the file to find, which also chooses how gaps are filled
            frame = frame_of(table, data_keys(words), panel=False, say="settings={choice}")
            own = setting_words({f"data.{key}": value for key, value in frame.layout.items()})
            words, kind = [*(word for word in own if word not in words), *words], frame.kind
            check_folder(folder, make=True)
            placed, file = place_table(folder, frame.rows), str(folder / TRAINING_TABLE)
        keys = {"horizon": horizon, "minutes": minutes, "target": target, "preset": preset, "metric": metric}
        options = {"file": file, "output": str(folder), "level": list(level), "settings": words, **keys}
        try:
            answer = automatic(argparse.Namespace(**options), begun=begun)
        except UserError:
            if placed and not (folder / FOLDER / STATE).exists():
                Path(file).unlink()  # refused before it began: the corrected call finds nothing of this one
            raise
        best = cls.load(cast(Mapping[str, str], answer.document)["checkpoint"])
        best._kind = kind
        return best

    def leaderboard(self) -> pd.DataFrame:
        """The models that `auto` has trained, a row each, the best first, as in leaderboard.json.

        UserError for a model that stands beside no such file.
        """
        rows = read_document(path := self.folder / BOARD, list[Block])
        if rows is None:
            raise UserError(f"{path} is not there: Forecaster.auto(df, output=FOLDER) writes a leaderboard")
        table: pd.DataFrame = pd.DataFrame(rows)
        return table
