"""Whether each attention can serve the slots of the model that it is put into."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from forecast.config.targets import resolve_target
from forecast.config.values import CONF, Problems, options
from forecast.errors import UserError

SUFFIX = "_attention"


class Slot(NamedTuple):
    """One attention slot of a model. path: how one types its choice. mechanism, projection: their targets."""

    name: str
    path: str
    mechanism: str
    projection: str


def read_slots(values: Mapping[str, Any]) -> Iterator[Slot]:
    """The model's slots with what is in them; one that inherits holds what attention= chose."""
    for key, node in values["model"].items():
        if not key.endswith(SUFFIX) or not isinstance(node, Mapping):
            continue
        inherits = "mechanism" not in node
        chosen = values.get("attention", {}) if inherits else node
        targets = [_target(chosen.get(part)) for part in ("mechanism", "projection")]
        if all(targets):
            yield Slot(key, "attention" if inherits else f"attention@model.{key}", *targets)


def _target(node: Any) -> str:
    return str(node.get("_target_", "")) if isinstance(node, Mapping) else ""


def has_slots(values: Mapping[str, Any]) -> bool:
    """Whether the model has any."""
    return any(key.endswith(SUFFIX) for key in values.get("model", {}))


def check_slots(values: Mapping[str, Any], problems: Problems) -> None:
    """Adds a problem for each slot whose attention cannot serve it, and for heads that cannot share the width.

    What a target's own check has refused is passed over.
    """
    try:
        model: Any = resolve_target(values["model"]["_target_"])
        cached = model.cached_slots(values["model"]) if hasattr(model, "cached_slots") else ()
        for slot in read_slots(values):
            reason = _refusal(slot.mechanism, slot.name, cached)
            if reason:
                can = ", ".join(name for name in _names() if _can_serve(name, slot.name, cached))
                place = f"the model's {slot.name}" if slot.path == "attention" else "this slot"
                chosen = _name(slot.mechanism, slot.projection)
                problems.say(slot.path, f"{slot.path}={chosen} cannot serve {place}: {reason}. These can: {can}")
        _check_heads(values, problems)
    except UserError:
        return


def _check_heads(values: Mapping[str, Any], problems: Problems) -> None:
    d_model, n_heads = values["model"].get("d_model"), values["model"].get("n_heads")
    if not all(isinstance(size, int) and size >= 1 for size in (d_model, n_heads)) or d_model % n_heads == 0:
        return
    projections: list[Any] = [resolve_target(slot.projection) for slot in read_slots(values)]
    if any(projection.splits() for projection in projections):
        problems.add(
            "model.d_model", d_model, f"must be a multiple of model.n_heads ({n_heads}): each head gets an equal part"
        )


def _refusal(mechanism: str, slot: str, cached: tuple[str, ...]) -> str:
    kind: Any = resolve_target(mechanism)
    refusal: str = kind.refusal(cross=slot.startswith("cross"), cached=slot in cached)
    return refusal


def _can_serve(option: str, slot: str, cached: tuple[str, ...]) -> bool:
    return not _refusal(_targets(option)[0], slot, cached)


def _names() -> list[str]:
    return options("attention", but="inherit")


def _targets(option: str) -> list[str]:
    """Mechanism and projection of conf/attention/OPTION.yaml."""
    node: Any = OmegaConf.load(CONF / "attention" / f"{option}.yaml")
    return [node.mechanism._target_, node.projection._target_]


def _name(mechanism: str, projection: str) -> str:
    """The option of the group attention with these targets, else the mechanism's class."""
    same = (name for name in _names() if _targets(name) == [mechanism, projection])
    return next(same, mechanism.rsplit(".", 1)[-1])
