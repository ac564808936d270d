"""What a terminal shows: nothing of a text is obeyed."""

import io
import json
import logging
import re
import shutil
import sys
import textwrap
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TextIO

log = logging.getLogger(__name__)
LONGEST = 120  # characters of a name
MOVE_SECONDS, LOG_SECONDS = 0.2, 30.0  # between two lines on a terminal, and in a pipe
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # the control characters but for line ends and tabs
_SHELL_ESCAPES = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\t": r"\t"})


def harmless(text: str) -> str:
    r"""The text with a visible \x1b or \u009b for each control character; line ends and tabs stay."""
    return _CONTROL.sub(_visible, text)


def label(name: str, longest: int = LONGEST) -> str:
    """A name of somebody else's as one harmless line; of a longer one its beginning and its length."""
    cut = f"{name[:longest]}... ({len(name)} characters)" if len(name) > longest else name
    return harmless(cut).replace("\n", r"\n").replace("\t", r"\t")


def listed(names: Iterable[str]) -> str:
    """Names with commas between, each as `label` shows it."""
    return ", ".join(map(label, names))


def say(*values: object, file: TextIO | None = None) -> None:
    """Python's print, harmless and at once; without a file to stdout, and to the log file where there is one."""
    text = " ".join(harmless(str(value)) for value in values)
    if file is not None or all(handler.level <= logging.INFO for handler in _handlers(logging.StreamHandler)):
        print(text, file=file, flush=True)  # the log on stderr does not wait either
    for handler in _handlers(logging.FileHandler) if file is None else ():
        handler.handle(logging.makeLogRecord({"name": "stdout", "levelname": "INFO", "msg": text}))


def mute_console() -> None:
    """What is logged, and said without a file, goes to the log file alone, until logging is set up again."""
    for handler in _handlers(logging.StreamHandler) if _handlers(logging.FileHandler) else ():
        handler.setLevel(logging.CRITICAL)


def _handlers(kind: type[logging.Handler]) -> list[logging.Handler]:
    return [handler for handler in logging.getLogger().handlers if type(handler) is kind]


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def paragraph(text: str) -> str:
    """Text for stdout: broken between words where a terminal is narrower, else as it is."""
    width = terminal_width()
    lines = text.split("\n")
    return "\n".join(lines if width is None else (textwrap.fill(line, width, break_on_hyphens=False) for line in lines))


def redraw_line(text: str) -> None:
    """The line of a terminal on which the cursor stands, drawn anew, on stderr."""
    columns = shutil.get_terminal_size().columns - 1
    print(f"\r{harmless(text)[:columns]:{columns}}\r", end="", file=sys.stderr, flush=True)


def is_watched() -> bool:
    """Whether somebody looks on at a terminal."""
    return sys.stderr.isatty() and not is_quiet()


class Meter:
    """How far a pass has come: on a terminal a line that moves, elsewhere one of the log every LOG_SECONDS."""

    def __init__(self, count: int, noun: str) -> None:
        self.count, self.noun = count, noun
        self.begun = self.shown = time.monotonic()

    def show(self, done: int) -> None:
        """Says it, where it is time."""
        now, is_moving = time.monotonic(), is_watched()
        if done and now - self.shown >= (MOVE_SECONDS if is_moving else LOG_SECONDS):
            self.shown, passed = now, now - self.begun
            left = duration(passed / done * (self.count - done))
            text = f"{done}/{self.count} {self.noun}  {duration(passed)}, {left} left"
            redraw_line(text) if is_moving else log.info(text)

    def end(self) -> None:
        """Leaves the line empty."""
        if self.shown > self.begun and is_watched():
            redraw_line("")


@contextmanager
def quiet_output() -> Iterator[None]:
    """Inside, no line of the log below a warning, no table and no bar."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def duration(seconds: float) -> str:
    """41 s, 2 min 40 s, 1 h 20 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def is_quiet() -> bool:
    """Whether `quiet_output` holds."""
    return logging.root.manager.disable >= logging.INFO


def json_text(document: object) -> str:
    """A JSON document that holds the true text and, to a terminal, is harmless: JSON has escapes of its own."""
    document = json.loads(json.dumps(document), parse_constant=lambda _: None)  # NaN and infinity: a foreign file's
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return harmless(text)  # what JSON itself does not escape becomes \u009b, which it reads


def shell_word(text: str) -> str:
    r"""One word as a shell reads it back; with control characters as $'...\x1b', which bash, zsh and ksh know."""
    import shlex

    if harmless(text) == text and "\n" not in text and "\t" not in text:
        return shlex.quote(text)
    return f"$'{harmless(text.translate(_SHELL_ESCAPES))}'"


class HarmlessRecord(logging.LogRecord):
    """A line of the log."""

    def getMessage(self) -> str:
        """Its text, harmless."""
        return harmless(super().getMessage())


class ConsoleLine(logging.Formatter):
    """A line of the log as a terminal shows it; the log file has its time and module too."""

    def format(self, record: logging.LogRecord) -> str:
        """Its text, and above INFO the level."""
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.capitalize()}: "
        return level + super().format(record)


def guard() -> None:
    """Makes the log lines and the last traceback of this process harmless, whoever writes them; the log is on stderr.

    A terminal or file of another encoding than UTF-8 gets the number of a letter that it lacks, and no error. A line of
    the log whose reader has gone, as with `| head`, is left out: the log file has it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    logging.setLogRecordFactory(HarmlessRecord)
    sys.excepthook = _say_traceback
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:  # Hydra's: lines with their time, on stdout
            handler.setStream(sys.stderr)
            handler.setFormatter(ConsoleLine())
        setattr(handler, "handleError", partial(_complain, handler))  # noqa: B010 - mypy refuses the plain assignment


def _complain(handler: logging.Handler, record: logging.LogRecord) -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        type(handler).handleError(handler, record)


def _say_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    say("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"), file=sys.stderr)


def _visible(match: re.Match[str]) -> str:
    number = ord(match[0])  # to a shell \x80 and more are bytes, no characters
    return f"\\x{number:02x}" if number < 0x7F else f"\\u{number:04x}"
