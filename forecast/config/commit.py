"""The commit of a checkout, beside `code_hash`: where to find the code that made a result."""

import subprocess
from pathlib import Path

from forecast.config.values import PACKAGE

CODE = ("forecast", "conf")


def commit(checkout: Path = PACKAGE.parent) -> str | None:
    """`1a2b3c4`, with `-dirty` where a file of CODE differs from that commit or is new.

    None where there is no git, and for a package that git does not know, such as one installed inside another project.
    """

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(checkout), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", f"{CODE[0]}/__init__.py")
        head, changed = git("rev-parse", "--short", "HEAD"), git("status", "--porcelain", "--", *CODE)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}-dirty" if changed else head
