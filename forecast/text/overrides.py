"""Commands as one types them: overrides in Hydra's grammar, the command that trains on a file or installs an extra."""

import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

from forecast.errors import UserError
from forecast.text.terminal import shell_word

_PLAIN = re.compile(r"[A-Za-z0-9_./\-]+")
_NUMBER = re.compile(r"[+-]?[\d._]+([eE][+-]?[\d_]+)?")
_WORDS = {"null", "true", "false", "nan", "inf"}
# As pip knows it. The name of the package, `forecast`, belongs to a stranger's program on PyPI.
DISTRIBUTION = "informer-forecast"

_BESIDE = Path(__file__).resolve().parents[2]  # the checkout, or what pip installs into


def hydra_value(value: object) -> str:
    """A text, or a list or mapping of texts and numbers, as Hydra's override grammar reads it back."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {hydra_value(inner)}" for key, inner in value.items()) + "}"
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


def setting_words(settings: Mapping[str, object], *, nested: bool = False) -> list[str]:
    """KEY=VALUE for each setting. nested: of one that is a mapping KEY.INNER=VALUE for each of its own."""
    if nested:
        inner = {key: value if isinstance(value, Mapping) else {"": value} for key, value in settings.items()}
        settings = {f"{key}.{name}".rstrip("."): value for key, of in inner.items() for name, value in of.items()}
    return [f"{key}={hydra_value(value)}" for key, value in settings.items()]


def override_words(overrides: Sequence[str] | Mapping[str, object]) -> list[str]:
    """Overrides as a list of words, given so or as a mapping. UserError for one text."""
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r} is one text. Give a list, [{overrides!r}], or a mapping")
    return setting_words(overrides) if isinstance(overrides, Mapping) else list(overrides)


def _key(key: object) -> str:
    """The key of a mapping, where the grammar knows no quotes."""
    return re.sub(r"([\\()\[\]{}:=,])", r"\\\1", key) if isinstance(key, str) else hydra_value(key)


def typed(key: str, value: object) -> str:
    """KEY=VALUE as a shell, and then Hydra, read it back; it shows no character that a terminal would obey."""
    return typed_word(f"{key}={hydra_value(value)}")


def typed_word(word: str) -> str:
    """A word KEY=VALUE as a shell reads it back."""
    key, _, text = word.partition("=")
    # Double quotes are easier to read than shlex's way; a backslash stays one there before these.
    plain = word.isprintable() and not re.search(r"""["$`!]|\\(?!['t])""", text)
    return f'{key}="{text}"' if text and plain and shlex.quote(word) != word else shell_word(word)


def train_words(model: str, path: str, settings: Mapping[str, object]) -> list[str]:
    """The words of `forecast train model=MODEL data=csv data.path=...`, KEY=VALUE for the settings."""
    return ["forecast", "train", *setting_words({"model": model, "data": "csv", "data.path": path, **settings})]


def install(extra: str) -> str:
    """The command that brings the packages of an extra of pyproject.toml, such as `ray`.

    From the checkout; where the program was installed otherwise, they themselves.
    """
    if (_BESIDE / "pyproject.toml").is_file() and (_BESIDE / "conf").is_dir():
        return f'pip install -e "{"." if _BESIDE.samefile(".") else _BESIDE}[{extra}]"'
    of_extra = (line for line in distribution(DISTRIBUTION).requires or [] if re.search(rf"extra == .{extra}\b", line))
    return " ".join(["pip install", *(f'"{line.split(";")[0].strip()}"' for line in of_extra)])
