"""What the columns of a file are to a forecast: targets, known in advance, observed, facts of a series."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from forecast.bounds import Text
from forecast.errors import UserError, closest
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
    first, facts = next(iter(roles.named), "target"), "static" if roles.static else "static_path"
    problems = {
        f"data.features={features} says what is what where no role is named, and data.{first} names some: the targets "
        "are data.target alone. Leave data.features out.": features != "M",
        f"data.{first} names columns beside the target, and in a panel with data.panel={panel} each is a series. Write "
        "a row for each series and time: data.panel=long data.id_column=NAME": panel in ("columns", "rows"),
        f"data.{facts}: facts tell series from each other, and the data are one. Leave them out, or name the panel: "
        "data.id_column=NAME": roles.has_facts and panel is None,
        "data.static_path and data.static_on go together: a file of facts, and a column of the panel with the one that "
        "it is in that file: 'data.static_on={store: STORE}'. Name both, or none.": bool(roles.static_path)
        != bool(roles.static_on),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise UserError(problem)


def columns_by_role(
    columns: Sequence[str], roles: Roles, targets: Sequence[str], where: str, categories: Collection[str] = ()
) -> Columns:
    """The columns of a file by role; those that nobody names are observed ones.

    categories: those that hold words. UserError, beginning with `where`, for a name that is no column, and for one that
    has two roles.
    """
    taken: dict[str, str] = {}
    holidays = (HOLIDAY,) if roles.holidays else ()
    named = {"target": targets, "known": roles.known, "holidays": holidays, "past": roles.past, "static": roles.static}
    for key, names in named.items():
        for name in names:
            if name not in columns and key != "static":
                raise _absent(where, name, key, columns)
            if name in taken:
                raise UserError(
                    f"{where}: the column '{name}' is named in data.{taken[name]} and again in data.{key}. Give it one "
                    "role, once."
                )
            taken[name] = key
    for name in roles.categorical:
        if name not in columns and name not in roles.static and not roles.static_path:
            raise _absent(where, name, "categorical", columns)
        if taken.get(name) == "target":
            raise UserError(
                f"{where}: the column '{name}' is a target (data.target), and what is forecast are numbers, no "
                "categories (data.categorical). Name it in one of them."
            )
    roles_of = {name: taken.get(name) for name in columns}
    past = [name for name, role in roles_of.items() if role == "past"]
    past += [name for name, role in roles_of.items() if role is None]
    return Columns(
        targets=tuple(targets),
        past=tuple(name for name in past if name not in categories),
        known=tuple(name for name, role in roles_of.items() if role in ("known", "holidays")),
        hidden=tuple(name for name in past if name in categories),
    )


def _absent(where: str, name: str, key: str, columns: Sequence[str]) -> UserError:
    return UserError(
        f"{where}: there is no column '{name}' (data.{key}) among {listed(columns)}.{closest(name, columns)} Name "
        "columns as line 1 does."
    )
