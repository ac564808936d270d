"""`check_config`: every mistake in a config that can be seen before any data is read, in one message.

Among them an attention that cannot serve its slot of the model, and columns of a role that the model cannot use.
"""

import glob
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, cast

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from forecast.bounds import ASCENDING, are_ascending
from forecast.config.allow_list import SPECIAL, extends, resolve_target, target_nodes
from forecast.config.build import Problems, check_value, fields_of, keywords, parameters
from forecast.config.compose import CONF, chosen_groups, options, plain_values, section, select, walk
from forecast.config.settings import TrainSettings
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

S = TypeVar("S")
SUFFIX = "_attention"
# The roles of `ForecastModel.roles`, by the keys that give columns one, and what a column of the role is.
ROLES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "known": (("data.known", "data.holidays"), "columns that are known in advance"),
    "past": (("data.past",), "columns that are observed beside the targets"),
    "static": (("data.static",), "facts of a series"),
}


SLOTS = ("encoder_attention", "decoder_attention", "cross_attention")


class Rule(NamedTuple):
    """Several values together. `reads` are their paths; without one of them the rule does not apply.

    In `message` {0}, {1} and so on are the values, {install} the command that installs `extra`, and {near} the hint for
    a file that is not there.
    """

    reads: tuple[str, ...]
    holds: Callable[..., bool]
    message: str
    extra: str = ""


def _is(target: object, name: str) -> bool:
    return str(target).rsplit(".", 1)[-1] == name


def are_numbers(*values: object) -> bool:
    """Whether all values are numbers, true and false left out."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _class(target: object) -> object:
    """What a target names; None where `check_target` refuses it."""
    try:
        return resolve_target(target)
    except UserError:
        return None


def has_start_token(target: object) -> bool:
    """Whether the model of this target begins its decoder with the last label_len steps; others ignore label_len."""
    model = _class(target)
    return bool(model.has_start_token()) if hasattr(model, "has_start_token") else False


def _extends(target: object, base: str) -> bool:
    """Whether the class of this target is a `base`, or made from it."""
    return extends(_class(target), base)


def _file(path: object) -> bool:
    return not isinstance(path, str) or glob.has_magic(path) or Path(path).exists()  # of patterns the reader speaks


def _gpu(accelerator: object) -> bool:
    """Whether there is the GPU that lightning's word asks for."""
    if accelerator not in ("gpu", "cuda"):
        return True
    torch = importlib.import_module("torch")  # by name: reading this table imports nothing heavy
    return bool(torch.cuda.is_available() or (accelerator == "gpu" and torch.backends.mps.is_available()))


def _needs_an_end(schedule: object) -> bool:
    """Whether the schedule of this target is laid out over all steps of a training."""
    kind = _class(schedule)
    return callable(kind) and "total_steps" in parameters(kind)


def _installed(target: object, name: str, package: str) -> bool:
    """Whether the package of a class is there, where that is the class. A folder of its name is none."""
    spec = importlib.util.find_spec(package) if _is(target, name) else None
    return not _is(target, name) or (spec is not None and spec.origin is not None)


_SPREAD, _FITTED = "forecast.models.spread.Spread", "forecast.models.base.FittedModel"
_ROLES = ("known", "past", "static", "categorical", "holidays")
_SPLIT = ("data.split._target_", "data.split.train", "data.split.val", "data.split.test")

RULES: tuple[Rule, ...] = (
    Rule(
        ("label_len", "seq_len", "model._target_"),
        lambda label, seq, model: not are_numbers(label, seq) or seq < 1 or label <= seq or not has_start_token(model),
        "the decoder starts with the last label_len ({0}) of the seq_len ({1}) known steps: "
        "label_len must be at most seq_len",
    ),
    Rule(
        ("model.decode", "model.mix"),
        lambda decode, mix: decode != "autoregressive" or mix is not True,
        "mixed heads are not causal, and autoregressive decoding must be: say model.mix=false",
    ),
    Rule(
        ("model.decode", "label_len"),
        lambda decode, label: decode != "autoregressive" or label != 0,
        "the first step is made from the start token: label_len must be at least 1",
    ),
    *(
        Rule(
            (f"{attention}.mechanism.heads", "model.n_heads"),
            lambda heads, n_heads: heads != "per_head" or not are_numbers(n_heads) or n_heads % 2 == 0,
            "half of the heads get each pattern: model.n_heads ({1}) must be even, or say heads=merged",
        )
        for attention in ("attention", *(f"model.{slot}" for slot in SLOTS))
    ),
    Rule(
        ("model._target_", "model.d_ff", "model.d_model"),
        lambda model, d_ff, d: not _is(model, "Sha") or not are_numbers(d_ff, d) or d < 1 or d_ff % d == 0,
        "must be a multiple of model.d_model ({2}): the Boom layer sums runs of that many numbers",
    ),
    Rule(
        ("model.stack_layers", "seq_len"),
        lambda layers, seq: (
            not isinstance(layers, list) or not are_numbers(seq) or seq < 1 or seq >= 2 ** (len(layers) - 1)
        ),
        "each encoder reads half the steps of the one before, and of seq_len ({1}) none is left for the last",
    ),
    Rule(
        ("model.tokens", "model.embedding"),
        lambda tokens, embedding: tokens == "conv" or embedding != "fixed",
        "a {0} has the calendar of several steps, and model.embedding=fixed looks up that of one: set "
        "model.embedding=timeF, or model.tokens=conv",
    ),
    Rule(
        ("data.path", "data._target_"),
        lambda path, target: not (_is(target, "CsvSource") and path is None),
        "which file? Say data.path=FILE.csv",
    ),
    Rule(
        ("data.panel", "data.id_column"),
        lambda panel, ids: ids is None or panel in (None, "long"),
        "data.id_column={1} is of a panel in long format: leave one of them out",
    ),
    Rule(
        ("data.features", "data.target", *(f"data.{role}" for role in _ROLES)),
        lambda features, target, *roles: features == "M" or not (any(roles) or isinstance(target, list)),
        "says what is what where no role is named, and the targets are data.target alone: leave data.features out",
    ),
    Rule(
        ("data.static", "data.panel", "data.id_column"),
        lambda static, panel, ids: not static or panel == "long" or (panel is None and ids is not None),
        "data.static are facts that tell the series of a long panel from each other: leave them out, or name the "
        "panel, data.id_column=NAME",
    ),
    Rule(
        ("data.holidays", "data.freq"),
        lambda country, freq: country is None or freq != "steps",
        "rows that count steps have no holidays: leave one out, or name a column of dates, data.time_column=NAME",
    ),
    Rule(
        ("data.holidays",),
        lambda country: country is None or importlib.util.find_spec("holidays") is not None,
        "the package holidays is not installed. Install it: {install}, or leave data.holidays out",
        extra="holidays",
    ),
    Rule(
        ("loss.levels",),
        lambda levels: not isinstance(levels, list) or not are_numbers(*levels) or are_ascending(levels),
        f"must be {ASCENDING}",
    ),
    Rule(
        ("loss._target_", "model._target_"),
        lambda loss, model: not (_extends(loss, _SPREAD) and _extends(model, _FITTED)),
        "this model is fitted at once and trains on no loss: leave loss= out. Its intervals come from the errors that "
        "it makes on the validation rows, key level",
    ),
    Rule(
        ("networks", "model._target_"),
        lambda networks, model: networks == 1 or not _extends(model, _FITTED),
        "this model is fitted at once and draws nothing: every seed gives the same. Leave networks out",
    ),
    Rule(
        ("data.recent", "pred_len"),
        lambda recent, pred_len: not are_numbers(recent, pred_len) or cast(int, recent) >= cast(int, pred_len),
        "no window of pred_len={1} steps lies in so few rows. Give more, or data.recent=null",
    ),
    Rule(
        ("model.runs",),
        lambda runs: runs != [],
        "name two or more finished trainings, model.runs=[RUN,RUN]: the folders that forecast train wrote",
    ),
    Rule(("data.path",), _file, "there is no such file.{near}"),
    Rule(("trainer.accelerator",), _gpu, "torch sees no GPU here. Use trainer=cpu, or install torch's CUDA build."),
    Rule(
        ("trainer.sync_batchnorm", "trainer.accelerator"),
        lambda sync, accelerator: not sync or (accelerator != "cpu" and _gpu("gpu")),
        "torch averages batch norms over processes on GPUs only: leave it out, or train with model.distil=false",
    ),
    Rule(
        ("trainer.max_epochs", "trainer.max_steps", "schedule._target_"),
        lambda epochs, steps, schedule: epochs != -1 or steps != -1 or not _needs_an_end(schedule),
        "this schedule is laid out over the whole training, whose end must be known: say trainer.max_epochs=N",
    ),
    Rule(
        ("trainer.limit_val_batches", "schedule._target_"),
        lambda limit, schedule: limit != 0 or not _is(schedule, "ReduceLROnPlateau"),
        "schedule=plateau goes by the validation error, and there is no validation: leave it out, or choose another "
        "schedule",
    ),
    Rule(
        ("refit", "trainer.limit_val_batches"),
        lambda refit, limit: refit is False or limit != 0,
        "validation chooses for how many steps, and with trainer.limit_val_batches=0 there is none: leave that out, or "
        "say refit=false",
    ),
    Rule(
        ("refit", "schedule._target_"),
        lambda refit, schedule: refit is False or not _is(schedule, "ReduceLROnPlateau"),
        "schedule=plateau goes by the validation error, and a refit has no validation: choose another schedule, such "
        "as schedule=cosine, or say refit=false",
    ),
    *(
        Rule(
            ("logger._target_",),
            partial(_installed, name=name, package=package),
            f"the package {package} is not installed. Install it: {{install}}, or choose logger=tensorboard or "
            "logger=csv",
            extra=package,
        )
        for name, package in (("WandbLogger", "wandb"), ("MLFlowLogger", "mlflow"), ("MLflow", "mlflow"))
    ),
    *(
        Rule(
            ("model._target_",),
            partial(_installed, name=name, package="statsforecast"),
            "the package statsforecast is not installed. Install it: {install}, or choose model=ridge or "
            "model=seasonal_naive",
            extra="stats",
        )
        for name in ("Theta", "ETS", "ARIMA")
    ),
    Rule(
        ("trainer.use_distributed_sampler",),
        lambda value: value is not True,
        "the program shares the windows among its processes itself, every one once: leave it out",
    ),
    Rule(
        _SPLIT,
        lambda target, *shares: (
            not _is(target, "ShareSplit")
            or not are_numbers(*shares)
            or (min(shares) > 0 and abs(sum(shares) - 1) <= 1e-6)
        ),
        "train ({1}), val ({2}) and test ({3}) are shares: each above 0, together 1",
    ),
    Rule(
        _SPLIT,
        lambda target, *rows: not _is(target, "RowSplit") or not are_numbers(*rows) or min(rows) >= 1,
        "train ({1}), val ({2}) and test ({3}) are numbers of rows: at least 1 each",
    ),
)


def check_config(cfg: DictConfig) -> None:
    """Check a config of train against the constructors that it names and the rules between its values.

    Raises one UserError with all problems: each on a line, with its YAML path, its value and the fix. Missing
    groups are reported alone: without one of them the rest of a config cannot be judged.
    """
    _check_groups(cfg)
    values, problems = read_values(cfg)
    check_keys(values, TrainSettings, problems)
    for rule in RULES:
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
        key = error.full_key
        raise UserError(f"{key}: {str(error).splitlines()[0]}. Give it a value of its own: {key}=VALUE") from error
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
    if without_slots and "attention" in cfg:
        lines.append("attention: this model has none; leave attention= and attention.KEY= out")
    for group, option in chosen_groups("train").items():
        node = cfg.get(group) or {}
        # what an experiment says about the group's keys stays when the group is deleted
        is_there = node and ("_target_" in node or group in ("attention", "callbacks"))
        if option and not is_there and group != "logger" and not (group == "attention" and without_slots):
            lines.append(f"{group} is missing: say {group}=NAME, one of {', '.join(options(group, but='inherit'))}")
    if lines:
        raise UserError("\n".join(lines))


def read_settings(cfg: DictConfig, schema: type[S]) -> S:
    """The plain keys of evaluate.yaml or predict.yaml as `schema`. UserError with all that is wrong in the config."""
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
    provided = PROVIDED.get("logger" if path.startswith("logger.") else path, ())
    for key in provided:
        if key in node:
            problems.add(f"{path}.{key}", node[key], "the program sets this itself")
    given = {key: value for key, value in node.items() if key not in (*SPECIAL, *provided)}
    parts = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
    built = frozenset(key for key in given if any(isinstance(p, Mapping) and "_target_" in p for p in parts[key]))
    kinds = keywords(target, path, provided, built, partial=bool(node.get("_partial_")))
    check_value({key: None if key in built else value for key, value in given.items()}, kinds, path, problems)


class SlotPart(Protocol):
    """What is asked of the classes in a slot: of a mechanism, and of a projection."""

    def refusal(self, *, cross: bool, cached: bool, causal: bool) -> str:
        """Why a mechanism cannot serve there; empty where it can."""

    def splits(self) -> bool:
        """Whether each head of a projection gets an equal part of the width."""


def check_slots(model: Mapping[str, object], problems: Problems) -> None:
    """Adds a problem for each slot whose attention cannot serve it, and for heads that cannot share the width."""
    kind: object = resolve_target(model.get("_target_"))
    cached = kind.cached_slots(model) if hasattr(kind, "cached_slots") else ()
    d_model, n_heads = model.get("d_model"), model.get("n_heads")
    uneven = isinstance(d_model, int) and isinstance(n_heads, int) and n_heads > 0 and d_model % n_heads
    for key in model:
        if not key.endswith(SUFFIX):
            continue
        parts = [section(section(model, key), part).get("_target_") for part in ("mechanism", "projection")]
        mechanism, projection = cast(list[SlotPart], [resolve_target(part) for part in parts])
        causal, cross = key.startswith("decoder"), key.startswith("cross")
        if reason := mechanism.refusal(cross=cross, cached=key in cached, causal=causal):
            text = f"cannot serve model.{key}: {reason}. Say attention@model.{key}=full"
            problems.lines.setdefault(f"model.{key}", f"{str(parts[0]).rpartition('.')[2]} {text}")
        if uneven and projection.splits():
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
