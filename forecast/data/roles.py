"""What the columns of a file are to a forecast: targets, known in advance, observed, facts of a series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from forecast.bounds import Text
from forecast.errors import UserError, closest
from forecast.text.terminal import listed


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of columns; without any every column is one of the series, see `Source.features`.

    known: known in advance, such as a promotion or tomorrow's weather forecast; their values at the forecast steps are
    an input. past: observed, as the targets are, but not forecast. static: facts of a series of a panel, which do not
    change within it.
    """

    known: Sequence[Text] = ()
    past: Sequence[Text] = ()
    static: Sequence[Text] = ()

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role that has any, by its key."""
        roles = {field.name: tuple(getattr(self, field.name)) for field in fields(Roles)}
        return {key: names for key, names in roles.items() if names}


def names_roles(config: Mapping[str, Any]) -> bool:
    """Whether the keys of a source give columns roles, or name several targets."""
    roles = [config.get(field.name) for field in fields(Roles)]
    return any(roles) or not isinstance(config.get("target"), str | None)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a frame by role, in the order in which the frame has them: targets, past, then known."""

    targets: tuple[str, ...]
    past: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return self.targets + self.past + self.known


def columns_by_role(columns: Sequence[str], roles: Roles, targets: Sequence[str], where: str) -> Columns:
    """The columns of a file by role; those that nobody names are observed ones.

    UserError, beginning with `where`, for a name that is no column, and for one that has two roles.
    """
    taken: dict[str, str] = {}
    for key, names in {"target": tuple(targets), **roles.named}.items():
        for name in names:
            if name not in columns:
                raise UserError(
                    f"{where}: there is no column '{name}' (data.{key}) among {listed(columns)}."
                    f"{closest(name, columns)} Name columns as line 1 does."
                )
            if name in taken:
                raise UserError(_twice(where, name, taken[name], key))
            taken[name] = key
    of = {key: tuple(name for name in columns if taken.get(name) == key) for key in ("past", "known")}
    others = tuple(name for name in columns if name not in taken)
    return Columns(targets=tuple(targets), past=of["past"] + others, known=of["known"])


def _twice(where: str, name: str, first: str, second: str) -> str:
    if first == second:
        return f"{where}: the column '{name}' stands twice in data.{first}. Name it once."
    if (first, second) == ("target", "known"):
        return (
            f"{where}: the column '{name}' is a target (data.target), and its future is what is to be forecast: it "
            "cannot be known in advance (data.known). Name it in one of them."
        )
    return f"{where}: the column '{name}' is named as data.{first} and as data.{second}. Give it one role."
