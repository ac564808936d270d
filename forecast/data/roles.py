"""What the columns of a file are to a forecast: targets, known in advance, observed, facts of a series."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from forecast.bounds import Text
from forecast.errors import UserError, closest
from forecast.text.overrides import hydra_value
from forecast.text.terminal import listed

HOLIDAY = "holiday"  # what the column made of data.holidays is called
PADDED = "padded"  # what the known feature of the rows that fill a window in front of a short series is called


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of columns; without any every column is one of the series, used as `features` says.

    known: known in advance, such as a promotion or tomorrow's weather forecast; their values at the forecast steps are
    an input. past: observed, as the targets are, but not forecast. static: facts of a series of a panel, which do not
    change within it: its columns, or those of the file static_path, whose rows are found by static_on, names in the
    panel by names there. categorical: columns of any role but the target's whose numbers are names; text is so by
    itself. holidays: the country whose public holidays are known in advance.
    """

    known: Sequence[Text] = ()
    past: Sequence[Text] = ()
    static: Sequence[Text] = ()
    categorical: Sequence[Text] = ()
    static_path: Text | None = None
    static_on: Mapping[Text, Text] | None = None
    holidays: Text | None = None

    @property
    def named(self) -> dict[str, object]:
        """What is said of roles, by its key."""
        return {field.name: value for field in fields(Roles) if (value := getattr(self, field.name))}

    @property
    def has_facts(self) -> bool:
        """Whether the series have facts."""
        return bool(self.static or self.static_path)


def names_roles(keys: Mapping[str, object]) -> bool:
    """Whether the keys of a source give columns roles, or name several targets."""
    roles = [keys.get(field.name) for field in fields(Roles)]
    return any(roles) or isinstance(keys.get("target"), list | tuple)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a frame by role, in the order in which the frame has them: targets, past, known, hidden.

    hidden: observed categories, which a model reads as it does those that are known, but for the steps to come.
    """

    targets: tuple[str, ...]
    past: tuple[str, ...]
    known: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return self.targets + self.past + self.covariates

    @property
    def covariates(self) -> tuple[str, ...]:
        """Those that stand among the known features."""
        return self.known + self.hidden


def check_roles(roles: Roles, *, features: str, panel: str | None) -> None:
    """UserError for what does not go together with roles. panel: how several series stand in the file."""
    if features != "M":
        raise UserError(
            f"data.features={features} says what is what where no role is named, and here are roles "
            f"({', '.join(f'data.{key}' for key in roles.named) or 'data.target of several'}): the targets are "
            "data.target alone. Leave data.features out."
        )
    if panel in ("columns", "rows"):
        raise UserError(
            f"data.{next(iter(roles.named), 'target')} names columns beside the target, and in a panel with "
            f"data.panel={panel} each is a series. Write a row for each series and time: data.panel=long "
            "data.id_column=NAME"
        )
    _check_facts(roles, panel=panel is not None)


def _check_facts(roles: Roles, *, panel: bool) -> None:
    """UserError for what does not go together."""
    of_file = f"data.static_path={roles.static_path}"
    setting = f"data.static={hydra_value(list(roles.static))}" if roles.static else of_file
    if roles.has_facts and not panel:
        raise UserError(
            f"{setting}: facts tell series from each other, and the data are one. Leave them out, or name the panel: "
            "data.id_column=NAME"
        )
    if roles.static_path and not roles.static_on:
        raise UserError(
            f"{of_file}: which row is of which series? Name a column of the panel and the one that it is in that "
            "file: 'data.static_on={store: STORE}'"
        )
    if roles.static_on and not roles.static_path:
        raise UserError(
            f"data.static_on={hydra_value(dict(roles.static_on))} joins a file, and none is named. Add "
            "data.static_path=FILE."
        )


def columns_by_role(
    columns: Sequence[str], roles: Roles, targets: Sequence[str], where: str, categories: Collection[str] = ()
) -> Columns:
    """The columns of a file by role; those that nobody names are observed ones.

    categories: those that hold words. UserError, beginning with `where`, for a name that is no column, and for one that
    has two roles.
    """
    taken: dict[str, str] = {}
    known = [*roles.known, *((HOLIDAY,) if roles.holidays else ())]
    for key, names in {"target": targets, "known": known, "past": roles.past, "static": roles.static}.items():
        for name in names:
            if name not in columns and key != "static":
                raise _absent(where, name, key, columns)
            if name in taken:
                raise UserError(_twice(where, name, taken[name], key))
            taken[name] = key
    for name in roles.categorical:
        if name not in columns and name not in roles.static and not roles.static_path:
            raise _absent(where, name, "categorical", columns)
        if taken.get(name) == "target":
            raise UserError(
                f"{where}: the column '{name}' is a target (data.target), and what is forecast are numbers, no "
                "categories (data.categorical). Name it in one of them."
            )
    of = {key: tuple(name for name in columns if taken.get(name) == key) for key in ("past", "known")}
    past = of["past"] + tuple(name for name in columns if name not in taken)
    return Columns(
        targets=tuple(targets),
        past=tuple(name for name in past if name not in categories),
        known=of["known"],
        hidden=tuple(name for name in past if name in categories),
    )


def _absent(where: str, name: str, key: str, columns: Sequence[str]) -> UserError:
    return UserError(
        f"{where}: there is no column '{name}' (data.{key}) among {listed(columns)}.{closest(name, columns)} Name "
        "columns as line 1 does."
    )


def _twice(where: str, name: str, first: str, second: str) -> str:
    if name == HOLIDAY and first == second:
        return (
            f"{where}: the column '{name}' is that of data.holidays. Leave it out of data.known, or call it otherwise."
        )
    if first == second:
        return f"{where}: the column '{name}' stands twice in data.{first}. Name it once."
    if (first, second) == ("target", "known"):
        return (
            f"{where}: the column '{name}' is a target (data.target), and its future is what is to be forecast: it "
            "cannot be known in advance (data.known). Name it in one of them."
        )
    return f"{where}: the column '{name}' is named as data.{first} and as data.{second}. Give it one role."
