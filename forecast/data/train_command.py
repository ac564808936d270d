"""The command that trains on a file, as one types it."""

import re
import shlex

from forecast.text.terminal import shell_word

_PLAIN = re.compile(r"[A-Za-z0-9_./\-]+")
_NUMBER = re.compile(r"[+-]?[\d._]+([eE][+-]?[\d_]+)?")
_WORDS = {"null", "true", "false", "nan", "inf"}


def hydra_value(value: str) -> str:
    """A text as Hydra's override grammar reads it back: quoted unless it is plain."""
    if _PLAIN.fullmatch(value) and not _NUMBER.fullmatch(value) and value.lower().lstrip("+-") not in _WORDS:
        return value
    # Backslashes count only before a quote, and before ${, which would be looked up.
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    escaped = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), escaped)
    return f"'{escaped}'"


def typed(key: str, value: str | int) -> str:
    """KEY=VALUE as a shell, and then Hydra, read it back; it shows no character that a terminal would obey."""
    text = str(value) if isinstance(value, int) else hydra_value(value)
    word = f"{key}={text}"
    # double quotes are easier to read than shlex's way
    plain = word.isprintable() and (not re.search(r'["$`!\\]', text) or text == r"'\t'")
    return f'{key}="{text}"' if plain and shlex.quote(word) != word else shell_word(word)


def train_command(path: str, settings: dict[str, str | int]) -> str:
    """`forecast train data=csv data.path=...`, and KEY=VALUE for the settings, as a shell reads them back."""
    return " ".join(["forecast train data=csv", *(typed(*item) for item in {"data.path": path, **settings}.items())])
