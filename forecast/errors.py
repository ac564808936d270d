"""The exceptions for what a user or a scheduler can cause, and the hint for a name that is nearly right."""

import difflib
from collections.abc import Iterable


class Terminated(BaseException):
    """SIGTERM has ended a training; its text says how to go on. No Exception: nobody but the entry point catches it."""


class UserError(ValueError):
    """Something the user can mend. Its message says what is wrong, where, with which value, and the fix.

    The entry points print it alone, without a traceback, and exit with status 1.
    """


def closest(name: str, valid: Iterable[str]) -> str:
    """The hint " Did you mean 'x'?" for the valid name nearest to `name`; empty when none is near."""
    valid = sorted(valid)
    found = difflib.get_close_matches(name, valid, n=1, cutoff=0.6)
    if not found:  # `lr` is near to `optim.lr` only in its last part
        found = [v for v in valid if v.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]][:1]
    return f" Did you mean '{found[0]}'?" if found else ""
