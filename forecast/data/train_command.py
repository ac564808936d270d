"""The command that trains on a file, as one types it."""

import re
import shlex

_PLAIN = re.compile(r"[A-Za-z0-9_./\-]+")
_NUMBER = re.compile(r"[+-]?[\d._]+([eE][+-]?[\d_]+)?")
_WORDS = {"null", "true", "false", "nan", "inf"}


def hydra_value(value: str) -> str:
    """A text as Hydra's override grammar reads it back: quoted unless it is plain."""
    if _PLAIN.fullmatch(value) and not _NUMBER.fullmatch(value) and value.lower().lstrip("+-") not in _WORDS:
        return value
    # Backslashes count only before a quote; ${ would be looked up.
    escaped = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value).replace("${", "\\${")
    return f"'{escaped}'"


def train_command(path: str, settings: dict[str, str | int]) -> str:
    """`forecast train data=csv data.path=...`, and KEY=VALUE for the settings, as a shell reads them back."""
    words = ["forecast train data=csv"]
    for key, setting in {"data.path": path, **settings}.items():
        value = str(setting) if isinstance(setting, int) else hydra_value(setting)
        word = f"{key}={value}"
        # double quotes are easier to read than shlex's way
        plain = not re.search(r'["$`!\\]', value) or value == r"'\t'"
        words.append(f'{key}="{value}"' if plain and shlex.quote(word) != word else shlex.quote(word))
    return " ".join(words)
