"""Which code makes a result: the commit of a checkout, the version and a hash of an installed wheel."""

import functools
import hashlib
import subprocess
from collections.abc import Iterable
from importlib.metadata import distribution, version
from pathlib import Path

import forecast
from forecast.text.overrides import DISTRIBUTION

PACKAGE = Path(__file__).resolve().parents[1]
CODE = ("forecast", "conf")
# Whose versions a sweep's job is told by too, as run.json has them.
LIBRARIES = ("torch", "lightning", "numpy", "pandas")


@functools.cache
def commit(checkout: Path = PACKAGE.parent) -> str:
    """`1a2b3c4`, the last commit that changed CODE, with `-dirty` where a file of CODE differs from it or is new.

    Outside a checkout, as in a package that is installed inside another project, `1.0.0+5f3a9c21`: the version and a
    hash of the installed files.
    """

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(checkout), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", f"{CODE[0]}/__init__.py")
        last, changed = git("log", "-1", "--format=%H", "--", *CODE)[:7], git("status", "--porcelain", "--", *CODE)
    except (OSError, subprocess.SubprocessError):
        return f"{forecast.__version__}+{installed_hash()}"
    return f"{last}-dirty" if changed else last


def installed_hash() -> str:
    """8 hex digits of the files of the installed package, as its wheel lists them."""
    files = distribution(DISTRIBUTION).files or ()
    return short_hash(sorted(f"{file} {file.hash.value}" for file in files if file.hash and file.suffix != ".pyc"))


def program_hash(*others: str) -> str:
    """8 hex digits of what makes numbers beside the config: our code, the versions of LIBRARIES, others' code."""
    return short_hash([commit(), *map(version, LIBRARIES), *others])


def short_hash(texts: Iterable[str]) -> str:
    """8 hex digits of some texts, in their order."""
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()[:8]
