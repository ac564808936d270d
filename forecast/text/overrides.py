"""The command that trains on a file, as one types it."""

import re
import shlex
from collections.abc import Mapping

from forecast.text.terminal import shell_word

_PLAIN = re.compile(r"[A-Za-z0-9_./\-]+")
_NUMBER = re.compile(r"[+-]?[\d._]+([eE][+-]?[\d_]+)?")
_WORDS = {"null", "true", "false", "nan", "inf"}


def hydra_value(value: object) -> str:
    """A text, or a list or mapping of texts and numbers, as Hydra's override grammar reads it back."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{hydra_value(key)}: {hydra_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(hydra_value, value)) + "]"
    if not isinstance(value, str):
        return (
            {None: "null", True: "true", False: "false"}.get(value, str(value))
            if value is None or isinstance(value, bool)
            else str(value)
        )
    if _PLAIN.fullmatch(value) and not _NUMBER.fullmatch(value) and value.lower().lstrip("+-") not in _WORDS:
        return value
    # Backslashes count only before a quote, and before ${, which would be looked up.
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    escaped = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), escaped)
    return f"'{escaped}'"


def typed(key: str, value: object) -> str:
    """KEY=VALUE as a shell, and then Hydra, read it back; it shows no character that a terminal would obey."""
    text = hydra_value(value)
    word = f"{key}={text}"
    # Double quotes are easier to read than shlex's way; a backslash stays one there before these.
    plain = word.isprintable() and not re.search(r"""["$`!]|\\(?!['t])""", text)
    return f'{key}="{text}"' if plain and shlex.quote(word) != word else shell_word(word)


def train_command(model: str, path: str, settings: Mapping[str, object]) -> str:
    """`forecast train model=MODEL data=csv data.path=...`, KEY=VALUE for the settings, as a shell reads them back."""
    settings = {"model": model, "data": "csv", "data.path": path, **settings}
    return " ".join(["forecast train", *(typed(*item) for item in settings.items())])
