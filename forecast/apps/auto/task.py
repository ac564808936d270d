"""What an automatic run is to forecast: from a file and a few words to what `forecast train` takes."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from forecast.apps.common.tables import typed_settings
from forecast.config.compose import options
from forecast.config.run_config import composed
from forecast.data.describe.check import PROPOSAL, check_file, known_keys
from forecast.data.future import read_future
from forecast.data.panel import PanelFrame
from forecast.data.read import read_panel, source_rows
from forecast.data.seasonality import mostly_zero, suggest, usual_pred_len
from forecast.data.sources import CsvSource, Source
from forecast.data.split import LastSplit, ShareSplit, Split, panel_cuts
from forecast.errors import UserError, closest
from forecast.text.overrides import hydra_value
from forecast.text.terminal import listed

SPLIT_WORDS = ("data/split=", "data.split.")
KEPT_WORDS = (*SPLIT_WORDS, "data.short=drop")  # with which the split stays as it is
SUGGESTED = ("seq_len=", "pred_len=", "data.short=", *SPLIT_WORDS)  # words of train that fit its windows to the rows
PANEL_KEYS = ("panel", "id_column")
# Of the words that train takes, those that this command hands on beside data.KEY.
OTHERS = ("data/split", "protocol", "protocol.", "seed", "future", "trainer", "checks.leakage", "budget")
BUDGET = "budget="
ROLE_KEYS = ("known", "past", "static", "categorical", "holidays")
USUAL_PATCH, SHORT_SEASON, LONGEST_SEASON = 16, 12, 64  # steps of a patch, of seasons
UNKNOWN = "unknown"
NAMED = 10  # series that have no forecast
HORIZONS = 4  # of validation, that intervals of 80 % need
WEIGHED_BY_SERIES, ORIGINS = 30, 3  # series or more, of which each has weights of its own; horizons that these need
AutoSettings = dict[str, Any]  # presets.yaml


class AutoTask(NamedTuple):
    """words: overrides of train that choose data, lengths and split. notes: what was chosen, a sentence each. future:
    the file of what is known in advance. without_roles: keys of the words that a model without roles leaves out.
    period: steps in a season, None where none is known. intermittent: whether most values of a target are 0. year: rows
    of one, None where there are not three. series: how many are read. unread: ids of the others, by the reason.
    """

    words: list[str]
    notes: list[str]
    future: str | None
    without_roles: list[str]
    period: int | None
    intermittent: bool = False
    year: int | None = None
    series: int = 1
    unread: Mapping[str, Sequence[str]] = MappingProxyType({})

    @property
    def proposal(self) -> str:
        """What is said of columns that are not used; "" where all are."""
        return next((note for note in self.notes if PROPOSAL in note), "")

    @property
    def patch_len(self) -> int:
        """Steps in a patch: half a season of hours or months, a whole one of days of the week, else USUAL_PATCH."""
        if self.period is None or self.period > LONGEST_SEASON:
            return USUAL_PATCH
        return self.period if self.period < SHORT_SEASON else self.period // 2

    @property
    def is_panel(self) -> bool:
        """Whether the words name several series."""
        return any(word.startswith(tuple(f"data.{key}=" for key in PANEL_KEYS)) for word in self.words)

    @property
    def is_judged(self) -> bool:
        """Whether any row is kept from the training, to judge it."""
        return "data.split.val=0" not in self.words

    def served(self, ahead: int, judged: int) -> str:
        """How many series have a forecast, and how many were judged, in a sentence."""
        count = self.series + sum(map(len, self.unread.values()))
        have = "all have" if ahead == count else f"{ahead:,} have"
        short = f"{judged:,} were judged, {ahead - judged:,} are too short for that"
        return f"{count:,} series: {have} a forecast, {'and all of these were judged' if judged == ahead else short}."

    def check_forecast(self, path: Path) -> None:
        """UserError where a forecast lacks series of the file; it names them."""
        if self.unread:
            reasons = [f"{listed(ids[:NAMED])} ({why})" for why, ids in self.unread.items()]
            raise UserError(f"{path} lacks series of the file: {'; '.join(reasons)}")

    def steps(self, value: object) -> object:
        """What a setting says in words, in steps: a patch of "season", a length of "7 seasons" or of the "window",
        the rows of a "year"; perhaps UNKNOWN; whether the file is a "panel".
        """
        of_task = {
            "year": UNKNOWN if self.year is None else self.year,
            "season": self.patch_len,
            "panel": self.is_panel,
        }
        if isinstance(value, str) and value in of_task:
            return of_task[value]
        if value == "window":
            lengths = [word.partition("=")[2] for word in self.words if word.startswith("seq_len=")]
            return int(lengths[0]) if lengths else UNKNOWN
        if not isinstance(value, str) or not value.endswith(" seasons"):
            return value
        if self.period is None or self.period > LONGEST_SEASON:
            return UNKNOWN
        return int(value.split()[0]) * self.period

    def of(self, settings: Mapping[str, object], *, roles: bool = True) -> list[str]:
        """The overrides of a member. roles: whether its model can use columns that have one.

        A length in seasons stays that of the task where there is no season, or one longer than LONGEST_SEASON.
        """
        settings = {key: self.steps(value) for key, value in settings.items()}
        settings = {key: value for key, value in settings.items() if value != UNKNOWN}
        kept = [word for word in self.words if word.partition("=")[0] not in settings]
        if not roles and self.without_roles:
            kept = [word for word in kept if not word.startswith(tuple(self.without_roles))] + ["data.features=S"]
        return [*kept, *(f"{key}={hydra_value(value)}" for key, value in settings.items())]


def find_task(arguments: argparse.Namespace) -> AutoTask:
    """Reads the file. Raises UserError for one that cannot be forecast, and for words that it does not take."""
    own, others = split_words(arguments.settings)
    if arguments.target is not None:
        own = [*own, f"data.target={hydra_value(arguments.target)}"]
    future = next((word.partition("=")[2] for word in others if word.startswith("future=")), None)
    others = [word for word in others if not word.startswith(("future=", BUDGET))]
    notes: list[str] = []
    panel_words = tuple(f"data.{key}=" for key in PANEL_KEYS)
    chosen = {word.partition("=")[0] for word in (*own, *others)}
    if chosen & {f"data.{key}" for key in ROLE_KEYS}:
        chosen.add("data.features")  # which says what is what where no column has a role
    if not Path(arguments.file).exists() and arguments.file in options("data", but="csv"):
        words = [f"data={arguments.file}"]
        lengths, period = of_source([*words, *own, *others], arguments.horizon)
    elif any(word.startswith(panel_words) for word in own):
        words = ["data=csv", f"data.path={hydra_value(arguments.file)}"]
        lengths, period = of_source([*words, *own, *others], arguments.horizon)
    else:
        own_split = any(word.startswith("data/split=") for word in others)
        horizon = None if own_split else arguments.horizon  # the check looks at the usual shares of the rows
        words, lengths, notes, period = of_file(arguments.file, own, horizon, target=arguments.target)
        if own_split or any(word.startswith(panel_words) for word in words):
            unsaid = [word for word in words if word.partition("=")[0] not in chosen]
            lengths, period = of_source([*unsaid, *own, *others], arguments.horizon)
    if any(word.startswith(SPLIT_WORDS) for word in (*own, *others)):
        chosen |= {"data/split", "data.split.val", "data.split.test"}
    lengths = {key: value for key, value in lengths.items() if key not in chosen}
    kept = [word for word in words if word.partition("=")[0] not in chosen]
    overrides = [*kept, *own, *others, *(f"{key}={value}" for key, value in lengths.items())]
    roles = [f"data.{key}=" for key in ROLE_KEYS if any(word.startswith(f"data.{key}=") for word in overrides)]
    task = AutoTask(overrides, notes, future, [*roles, "data.features="] if roles else [], period)
    source = composed(task.of({"model": "ridge"})).config.data.build(Source)  # refuses what no training takes
    frame, pred_len = source_rows(source), int(str(lengths["pred_len"]))
    if split := longer_validation(source.split, frame, pred_len, [*own, *others]):
        again = {"horizon": pred_len, "settings": [*arguments.settings, *split.split()]}
        task = find_task(argparse.Namespace(**{**vars(arguments), **again}))
        task.notes.append(f"Validation holds the forecasts that intervals or weights need: {split}")
        return task
    targets = [frame.values[:, i] for i in source.target_columns(frame)]
    # a season that was typed is that of the patches too
    return task._replace(
        period=source.season or period,
        series=len(frame),
        unread=frame.left_out,
        intermittent=any(map(mostly_zero, targets)),
        year=None
        if frame.without_calendar
        else rows_of_a_year(frame.freq, rows=int(frame.lengths.max()), horizon=pred_len),
    )


def members_of(settings: AutoSettings, preset: str, task: AutoTask) -> list[str]:
    """What is trained, in this order: of a preset, but for columns known in advance and where most values are 0.

    Without what is trained on the rows of the last year where there are too few before them.
    """
    names = settings["presets"][preset]
    networks = [name for name in names if name in settings["networks"]]
    if any(word.startswith("data.known=") for word in task.words):
        networks = settings["known"]
    rare = settings["intermittent"] if task.intermittent else []
    members = [*(name for name in names if name in settings["fitted"]), *rare, *networks]
    recent = {name for name, words in settings["fitted"].items() if "data.recent" in words}
    return [name for name in members if task.year is not None or name not in recent]


def longer_validation(split: Split, frame: PanelFrame, pred_len: int, words: Sequence[str]) -> str | None:
    """A split whose validation holds enough horizons for intervals and whose train is half of the rows.

    None where the usual shares have as many, where the words choose a split, and where the rows are too few. Where they
    leave open how many horizons validate a panel, enough for weights by series.
    """
    if isinstance(split, LastSplit) and not any(word.startswith("data.split.val=") for word in words):
        rows = int(np.median(frame.lengths))
        enough = len(frame) >= WEIGHED_BY_SERIES and rows - (split.test + ORIGINS) * pred_len >= rows // 2
        rest = "" if "data/split=last" in words else f"data/split=last data.split.test={split.test} "
        return f"{rest}data.split.val={ORIGINS}" if enough and 0 < split.val < ORIGINS else None
    if not isinstance(split, ShareSplit) or any(word.startswith(("data/split=", "data.split.")) for word in words):
        return None
    val = panel_cuts(split, frame, pred_len=pred_len)["val"]
    if ((val.stop - val.first) // pred_len).sum() >= HORIZONS:
        return None
    least = int(frame.lengths.max()) // 2
    return split.for_intervals(HORIZONS, frame.lengths, least=least, pred_len=pred_len)


def rows_of_a_year(freq: str, *, rows: int, horizon: int) -> int | None:
    """How many rows of a frequency are a year; None where `rows` are not three, and where one holds no two horizons."""
    third = pd.date_range("2001-01-01", periods=rows // 3, freq=freq)
    year = int((third < pd.Timestamp("2002-01-01")).sum())
    return year if 2 * horizon <= year < len(third) else None


def by_processor(settings: Sequence[str]) -> bool:
    """Whether minutes are those of a processor (budget=cpu). UserError for another word, and where none are counted."""
    kinds = [word.removeprefix(BUDGET) for word in settings if word.startswith(BUDGET)]
    if not kinds or kinds[-1] == "time":
        return False
    if kinds[-1] != "cpu":
        raise UserError(
            f"{BUDGET}{kinds[-1]}: minutes are those of the clock, budget=time, or of a processor, budget=cpu"
        )
    if not sys.platform.startswith("linux"):
        raise UserError("budget=cpu: the seconds of a processor are counted on Linux. Leave it out")
    return True


def check_known(task: AutoTask) -> None:
    """UserError where the forecast would lack what is known of its steps in advance: now and not after the training."""
    config, future = composed(task.of({"model": "ridge"})).config, task.future
    source, steps = config.data.build(Source), config.pred_len
    known = list(source.known) if isinstance(source, CsvSource) else []
    if not isinstance(source, CsvSource) or not known:
        if future is not None:
            raise UserError(
                f"future={future}: no column is known in advance. Leave it out, or name those that are: "
                "data.known=[NAME]"
            )
        return
    frame = read_panel(source)
    file, every = source if future is None else source.with_file(future, columns=None, drop=()), np.arange(len(frame))
    book = source.codebook()
    read_future(file, columns=known, history=frame, series=every, steps=steps, book=book, own=future is None)


def split_words(settings: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words data.KEY=VALUE, and the others that are handed on. Raises UserError for any other word."""
    own = [word for word in settings if word.startswith("data.")]
    others = [word for word in settings if word not in own]
    for word in others:
        key = word.partition("=")[0]
        if "=" not in word or not any(
            key == accepted or (accepted.endswith(".") and key.startswith(accepted)) for accepted in OTHERS
        ):
            near = closest(key, [*OTHERS, "data.target"])
            raise UserError(
                f"{word}: forecast auto does not take it.{near} It takes data.KEY=VALUE, data/split=NAME, "
                "protocol=NAME, seed=N, trainer=NAME, checks.leakage=false, budget=cpu and future=FILE; the rest it "
                "chooses."
            )
    return own, others


def of_file(
    path: str, own: Sequence[str], horizon: int | None, *, target: str | None
) -> tuple[list[str], dict[str, object], list[str], int | None]:
    """What check-data says of a file: words of train, lengths, how it is read, and its season."""
    known = known_keys()
    given = typed_settings([w for w in own if w.partition("=")[0].removeprefix("data.") in known], "data", known)
    given |= {} if target is None else {"target": target}
    check = check_file(path, given, pred_len=horizon)
    if check.ids:
        ids = check.ids[0] if len(check.ids) == 1 else list(check.ids)
        check = check_file(path, {**given, "id_column": ids}, pred_len=horizon)
    if check.command is None or check.suggestion is None:
        problems = [text.removeprefix(f"{path} ").removeprefix(f"{path}: ") for text in check.findings.texts("error")]
        raise UserError(f"{path}: {' '.join(problems) or 'it cannot be read as it is.'}")
    notes = [*check.reasons, *(text for text in check.findings.texts("note") if PROPOSAL in text)]
    words = [word for word in check.command[2:] if not word.startswith(("model=", "model."))]
    lengths = dict(word.split("=", 1) for word in words if word.startswith(SUGGESTED))
    words = [word for word in words if word.partition("=")[0] not in lengths]
    steps: dict[str, object] = {**lengths, "label_len": check.suggestion.lengths.label_len}
    seasons = check.suggestion.seasons
    return words, steps, notes, seasons[0].period if seasons else None


def of_source(words: Sequence[str], horizon: int | None) -> tuple[dict[str, object], int | None]:
    """The lengths, with the split and the padding that they need, and the season of data that the words name.

    The season is that of the train rows alone, of the target where the words name one, else of all that is forecast.
    """
    source = composed(words).config.data.build(Source)
    frame = source_rows(source)
    pred_len = horizon or usual_pred_len(frame.freq)
    split = composed([*words, f"pred_len={pred_len}"]).config.data.build(Source).split  # one may be cut by horizons
    columns = list(source.target_columns(frame))
    if isinstance(source.target, str) and any(word.startswith("data.target=") for word in words):
        columns = [frame.columns.index(source.target)]
    is_free = isinstance(split, ShareSplit) and not any(word.startswith(KEPT_WORDS) for word in words)
    chosen_len = pred_len if horizon or frame.lengths.max() >= 3 * pred_len else None
    suggestion = suggest(frame, split, targets=columns, pred_len=chosen_len, is_free=is_free)
    settings = suggestion.lengths._asdict() | suggestion.settings()
    return settings, suggestion.seasons[0].period if suggestion.seasons else None
