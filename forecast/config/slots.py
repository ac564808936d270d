"""Whether each attention can serve the slots of the model that it is put into."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from forecast.config.allow_list import resolve_target
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
        parts = [chosen.get(part) for part in ("mechanism", "projection")]
        targets = [str(part.get("_target_", "")) for part in parts if isinstance(part, Mapping)]
        if len(targets) == 2 and all(targets):
            yield Slot(key, "attention" if inherits else f"attention@model.{key}", *targets)


def has_slots(values: Mapping[str, Any]) -> bool:
    """Whether the model has any attention."""
    return any(key.endswith(SUFFIX) for key in values.get("model", {}))


def check_slots(values: Mapping[str, Any], problems: Problems) -> None:
    """Adds a problem for each slot whose attention cannot serve it, and for heads that cannot share the width.

    What a target's own check has refused is passed over.
    """
    try:
        model: object = resolve_target(values["model"]["_target_"])
        cached = model.cached_slots(values["model"]) if hasattr(model, "cached_slots") else ()
        slots = list(read_slots(values))
        for slot in slots:
            if reason := _refusal(slot.mechanism, slot.name, cached):
                _add_refusal(slot, reason, cached, problems)
        d_model, n_heads = values["model"].get("d_model"), values["model"].get("n_heads")
        if all(isinstance(size, int) and size >= 1 for size in (d_model, n_heads)) and d_model % n_heads:
            projections: list[Any] = [resolve_target(slot.projection) for slot in slots]
            if any(projection.splits() for projection in projections):
                text = f"must be a multiple of model.n_heads ({n_heads}): each head gets an equal part"
                problems.add("model.d_model", d_model, text)
    except UserError:
        return


def _refusal(mechanism: str, slot: str, cached: tuple[str, ...]) -> str:
    kind: Any = resolve_target(mechanism)
    refusal: str = kind.refusal(cross=slot.startswith("cross"), cached=slot in cached)
    return refusal


def _add_refusal(slot: Slot, reason: str, cached: tuple[str, ...], problems: Problems) -> None:
    """Names the option that is in the slot, by its targets, and all that could be."""
    names = options("attention", but="inherit")
    nodes: list[Any] = [OmegaConf.load(CONF / "attention" / f"{name}.yaml") for name in names]
    targets = {n: (node.mechanism._target_, node.projection._target_) for n, node in zip(names, nodes, strict=True)}
    same = (name for name in names if targets[name] == (slot.mechanism, slot.projection))
    chosen = next(same, slot.mechanism.rsplit(".", 1)[-1])
    can = ", ".join(name for name in names if not _refusal(targets[name][0], slot.name, cached))
    place = f"the model's {slot.name}" if slot.path == "attention" else "this slot"
    problems.add_line(slot.path, f"{slot.path}={chosen} cannot serve {place}: {reason}. These can: {can}")
