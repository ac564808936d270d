"""The tables of docs/reference/config.md: conf/ as it is written, with the types of the constructors that it names.

Nothing here is run by the program; docs/hooks.py puts the lines into the page while the site is built.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, getdoc
from pathlib import Path
from typing import Any

import yaml
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from forecast.config.allow_list import resolve_target
from forecast.config.build import adapter, parameters, supported_type
from forecast.config.check import PROVIDED
from forecast.config.compose import CONF
from forecast.config.hydra_errors import ADVICE, KEYS
from forecast.config.settings import (
    BacktestSettings,
    EvaluateSettings,
    PredictSettings,
    TrainSettings,
    TuneSettings,
    UpdateSettings,
)

OVERLAYS = ("experiment", "variant", "debug")  # their options set keys of other groups and name no class
SETTINGS = {
    "train": TrainSettings,
    "evaluate": EvaluateSettings,
    "backtest": BacktestSettings,
    "tune": TuneSettings,
    "predict": PredictSettings,
    "update": UpdateSettings,
}

KINDS = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "null": "null",
    "array": "a list",
    "object": "a mapping",
}


@dataclass(frozen=True)
class Key:
    """A line of a YAML file. name: from the top of the file, `mechanism.factor`; comment: what stands behind it."""

    name: str
    default: str
    comment: str = ""


@dataclass(frozen=True)
class Option:
    """A file of a config group. parents: the options of the same group that it begins with."""

    group: str
    name: str
    comment: str
    keys: Sequence[Key]
    parents: Sequence[str] = ()
    slots: Mapping[str, str] = field(default_factory=dict)
    brings: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def targets(self) -> dict[str, str]:
        """Where a class is built -> the class: {"": ...} or {"projection": ..., "mechanism": ...}."""
        named = {key.name: key.default for key in self.keys if key.name.split(".")[-1] == "_target_"}
        return {name.removesuffix("_target_").removesuffix("."): target for name, target in named.items()}


def read_option(path: Path, group: str) -> Option:
    """An option as its file has it, without what it inherits."""
    text = path.read_text(encoding="utf-8")
    comments = [line.removeprefix("#").strip() for line in text.splitlines()[: _top_comment(text)]]
    parents, slots, brings = [], {}, {}
    for entry in (yaml.safe_load(text) or {}).get("defaults", []):
        if isinstance(entry, str):
            parents += [entry] if entry != "_self_" else []
            continue
        ((place, choice),) = entry.items()
        place = place.removeprefix("override ")
        if place.startswith("/") and ("_global_" in place or group in OVERLAYS):
            brings[place.removeprefix("/").split("@")[0]] = choice
        else:
            slots[place.replace("/attention@", f"attention@{group}.") if "@" in place else f"{group}/{place}"] = choice
    name = path.relative_to(CONF / group).with_suffix("").as_posix()
    comment = " ".join(line for line in comments if not line.startswith("@package"))
    return Option(group, name, comment, list(read_keys(text)), parents, slots, brings)


def _top_comment(text: str) -> int:
    """How many lines at the beginning of a file are comments."""
    lines = text.splitlines()
    return next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))


def read_keys(text: str) -> Iterator[Key]:
    """The keys of a YAML text in its order, values as they are written; without `defaults` and `hydra`."""
    lines = text.splitlines()

    def walk(node: Any, prefix: str) -> Iterator[Key]:
        for name, value in node.value:
            if isinstance(value, yaml.MappingNode) and not value.flow_style:
                yield from walk(value, f"{prefix}{name.value}.")
            else:
                start, end = value.start_mark, value.end_mark
                _, _, comment = lines[start.line][end.column :].partition("#")
                yield Key(f"{prefix}{name.value}", text[start.index : end.index].strip(), comment.strip())

    root = yaml.compose(text)
    if isinstance(root, yaml.MappingNode):
        root.value = [pair for pair in root.value if pair[0].value not in ("defaults", "hydra")]
        yield from walk(root, "")


def config_lines() -> list[str]:
    """All keys of the config files of commands and all options of all groups, as Markdown."""
    lines = []
    for name, settings in SETTINGS.items():
        text = (CONF / f"{name}.yaml").read_text(encoding="utf-8")
        keys = [*read_keys(text), *_placed_keys(text)]
        rows = [_row(key, key.name, _annotation(settings, key.name)) for key in keys]
        lines += ["", f"## forecast {name} {{#{name}}}", "", *_table(rows)]
    groups = sorted({file.parent.relative_to(CONF).as_posix() for file in CONF.glob("*/**/*.yaml")})
    for group in groups:
        if group.split("/")[0] not in OVERLAYS:
            lines += group_lines(group)
    for group in OVERLAYS:
        lines += overlay_lines(group)
    return lines + word_lines()


def config_schema() -> dict[str, Any]:
    """A JSON schema of all keys of `forecast train`, by which an editor completes and checks YAML of one's own."""
    text = (CONF / "train.yaml").read_text(encoding="utf-8")
    keys = [(key.name, key, _annotation(TrainSettings, key.name)) for key in read_keys(text)]
    groups = sorted({file.parent.relative_to(CONF).as_posix() for file in CONF.glob("*/**/*.yaml")})
    for group in groups:
        if group.split("/")[0] in OVERLAYS:
            continue
        options = {file.stem: read_option(file, group) for file in sorted((CONF / group).glob("*.yaml"))}
        for option in options.values():
            named = [(f"{group.replace('/', '.')}.{key.name}", key) for key in option.keys]
            # of classes of torch and lightning the keys alone: their types differ by release
            ours = all(target.startswith("forecast.") for target in option.targets.values())
            keys += [(name, key, _type_of(key.name, option, options) if ours else Any) for name, key in named]
    root: dict[str, Any] = {"title": "forecast train", "type": "object", "properties": {}}
    for name, key, annotation in keys:
        *parents, last = name.split(".")
        node = root
        for parent in parents:
            node = node["properties"].setdefault(parent, {"type": "object"})
            node.setdefault("properties", {})
        choices = node["properties"].setdefault(last, {"anyOf": []})
        kind = {"type": "string"} if last == "_target_" else {} if annotation is Any else json_schema(annotation)
        if "anyOf" in choices and kind not in choices["anyOf"]:  # else another option has keys below it
            choices["anyOf"].append(kind)
        if key.comment:
            choices.setdefault("description", key.comment)
    return root


def word_lines() -> list[str]:
    """A chapter: what users of other programs type, and our key."""
    words: dict[str, list[str]] = {}
    for word, key in KEYS.items():
        words.setdefault(f"`{key}`", []).append(word)
    for word, advice in ADVICE.items():
        words.setdefault(advice, []).append(word)
    rows = [[", ".join(f"`{name}`" for name in names), here] for here, names in words.items()]
    lines = [f"| {' | '.join(row)} |" for row in [["typed elsewhere", "here"], ["---", "---"], *rows]]
    return ["", "## Words of other programs {#words}", "", "They are answered with the key on the right.", "", *lines]


def _placed_keys(text: str) -> Iterator[Key]:
    """The keys of the files that a config file puts somewhere: of reading.yaml for `reading@data`."""
    for entry in yaml.safe_load(text)["defaults"]:
        file, at, place = entry.partition("@") if isinstance(entry, str) else ("", "", "")
        for key in read_keys((CONF / f"{file}.yaml").read_text(encoding="utf-8")) if at else ():
            yield replace(key, name=f"{place}.{key.name}")


def group_lines(group: str) -> list[str]:
    """A chapter: the options of a group that name classes, `model` or `data/split`."""
    options = {file.stem: read_option(file, group) for file in sorted((CONF / group).glob("*.yaml"))}
    choices = ", ".join(f"[`{name}`](#{_anchor(group, name)})" for name in options if not name.startswith("_"))
    lines = ["", f"## {group} {{#{group.replace('/', '-')}}}", "", f"`{group}=` {choices}", ""]
    for option in options.values():
        lines += option_lines(option, options)
    return lines


def overlay_lines(group: str) -> list[str]:
    """The options of `experiment` or `variant`: what each is for and what it sets."""
    lines = ["", f"## {group} {{#{group}}}", "", f"| `{group}=` | what | sets |", "|---|---|---|"]
    for file in sorted((CONF / group).rglob("*.yaml")):
        option = read_option(file, group)
        values = [*option.brings.items(), *((key.name, key.default) for key in option.keys)]
        sets = ", ".join(f"`{_cell(f'{key}={value}')}`" for key, value in values)
        lines += [f"| `{option.name}` | {_cell(option.comment)} | {sets} |"]
    return lines


def option_lines(option: Option, options: Mapping[str, Option]) -> list[str]:
    """A section: what the option is, its keys with types and defaults, and what its classes say of themselves."""
    title = "shared keys" if option.name.startswith("_") else f"{option.group}={option.name}"
    lines = [f"### {title} {{#{_anchor(option.group, option.name)}}}", ""]
    targets = {place: resolve_target(name) for place, name in option.targets.items()}
    lines += [option.comment, ""] if option.comment else []
    for key, choice in option.brings.items():
        lines += [f"Brings `{key}={_plain(choice)}`.", ""]
    for parent in option.parents:
        lines += [f"Has the keys of [{parent}](#{_anchor(option.group, parent)}), but for those below.", ""]
    lines += [*_table(_option_rows(option, options, targets)), ""]
    for name, target in zip(option.targets.values(), targets.values(), strict=True):
        if name.startswith("forecast."):
            text = [f"    {line}".rstrip() for line in (getdoc(target) or "").splitlines()]
            lines += [f'??? note "{name}"', "", "    ```text", *text, "    ```", ""]
    return lines


def _option_rows(option: Option, options: Mapping[str, Option], targets: Mapping[str, Any]) -> list[Sequence[str]]:
    """Slots first, then the keys of the file, then what a class of ours takes beside them."""
    prefix = f"{option.group.replace('/', '.')}."
    rows: list[Sequence[str]] = []
    for slot, choice in option.slots.items():
        rows.append((f"`{slot}`", f"`{_plain(choice)}`", f"an option of {slot.split('@')[0]}", ""))
    for key in option.keys:
        if key.name.split(".")[-1] not in ("_target_", "_partial_"):
            rows.append(_row(key, f"{prefix}{key.name}", _type_of(key.name, option, options)))
    known = {key.name for other in _line(option, options) for key in other.keys}
    for place, target in targets.items():
        for name, parameter in parameters(target).items() if option.targets[place].startswith("forecast.") else ():
            key_name = f"{place}.{name}".removeprefix(".")
            given = key_name in known or name in PROVIDED.get(option.group, ())
            if parameter.default is not Parameter.empty and not given:
                added = Key(key_name, _plain(parameter.default), "in no file: it needs the plus")
                rows.append(_row(added, f"+{prefix}{key_name}", parameter.annotation))
    return rows


def _type_of(key: str, option: Option, options: Mapping[str, Option]) -> Any:
    """The annotation of a key by the option's class, or by that of a parent or an heir; Any where none has it."""
    place, _, name = key.rpartition(".")
    heirs = [other for other in options.values() if option.name in other.parents]
    for other in (*_line(option, options), *heirs):
        if place in other.targets and name in (found := parameters(resolve_target(other.targets[place]))):
            return found[name].annotation
    return Any


def _line(option: Option, options: Mapping[str, Option]) -> Iterator[Option]:
    """An option and those it begins with, parents after children."""
    yield option
    for parent in option.parents:
        yield from _line(options[parent], options)


def _annotation(settings: type, key: str) -> Any:
    """The annotation of `data.path` in a dataclass of dataclasses; Any for what it has not."""
    kind: Any = settings
    for part in key.split("."):
        found = parameters(kind)
        if part not in found:
            return Any
        kind = found[part].annotation
    return kind


class _JsonSchema(GenerateJsonSchema):
    """A JSON schema in which what YAML cannot hold may be anything."""

    def handle_invalid_for_json_schema(self, schema: object, error_info: str) -> JsonSchemaValue:
        return {}


def json_schema(annotation: object) -> JsonSchemaValue:
    """The JSON schema of what a key may hold, as editors read it."""
    return adapter(supported_type(annotation)).json_schema(schema_generator=_JsonSchema)


def _row(key: Key, name: str, annotation: Any) -> Sequence[str]:
    words = dict.fromkeys(_words({} if annotation is Any else json_schema(annotation)))
    return f"`{name}`", f"`{key.default}`", " or ".join(filter(None, words)), key.comment


def _words(schema: Mapping[str, Any]) -> Iterator[str]:
    """What a JSON schema takes, each kind by itself."""
    for part in schema.get("anyOf", ()):
        yield from _words(part)
    kind = str(schema["const"]) if "const" in schema else KINDS.get(schema.get("type", ""), "")
    if "enum" in schema:
        kind = f"one of {', '.join(map(str, schema['enum']))}"
    if kind == "a list" and "maxItems" in schema:
        kind += f" of {schema['maxItems']}"
    limits = schema.get("description") or schema.get("items", {}).get("description")
    yield f"{kind}, {limits}" if limits else kind


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    body = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return ["| key | default | values | meaning |", "|---|---|---|---|", *body]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _plain(value: object) -> str:
    """A value as YAML writes it."""
    text: str = yaml.safe_dump(value, default_flow_style=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _anchor(group: str, option: str) -> str:
    return f"{group.replace('/', '-')}-{option}"


if __name__ == "__main__":
    (CONF / "train.schema.json").write_text(json.dumps(config_schema(), indent=1) + "\n", encoding="utf-8")
