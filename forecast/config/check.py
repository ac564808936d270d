"""`check_config`: every mistake in a config that can be seen before any data is read, in one message.

Among them an attention that cannot serve its slot of the model, and columns of a role that the model cannot use.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, cast

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from typing_extensions import NotRequired, Required, TypedDict

from forecast.config import rules
from forecast.config.allow_list import SPECIAL, Target, other_kind, resolve_target, target_nodes
from forecast.config.schema import CONFIG, SETTINGS, Problems, check_value, fields_of, parameters, supported_type
from forecast.config.settings import TrainSettings
from forecast.config.values import CONF, chosen_groups, options, plain_values, section, select, walk
from forecast.errors import UserError, closest_file
from forecast.text.overrides import install

if TYPE_CHECKING:
    from forecast.attention.base import Mechanism
    from forecast.layers.projections import Projection

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
    with suppress(UserError):  # a target's own check has refused it
        check_slots(section(values, "model"), problems)
    with suppress(UserError):
        check_roles(values, problems)
    problems.report()


def read_values(cfg: DictConfig) -> tuple[dict[str, object], Problems]:
    """Plain values, and the problems of what must be given. UserError for what cannot be resolved."""
    try:
        values = plain_values(cfg)
    except OmegaConfBaseException as error:
        raise UserError(
            f"{error.full_key}: {str(error).splitlines()[0]}. Give it a value of its own: {error.full_key}=VALUE"
        ) from error
    parts = [(path, text) for path, text in walk(plain_values(cfg, resolve=False)) if isinstance(text, str)]
    # ${key}; a resolver, ${name:...}, makes a value of its own
    problems = Problems(path for path, text in parts if text.startswith("${") and ":" not in text)
    for path, text in parts:
        if text == "???":
            problems.missing(path)
    return values, problems


def check_keys(values: Mapping[str, object], schema: type, problems: Problems) -> object:
    """The keys that belong to no group as a `schema`, None with the problems; those of each class are checked too."""
    nodes = list(target_nodes(values))
    groups = {path.partition(".")[0] for path, _ in nodes} | {path.name for path in CONF.iterdir() if path.is_dir()}
    own = {key: value for key, value in values.items() if key in fields_of(schema) or key not in groups}
    for path, value in walk(values):
        if (group := _group_of(path)) and not isinstance(value, Mapping):
            option = value if value in options(group.partition("@")[0]) else "NAME"
            problems.add(path, value, f"must be chosen as a group: {group}={option}")
    for path, node in nodes:
        check_target(path, node, problems)
    return check_value(own, schema, "", problems)


def _group_of(path: str) -> str:
    """What chooses the node at a path; empty for a key that is no group."""
    place = path.removesuffix(".mechanism").removesuffix(".projection")
    if place.startswith("model.") and place.endswith(SUFFIX):
        return f"attention@{place}"
    group = place.replace(".", "/")
    return group if group and (CONF / group).is_dir() and (path != place or "/" in group) else ""


def _check_groups(cfg: DictConfig) -> None:
    """Raise UserError for each group that train.yaml chooses and the command line has deleted."""
    lines, model = [], cfg.get("model") or {}
    without_slots = "_target_" in model and not any(str(key).endswith(SUFFIX) for key in model)
    for group, option in chosen_groups("train").items():
        node = cfg.get(group)
        if group == "attention" and without_slots:
            if node is not None:
                lines.append("attention: this model has none; leave attention= and attention.KEY= out")
        # what an experiment says about the group's keys stays when the group is deleted
        elif (
            group != "logger" and option and not (node and ("_target_" in node or group in ("attention", "callbacks")))
        ):
            valid = ", ".join(options(group, but="inherit"))
            lines.append(f"{group} is missing: say {group}=NAME, one of {valid}")
    if lines:
        raise UserError("\n".join(lines))


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
        problems.lines.setdefault(f"{path}._target_", str(error))
        return
    if wrong := other_kind(target, path):
        problems.add(f"{path}._target_", node["_target_"], wrong)
        return
    provided = PROVIDED.get("logger" if path.startswith("logger.") else path, ())
    for key in provided:
        if key in node:
            problems.add(f"{path}.{key}", node[key], "the program sets this itself")
    given = {key: value for key, value in node.items() if key not in (*SPECIAL, *provided)}
    parts = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
    built = frozenset(key for key in given if any(isinstance(p, Mapping) and "_target_" in p for p in parts[key]))
    kinds = _keywords(target, path, provided, built, partial=bool(node.get("_partial_")))
    check_value({key: None if key in built else value for key, value in given.items()}, kinds, path, problems)


@cache
def _keywords(target: Target, path: str, provided: tuple[str, ...], built: frozenset[str], *, partial: bool) -> object:
    """The annotation of what a node may hold; of one that makes a factory nothing is missing."""
    takes = parameters(target).values()
    fields: dict[str, object] = {}
    for parameter in takes:
        name, kind = parameter.name, parameter.annotation
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in provided:
            continue
        place = f"{path}.{name}"
        kind = object if name in built else supported_type(NARROWER.get(place, kind))
        kind = Annotated[kind, rules.BOUNDS[place]] if place in rules.BOUNDS else kind
        fields[name] = Required[kind] if parameter.default is parameter.empty and not partial else NotRequired[kind]
    schema = TypedDict(target.__name__, fields)  # type: ignore[misc]
    extra = "allow" if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes) else "forbid"
    setattr(schema, SETTINGS, {**CONFIG, "extra": extra})
    return schema


def check_slots(model: Mapping[str, object], problems: Problems) -> None:
    """Adds a problem for each slot whose attention cannot serve it, and for heads that cannot share the width."""
    kind: object = resolve_target(model.get("_target_"))
    cached = kind.cached_slots(model) if hasattr(kind, "cached_slots") else ()
    d_model, n_heads = model.get("d_model"), model.get("n_heads")
    for key in model:
        if not key.endswith(SUFFIX):
            continue
        parts = [section(section(model, key), part).get("_target_") for part in ("mechanism", "projection")]
        mechanism, projection = cast("tuple[type[Mechanism], type[Projection]]", tuple(map(resolve_target, parts)))
        causal, cross = key.startswith("decoder"), key.startswith("cross")
        if reason := mechanism.refusal(cross=cross, cached=key in cached, causal=causal):
            text = f"{mechanism.__name__} cannot serve model.{key}: {reason}. Say attention@model.{key}=full"
            problems.lines.setdefault(f"model.{key}", text)
        if not (isinstance(d_model, int) and isinstance(n_heads, int) and min(d_model, n_heads) > 0):
            continue
        if projection.splits() and d_model % n_heads:
            text = f"must be a multiple of model.n_heads ({n_heads}): each head gets an equal part"
            problems.add("model.d_model", d_model, text)


def check_roles(values: Mapping[str, object], problems: Problems) -> None:
    """Adds a problem for each key that gives columns a role which the model cannot use."""
    model: object = resolve_target(section(values, "model").get("_target_"))
    for role, (paths, words) in ROLES.items():
        for path in paths:
            _, value = select(values, path)
            if value and role not in getattr(model, "roles", ROLES):
                name = getattr(model, "__name__", "")
                text = f"{name} cannot use {words}. Leave {path} out, or say model=informer_plus, which can"
                problems.add(path, value, text)
