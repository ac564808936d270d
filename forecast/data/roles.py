"""What the columns of a file are to a forecast: targets, known in advance, observed, facts of a series.

Categories are numbers of words, from 1 on; 0 stands for any that a training did not see. The public holidays of a
country are a column that is known in advance.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from forecast.bounds import Text
from forecast.data.panel import PanelFrame
from forecast.data.split import TargetRows
from forecast.data.values.cells import FloatArray
from forecast.errors import UserError, closest
from forecast.text.overrides import install
from forecast.text.terminal import listed

HOLIDAY = "holiday"  # what the column made of data.holidays is called
PADDED = "padded"  # what the known feature of the rows that fill a window in front of a short series is called


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of columns; without any every column is one of the series, used as `features` says.

    known: known in advance, such as a promotion or tomorrow's weather forecast; their values at the forecast steps are
    an input. past: observed, as the targets are, but not forecast. static: facts of a series of a panel, which do not
    change within it. categorical: columns of any role but the target's whose numbers are names; text is so by
    itself. holidays: the country whose public holidays are known in advance.
    """

    known: Sequence[Text] = ()
    past: Sequence[Text] = ()
    static: Sequence[Text] = ()
    categorical: Sequence[Text] = ()
    holidays: Text | None = None

    @property
    def named(self) -> dict[str, object]:
        """What is said of roles, by its key."""
        return {field.name: value for field in fields(Roles) if (value := getattr(self, field.name))}


def names_roles(keys: Mapping[str, object]) -> bool:
    """Whether the keys of a source give columns roles, or name several targets."""
    return any(keys.get(field.name) for field in fields(Roles)) or isinstance(keys.get("target"), list | tuple)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a frame by role, in the order in which the frame has them: targets, past, known, hidden.

    hidden: observed categories, which a model reads as it does those that are known, but for the steps to come.
    """

    targets: tuple[str, ...]
    past: tuple[str, ...]
    known: tuple[str, ...]
    hidden: tuple[str, ...] = ()


def columns_by_role(
    columns: Sequence[str], roles: Roles, targets: Sequence[str], where: str, categories: Collection[str] = ()
) -> Columns:
    """The columns of a file by role; those that nobody names are observed ones.

    categories: those that hold words. UserError, beginning with `where`, for a name that is no column, and for one that
    has two roles.
    """
    holidays = (HOLIDAY,) if roles.holidays else ()
    named = {"target": targets, "known": roles.known, "holidays": holidays, "past": roles.past, "static": roles.static}
    named["categorical"] = [name for name in roles.categorical if name in targets]  # what is forecast are numbers
    role_of: dict[str, str] = {}
    for key, names in named.items():
        for name in names:
            if name in role_of:
                raise UserError(
                    f"{where}: the column '{name}' is named in data.{role_of[name]} and again in data.{key}. Give it "
                    "one role, once."
                )
            role_of[name] = key
    for name, key in {**dict.fromkeys(roles.categorical, "categorical"), **role_of}.items():
        if name not in columns and key != "static":
            raise UserError(
                f"{where}: there is no column '{name}' (data.{key}) among {listed(columns)}.{closest(name, columns)} "
                f"Set data.{key} to what is there."
            )
    past = [name for name in columns if role_of.get(name) == "past"]
    past += [name for name in columns if name not in role_of]
    return Columns(
        targets=tuple(targets),
        past=tuple(name for name in past if name not in categories),
        known=tuple(name for name in columns if role_of.get(name) in ("known", "holidays")),
        hidden=tuple(name for name in past if name in categories),
    )


log = logging.getLogger(__name__)
_WHOLE = re.compile(r"\d+")


def in_order(words: Collection[str]) -> tuple[str, ...]:
    """Words sorted; whole numbers by their size, before the others."""
    return tuple(sorted(words, key=lambda word: (0, int(word), word) if _WHOLE.fullmatch(word) else (1, 0, word)))


def recode(
    values: FloatArray,
    names: Sequence[str],
    words: Mapping[str, Sequence[str]],
    wanted: Mapping[str, Sequence[str]],
    *,
    where: str,
    noun: str = "rows",
) -> None:
    """Give the columns of values (..., K) that hold numbers of `words` those of `wanted`; NaN stays.

    0 for a word that the training did not have, which is said: in so many rows, or whatever `noun` is, of a column.
    """
    for name, own in words.items():
        codes = values[..., names.index(name)]
        places = {word: number for number, word in enumerate(wanted[name], start=1)}
        numbers = np.array([0, *(places.get(word, 0) for word in own)])
        known = np.nan_to_num(codes).astype(int)
        unseen = known[(known > 0) & (numbers[known] == 0)]
        if len(unseen):
            others = in_order([own[code - 1] for code in np.unique(unseen).tolist()])
            log.warning(
                "%s: column '%s' has in %d %s categories that the training did not have, %s%s: the model takes them "
                "for unknown.",
                *(where, name, len(unseen), noun, listed(others[:5]), ", ..." if len(others) > 5 else ""),
            )
        values[..., names.index(name)] = np.where(np.isnan(codes), np.nan, numbers[known])


def with_categories(frame: PanelFrame, categories: Mapping[str, Sequence[str]]) -> PanelFrame:
    """The same with the numbers that these words have, of columns and facts: 0 for any other, and for a missing cell.

    A cell that was filled in counts as known to be unknown: between two categories is none.
    """
    values, measured, facts = frame.values, frame.measured, frame.facts
    if frame.categories:
        values, places = np.array(values), [frame.columns.index(name) for name in frame.categories]
        if measured is not None:
            values[:, places] = np.where(measured[:, places], values[:, places], 0)
            measured = measured.copy()
            measured[:, places] = True
        recode(values, frame.columns, frame.categories, categories, where=frame.name)
    if facts is not None:
        numbers = facts.values.copy()
        recode(numbers, facts.names, facts.categories, categories, where=frame.name, noun="series")
        facts = replace(facts, values=numbers, categories={name: tuple(categories[name]) for name in facts.categories})
    words = {name: tuple(categories[name]) for name in frame.categories}
    return replace(frame, values=values, measured=measured, categories=words, facts=facts)


def with_train_categories(frame: PanelFrame, rows: TargetRows) -> PanelFrame:
    """The same with the numbers of the words that the train rows, or series that have such rows, hold."""
    learnt: dict[str, tuple[str, ...]] = {}
    if frame.categories:
        edges = np.zeros(len(frame.values) + 1, dtype=np.int64)
        np.add.at(edges, rows.first, 1)
        np.add.at(edges, rows.stop, -1)
        train = np.cumsum(edges[:-1]) > 0
        for name, words in frame.categories.items():
            column = frame.columns.index(name)
            held = train if frame.measured is None else train & frame.measured[:, column]
            learnt[name] = _used(frame.values[held, column], words)
    if frame.facts is not None:
        for name, words in frame.facts.categories.items():
            learnt[name] = _used(frame.facts.column(name)[rows.stop > rows.first], words)
    return with_categories(frame, learnt)


def _used(codes: FloatArray, words: Sequence[str]) -> tuple[str, ...]:
    """The words whose numbers are among these."""
    return in_order([words[code - 1] for code in np.unique(codes).astype(int).tolist() if code > 0])


def holiday_flags(timestamps: pd.DatetimeIndex, country: str) -> FloatArray:
    """1 for each timestamp (N,) that lies in a public holiday of a country, else 0. UserError for an unknown one."""
    years = range(int(timestamps[0].year), int(timestamps[-1].year) + 1)
    try:
        import holidays  # an extra

        days = holidays.country_holidays(country, years=years)
    except (ImportError, NotImplementedError) as error:
        raise UserError(
            f"data.holidays={country}: {error}. Write the two letters of a country, as data.holidays=DE, and see that "
            f"the package is installed: {install('holidays')}"
        ) from error
    return timestamps.normalize().isin(pd.DatetimeIndex(sorted(days))).astype(np.float64)


def with_holidays(frame: PanelFrame, country: str | None) -> PanelFrame:
    """The same with a last column `holiday`, of the country whose holidays are asked for.

    UserError where the file has a column of that name.
    """
    if country is None:
        return frame
    if HOLIDAY in frame.columns:
        raise UserError(
            f"{frame.name}: there is a column '{HOLIDAY}' already. Name it as data.known=[{HOLIDAY}] and leave "
            f"data.holidays={country} out, or leave the column out: data.drop=[{HOLIDAY}]"
        )
    steps = np.repeat(frame.steps - frame.offsets[:-1], frame.lengths) + np.arange(len(frame.values))
    flags = holiday_flags(frame.shown(frame.calendar()), country)[steps]
    values = np.column_stack([frame.values, flags])
    measured = None if frame.measured is None else np.pad(frame.measured, ((0, 0), (0, 1)), constant_values=True)
    return replace(frame, values=values, columns=(*frame.columns, HOLIDAY), measured=measured)
