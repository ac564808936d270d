"""`check_config`: every mistake in a config that can be seen before any data is read, in one message.

Among them an attention that cannot serve its slot of the model, and columns of a role that the model cannot use.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, TypeVar, cast

from omegaconf import DictConfig

from forecast.config import rules
from forecast.config.allow_list import SPECIAL, Target, other_kind, resolve_target, target_nodes
from forecast.config.schema import check_value, fields_of, keywords, parameters
from forecast.config.settings import TrainSettings
from forecast.config.values import CONF, Problems, chosen_groups, option_of, options, read_values, section, select
from forecast.errors import UserError, closest_file
from forecast.text.overrides import install

# What the program hands in when it builds these, so that YAML need not and must not.
PROVIDED: Mapping[str, tuple[str, ...]] = {
    "model": ("window",),
    "logger": ("save_dir",),
    "optim": ("params",),
    "schedule": ("optimizer",),
    "trainer": ("callbacks",),
}

# Where the program takes less than the class whose argument it is: a logger is chosen as a group, and processes that
# train together average their gradients.
NARROWER: Mapping[str, object] = {"trainer.logger": bool | None, "loss.reduction": Literal["mean"]}

S = TypeVar("S")
SUFFIX = "_attention"
# The roles of `ForecastModel.roles`, by the keys that give columns one, and what a column of the role is.
ROLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "known": (("data.known", "data.holidays"), "columns that are known in advance"),
    "past": (("data.past",), "columns that are observed beside the targets"),
    "static": (("data.static", "data.static_path"), "facts of a series"),
}


def check_config(cfg: DictConfig) -> None:
    """Check a config of train against the constructors that it names and the rules between its values.

    Raises one UserError with all problems: each on a line, with its YAML path, its value and the fix. Missing
    groups are reported alone: without one of them the rest of a config cannot be judged.
    """
    _check_groups(cfg)
    values, problems = read_values(cfg)
    check_keys(values, TrainSettings, problems)
    for rule in rules.RULES:
        present, operands = zip(*(select(values, path) for path in rule.reads), strict=True)
        if all(present) and not rule.holds(*operands):
            pairs = list(zip(rule.reads, operands, strict=True))
            path, value = next((pair for pair in pairs if "_target_" not in pair[0]), pairs[0])
            words = {"install": install(rule.extra), "near": closest_file(Path(str(operands[0])))}
            problems.add(path, value, rule.message.format(*operands, **words))
    check_slots(values, problems)
    check_roles(values, problems)
    problems.report()


def check_keys(values: Mapping[str, object], schema: type, problems: Problems) -> object:
    """The keys that belong to no group as a `schema`, None with the problems; those of each class are checked too."""
    nodes = list(target_nodes(values))
    groups = {path.partition(".")[0] for path, _ in nodes} | {path.name for path in CONF.iterdir() if path.is_dir()}
    own = {key: value for key, value in values.items() if key in fields_of(schema) or key not in groups}
    for path, node in nodes:
        check_target(path, node, problems)
    return check_value(own, schema, "", problems)


def _check_groups(cfg: DictConfig) -> None:
    """Raise UserError for each group that train.yaml chooses and the command line has deleted."""
    problems = Problems()
    without_slots = "_target_" in (cfg.get("model") or {}) and not has_slots(cfg)
    for group, option in chosen_groups("train").items():
        node = cfg.get(group)
        if group == "logger" and not node:  # logger=none, ~logger
            continue
        if group == "attention" and without_slots:
            if node is not None:
                problems.add_line(group, "attention: this model has none; leave attention= and attention.KEY= out")
        # what an experiment says about the group's keys stays when the group is deleted
        elif option and not (node and ("_target_" in node or group in ("attention", "callbacks"))):
            valid = ", ".join(options(group, but="inherit"))
            problems.add_line(group, f"{group} is missing: say {group}=NAME, one of {valid}")
    problems.report()


def read_settings(cfg: DictConfig, schema: type[S]) -> S:
    """The plain keys of evaluate.yaml or predict.yaml as `schema`; groups are left out.

    Raises one UserError with all missing, unknown and wrongly typed keys.
    """
    values, problems = read_values(cfg)
    settings = check_keys(values, schema, problems)
    problems.report()
    assert isinstance(settings, schema)
    return settings


def check_target(path: str, node: Mapping[str, object], problems: Problems) -> None:
    """Compares the keys of a `_target_` node with its constructor's parameters."""
    try:
        target = resolve_target(node["_target_"], path)
    except UserError as error:
        problems.add_line(f"{path}._target_", str(error))
        return
    if wrong := other_kind(target, path):
        problems.add(f"{path}._target_", node["_target_"], wrong)
        return
    provided = PROVIDED.get("logger" if path.startswith("logger.") else path, ())
    for key, value in node.items():
        place = f"{path}.{key}"
        if key in provided:
            problems.add(place, value, "the program sets this itself")
        elif not isinstance(value, Mapping) and (CONF / place.replace(".", "/")).is_dir():
            problems.add(place, value, f"must be chosen as a group: {place.replace('.', '/')}=NAME")
        elif not isinstance(value, Mapping) and place.startswith("model.") and place.endswith(SUFFIX):
            option = value if value in options("attention") else "NAME"
            problems.add(place, value, f"must be chosen as a group: attention@{place}={option}")
    given = {key: value for key, value in node.items() if key not in (*SPECIAL, *provided)}
    parts = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
    built = frozenset(key for key in given if any(isinstance(p, Mapping) and "_target_" in p for p in parts[key]))
    kinds = _keywords(target, path, provided, built, partial=bool(node.get("_partial_")))
    check_value({key: None if key in built else value for key, value in given.items()}, kinds, path, problems)


@cache
def _keywords(target: Target, path: str, provided: tuple[str, ...], built: frozenset[str], *, partial: bool) -> object:
    """The annotation of what a node may hold; of one that makes a factory nothing is missing."""
    takes = parameters(target).values()
    named = {p.name: p for p in takes if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in provided}
    kinds: dict[str, object] = {}
    for name, parameter in named.items():
        kind = NARROWER.get(f"{path}.{name}", parameter.annotation)
        limit = rules.BOUNDS.get(f"{path}.{name}")
        kinds[name] = object if name in built else Annotated[kind, limit] if limit else kind
    needed = {name for name, p in named.items() if p.default is p.empty and not partial}
    return keywords(target.__name__, kinds, needed=needed, others=any(p.kind is p.VAR_KEYWORD for p in takes))


class Slot(NamedTuple):
    """One attention slot of a model. path: how one types its choice. mechanism, projection: their targets."""

    name: str
    path: str
    mechanism: str
    projection: str


def read_slots(values: Mapping[str, object]) -> Iterator[Slot]:
    """The model's slots with what is in them; one that inherits holds what attention= chose."""
    for key, node in section(values, "model").items():
        if not key.endswith(SUFFIX) or not isinstance(node, Mapping):
            continue
        inherits = "mechanism" not in node
        chosen = section(values, "attention") if inherits else node
        parts = [chosen.get(part) for part in ("mechanism", "projection")]
        targets = [str(part.get("_target_", "")) for part in parts if isinstance(part, Mapping)]
        if len(targets) == 2 and all(targets):
            yield Slot(key, "attention" if inherits else f"attention@model.{key}", *targets)


class MechanismClass(Protocol):
    """What is asked of the class of a mechanism."""

    def refusal(self, *, cross: bool, cached: bool, causal: bool) -> str:
        """Why it cannot serve there; empty where it can."""


class ProjectionClass(Protocol):
    """What is asked of the class of a projection."""

    def splits(self) -> bool:
        """Whether each head gets an equal part of the width."""


def has_slots(values: Mapping[str, object]) -> bool:
    """Whether the model has any attention."""
    return any(key.endswith(SUFFIX) for key in section(values, "model"))


def check_slots(values: Mapping[str, object], problems: Problems) -> None:
    """Adds a problem for each slot whose attention cannot serve it, and for heads that cannot share the width.

    What a target's own check has refused is passed over.
    """
    try:
        settings = section(values, "model")
        model: object = resolve_target(settings.get("_target_"))
        cached = model.cached_slots(settings) if hasattr(model, "cached_slots") else ()
        slots = list(read_slots(values))
        for slot in slots:
            if reason := _refusal(slot.mechanism, slot.name, cached):
                _add_refusal(slot, reason, cached, problems)
        d_model, n_heads = settings.get("d_model"), settings.get("n_heads")
        if isinstance(d_model, int) and isinstance(n_heads, int) and min(d_model, n_heads) > 0 and d_model % n_heads:
            projections = [cast(ProjectionClass, resolve_target(slot.projection)) for slot in slots]
            if any(projection.splits() for projection in projections):
                text = f"must be a multiple of model.n_heads ({n_heads}): each head gets an equal part"
                problems.add("model.d_model", d_model, text)
    except UserError:
        return


def _refusal(mechanism: str, slot: str, cached: tuple[str, ...]) -> str:
    return cast(MechanismClass, resolve_target(mechanism)).refusal(
        cross=slot.startswith("cross"), cached=slot in cached, causal=slot.startswith("decoder")
    )


def _add_refusal(slot: Slot, reason: str, cached: tuple[str, ...], problems: Problems) -> None:
    """Names the option that is in the slot, by its targets, and all that could be."""
    names = options("attention", but="inherit")
    nodes = {name: option_of("attention", name) for name in names}
    targets = {name: (node.mechanism._target_, node.projection._target_) for name, node in nodes.items()}
    same = (name for name in names if targets[name] == (slot.mechanism, slot.projection))
    chosen = next(same, slot.mechanism.rsplit(".", 1)[-1])
    can = ", ".join(name for name in names if not _refusal(targets[name][0], slot.name, cached))
    place = f"the model's {slot.name}" if slot.path == "attention" else "this slot"
    problems.add_line(slot.path, f"{slot.path}={chosen} cannot serve {place}: {reason}. These can: {can}")


def check_roles(values: Mapping[str, object], problems: Problems) -> None:
    """Adds a problem for each key that gives columns a role which the model cannot use.

    What a target's own check has refused is passed over; so are columns that nobody names.
    """
    given = [(role, path, value) for role, path, value in _given(values) if value]
    target = str(section(values, "model").get("_target_"))
    try:
        taken = _roles(target) if given else frozenset()
    except UserError:
        return
    for role, path, value in given:
        if role not in taken:
            can = {name: target for name, target in _models().items() if role in _roles(target)}
            problems.add(
                path,
                value,
                f"model={_name(target)} cannot use {ROLES[role][1]}. These can: {', '.join(can)}",
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
    nodes = {name: option_of("model", name) for name in options("model")}
    bases = {name: next((base for base in node.defaults if base in nodes), name) for name, node in nodes.items()}
    return {name: str(node.get("_target_") or nodes[bases[name]]["_target_"]) for name, node in nodes.items()}


def _name(target: str) -> str:
    """The option of a target; of a class of the user's own its name."""
    return next((name for name, path in _models().items() if path == target), target.rsplit(".", 1)[-1])
