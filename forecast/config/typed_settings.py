"""Settings of one group as they are typed, for a command that is no config."""

from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from forecast.config.annotations import as_annotated, expected, matches
from forecast.config.values import as_typed
from forecast.errors import UserError, closest
from forecast.text.overrides import typed


def typed_settings(words: Sequence[str], group: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """{KEY: VALUE} of words GROUP.KEY=VALUE in Hydra's grammar. UserError for others.

    known: {KEY: annotation of its values}.
    """
    parser, settings = OverridesParser.create(), {}
    for word in words:
        try:
            override = parser.parse_override(word)
        except HydraException as error:
            key, _, value = word.partition("=")
            quotes = f" Put quotes around the value, and around all: \"{key}='{value}'\"." if value else ""
            raise UserError(f"{word!r} cannot be read as {group}.KEY=VALUE.{quotes}") from error
        key = override.key_or_group.removeprefix(f"{group}.")
        if key not in known or key == override.key_or_group or override.is_sweep_override():
            near = closest(override.key_or_group, [f"{group}.{name}" for name in known])
            raise UserError(f"{word}: this command does not take it.{near} Set one of {group}.{{{', '.join(known)}}}.")
        value = _plain(override.value())
        if matches(value, known[key]) is False:
            fix = expected(known[key])
            if matches([value], known[key]):  # one where a list is wanted
                fix = typed(f"{group}.{key}", [value])
            raise UserError(f"{group}.{key} is {as_typed(value)}. Set {fix}.")
        settings[key] = as_annotated(value, known[key])
    return settings


def typed_text(word: str) -> str | None:
    """The VALUE of a word KEY=VALUE in Hydra's grammar, if it is a text that is not empty."""
    try:
        value = _plain(OverridesParser.create().parse_override(word).value())
    except HydraException:
        return None
    return value if isinstance(value, str) and value else None


def _plain(value: Any) -> Any:
    """A value of Hydra's grammar without its quotes."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(inner) for key, inner in value.items()}
    return getattr(value, "text", value)
