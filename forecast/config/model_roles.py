"""Whether the model can use the columns of each role that the data give it."""

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import OmegaConf

from forecast.config.allow_list import resolve_target
from forecast.config.values import CONF, Problems, options, select
from forecast.errors import UserError

# The roles of `ForecastModel.roles`, by the keys that give columns one, and what a column of the role is.
ROLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "known": (("data.known", "data.holidays"), "columns that are known in advance"),
    "past": (("data.past",), "columns that are observed beside the targets"),
    "static": (("data.static", "data.static_path"), "facts of a series"),
}


def check_roles(values: Mapping[str, Any], problems: Problems) -> None:
    """Adds a problem for each key that gives columns a role which the model cannot use.

    What a target's own check has refused is passed over; so are columns that nobody names.
    """
    given = [(role, path, value) for role, path, value in _given(values) if value]
    try:
        taken = _roles(values["model"]["_target_"]) if given else frozenset()
    except (UserError, KeyError, TypeError):
        return
    for role, path, value in given:
        if role not in taken:
            can = {name: target for name, target in _models().items() if role in _roles(target)}
            problems.add(
                path,
                value,
                f"model={_name(values['model']['_target_'])} cannot use {ROLES[role][1]}. These can: {', '.join(can)}",
            )


def _given(values: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    for role, (paths, _) in ROLES.items():
        for path in paths:
            present, value = select(values, path)
            if present:
                yield role, path, value


def _roles(target: str) -> frozenset[str]:
    """The roles that a class can use; all for what is no model of this program, which has an error of its own."""
    model: object = resolve_target(target, "model")
    return frozenset(getattr(model, "roles", ROLES))


def _models() -> dict[str, str]:
    """The options of the group model, with their targets; one that is made from another has its own or that one's."""
    nodes: dict[str, Any] = {name: OmegaConf.load(CONF / "model" / f"{name}.yaml") for name in options("model")}
    bases = {name: next((base for base in node.defaults if base in nodes), name) for name, node in nodes.items()}
    return {name: str(node.get("_target_") or nodes[bases[name]]["_target_"]) for name, node in nodes.items()}


def _name(target: str) -> str:
    """The option of a target; of a class of the user's own its name."""
    return next((name for name, path in _models().items() if path == target), target.rsplit(".", 1)[-1])
