"""How this program was installed: what it advises to type works there."""

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

# As pip knows it. The name of the package, `forecast`, belongs to a stranger's program on PyPI.
DISTRIBUTION = "informer-forecast"

_BESIDE = Path(__file__).resolve().parents[2]  # the checkout, or what pip installs into


def install(extra: str) -> str:
    """The command that brings the packages of an extra of pyproject.toml, such as `ray`.

    From the checkout, else from the wheel or folder that this was installed from; where that is gone, they themselves.
    """
    if (_BESIDE / "pyproject.toml").is_file() and (_BESIDE / "conf").is_dir():
        return f'pip install -e "{"." if _BESIDE.samefile(".") else _BESIDE}[{extra}]"'
    installed = distribution(DISTRIBUTION)
    source = urlsplit(json.loads(installed.read_text("direct_url.json") or "{}").get("url", ""))  # PEP 610
    file = Path(unquote(source.path))
    if source.scheme == "file" and file.exists():
        return f'pip install "{file}[{extra}]"'
    of_extra = (line for line in installed.requires or [] if re.search(rf"extra == .{extra}\b", line))
    return " ".join(["pip install", *(f'"{line.split(";")[0].strip()}"' for line in of_extra)])
