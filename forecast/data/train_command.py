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


def shell_word(word: str) -> str:
    """A word as a shell reads it back; KEY='VALUE' in double quotes, which is easier to read than shlex's way."""
    key, _, value = word.partition("=")
    easy = f'{key}="{value}"'
    if shlex.quote(word) == word:
        return word
    return easy if not re.search(r'["$`!\\]', value) or value == r"'\t'" else shlex.quote(word)


def train_command(path: str, settings: dict[str, str | int]) -> str:
    """`python train.py data=csv data.path=...`, and KEY=VALUE for the settings."""
    words = {"data.path": path, **settings}
    overrides = [f"{key}={value if isinstance(value, int) else hydra_value(value)}" for key, value in words.items()]
    return " ".join(["python train.py data=csv", *(shell_word(word) for word in overrides)])
