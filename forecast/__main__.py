"""The command `forecast NAME ...`, which is also `python -m forecast NAME ...`.

train.py, evaluate.py and predict.py start the same commands from a checkout.
"""

import argparse
import atexit
import errno
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import NoReturn, TextIO

from forecast.apps.common.command import Answer
from forecast.apps.common.command import command as application
from forecast.errors import Terminated, UsageError, UserError, closest
from forecast.text.overrides import DISTRIBUTION
from forecast.text.terminal import guard, harmless, json_text, quiet_output, say

# The commands whose options are a Hydra config, then those with options of their own.
CONFIGURED = {
    "train": "train a model, then evaluate its best checkpoint on the test rows",
    "evaluate": "a checkpoint on every window of a split, or of another file",
    "backtest": "how a model would have done, from rolling origins, beside the same baselines",
    "tune": "search for the settings of a model that validation likes best, within so many minutes",
    "predict": "forecast what comes after the end of a file",
    "update": "keep a forecast up, and say when the model has grown old; for cron",
}
PLAIN = {
    "attend": "what a checkpoint's attentions look at in one window: arrays and a picture",
    "auto": "from a file to the best forecast that there is time for, with the reasons",
    "check-data": "what is in a CSV file, what is wrong with it, and the command to train on it",
    "export": "a checkpoint as a file that forecasts without this package: torch.export or ONNX",
    "import-informer2020": "read a checkpoint of the Informer's authors",
    "inspect-checkpoint": "what a checkpoint is, as JSON",
    "merge": "join the parts of a forecast of many series",
    "report": "compare the runs of a sweep",
}
# What they run lies beside the package, in a checkout alone.
STUDIES = {"reproduce": "run published tables, and set ours beside theirs (in a checkout)"}
COMMANDS = CONFIGURED | PLAIN | STUDIES
# They build what a config or a checkpoint names.
WITH_TRUST = (*CONFIGURED, "attend", "export", "inspect-checkpoint")
WITH_JSON = (
    *("evaluate", "backtest", "tune", "predict", "update", "auto", "merge"),
    *("check-data", "inspect-checkpoint", "report"),
)
USER_ERROR, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
SIGNALLED = 128  # and the number of the signal, as shells have it


def main() -> None:
    """Runs the command that the first argument names; never returns after an error."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help", "--version"):
        with exit_status():
            say(f"forecast {version(DISTRIBUTION)}" if name == "--version" else overview())
        return
    if name not in COMMANDS:
        with exit_status(as_json="--json" in arguments):
            near = closest(name, COMMANDS)
            raise UsageError(f"forecast {name}: no such command.{near} `forecast --help` lists them all.")
    words, sys.argv = sys.argv, [f"forecast {name}", *arguments]
    start(name, words=words)


def start(name: str, *, words: list[str] | None = None) -> None:
    """Runs one command with the arguments in sys.argv; never returns after an error.

    words: the whole command line, where `forecast NAME` and not a file began it: Lightning repeats what is in sys.argv
    to start the other processes of trainer=ddp.

    With --json stdout gets one JSON document and nothing else; what the command prints besides goes to stderr. With
    --quiet there are errors, warnings and results, and of a training or an evaluation the verdict alone.
    """
    guard()
    atexit.register(gc.freeze)  # else Python looks through all objects of torch and the others as it ends, for seconds
    as_json = name in WITH_JSON and "--json" in sys.argv[1:]
    if as_json:
        sys.argv.remove("--json")
    is_quiet = "--quiet" in sys.argv[1:]
    if is_quiet:
        sys.argv.remove("--quiet")
    with exit_status(as_json), quiet_output() if is_quiet else nullcontext():
        with redirect_stdout(sys.stderr) if as_json else nullcontext(), trust_of(name):
            answer = _run_configured(name, words or sys.argv) if name in CONFIGURED else _run_plain(name)
        if as_json and answer is not None:
            print_json(answer.document)
        if answer is not None and answer.exit_status:
            sys.exit(answer.exit_status)


@contextmanager
def trust_of(name: str) -> Iterator[None]:
    """Trusts what the command's --trust names, which leaves sys.argv. Raises UserError as `trusting` does."""
    from forecast.config.allow_list import take_modules, trusting

    arguments = sys.argv[1:]
    modules = take_modules(arguments) if name in WITH_TRUST else []
    sys.argv[1:] = arguments
    with trusting(modules):
        yield


def print_json(document: object) -> None:
    """Prints one JSON document."""
    say(json_text(document), file=sys.stdout)  # not to the log of the last job


@contextmanager
def exit_status(as_json: bool = False) -> Iterator[None]:
    """Turns what a command raises into a message on stderr and the exit status.

    1 for what the user can mend, with one message; 130 after Ctrl-C, 141 when the reader of a pipe has gone, 129 after
    SIGHUP, 143 after SIGTERM. 2 for a wrong option. A bug keeps its traceback, and
    FORECAST_TRACEBACK=1 shows that of a user's mistake as well. as_json: the message, and its hint, are the JSON
    document too.
    """
    try:
        try:
            with _said(as_json), _sigterm():
                yield
        finally:
            sys.stdout.flush()  # also of what ends by SystemExit, as --help: at exit Python would only complain
    except BrokenPipeError:  # `| head` has read enough; Python would complain once more when it flushes at exit
        _discard(sys.stdout, sys.stderr)  # with `2>&1 |` that of both
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT) or error.filename is not None:
            raise
        _discard(sys.stdout)
        say(f"The output cannot be written: {error.strerror}. Make room where stdout goes to.", file=sys.stderr)
        sys.exit(USER_ERROR)


@contextmanager
def _sigterm() -> Iterator[None]:
    """Raise Terminated at SIGTERM, which takes unfinished files away; a second one ends the process at once."""

    def stop(number: int, _: object) -> None:
        if signal.getsignal(number) is stop:  # else a training has taken the signal over, and calls this one too
            signal.signal(number, signal.SIG_DFL)
            raise Terminated("SIGTERM ended the command. Find out what sent it, and start the command again.")

    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:  # it is ignored, or somebody else's
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except Exception as error:
        if isinstance(error.__context__, Terminated):  # what cleans up, as argparse, can stumble
            raise error.__context__ from None
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _said(as_json: bool) -> Iterator[None]:
    """The part of `exit_status` that says what went wrong, whose words may fail to be written too."""
    try:
        yield
    except Terminated as stop:
        say(stop, file=sys.stderr)
        sys.exit(SIGNALLED + stop.number)
    except UserError as error:
        if os.environ.get("FORECAST_TRACEBACK") == "1":
            raise
        say(error, file=sys.stderr)
        if as_json:
            print_json({"status": "error", "error": str(error), "hint": error.hint})
        sys.exit(USAGE if isinstance(error, UsageError) else USER_ERROR)
    except KeyboardInterrupt as interrupt:
        say(str(interrupt) or "Interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except OSError:
        raise
    except Exception:
        say("This is a bug of forecast and no mistake of yours: please report what follows.", file=sys.stderr)
        raise


def _discard(*streams: TextIO) -> None:
    """What is still to be written there goes nowhere."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def imported(name: str) -> Callable[..., Answer | None]:
    """The function of a command. Nothing looks for garbage in what the imports make: a sixth of their time."""
    gc.disable()
    main = application(name)
    if not gc.get_freeze_count():  # a later job of a sweep would keep the garbage of those before it
        gc.freeze()
    gc.enable()
    return main


def _run_configured(name: str, words: list[str]) -> Answer | None:
    """Composes the config, then imports the command: torch takes seconds that a typing error need not wait."""
    begun = time.time()  # these imports count too
    from omegaconf import DictConfig

    from forecast.config.entry import run

    answers: list[Answer] = []

    def command(cfg: DictConfig) -> None:
        sys.argv = words
        answer = imported(name)(cfg)
        if answer is not None:
            answers.append(answer)

    several = {"-m", "--multirun"} & set(sys.argv[1:])
    run(command, config_name=name, begun=begun)
    if several:
        return Answer([answer.document for answer in answers])
    return answers[0] if answers else None


class _Parser(argparse.ArgumentParser):
    """Its refusals are a UsageError, in harmless words: a shell lists the files of others."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise UsageError(harmless(f"{self.prog}: error: {message}"))


def _run_plain(name: str) -> Answer | None:
    """Parses the command's options, then imports the command; of a study its module has both."""
    from forecast.apps.options import OPTIONS

    study = _study(name) if name in STUDIES else None
    parser = _Parser(description=f"{COMMANDS[name].capitalize()}.")
    (OPTIONS[name] if study is None else study.options)(parser)
    if name in WITH_JSON:
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout, all else on stderr")
    if name in WITH_TRUST:
        trust_help = "a module of yours whose classes the checkpoint names; its code runs with your rights"
        parser.add_argument("--trust", metavar="MODULE", help=trust_help)
    arguments = parser.parse_intermixed_args()
    main = imported(name) if study is None else study.main
    answer: Answer | None = main(arguments)
    return answer


def _study(name: str) -> ModuleType:
    """The module of a command of STUDIES. Raises UserError outside a checkout."""
    try:
        return import_module(f"studies.published.{name}")
    except ModuleNotFoundError as error:
        if error.name not in ("studies", "studies.published"):
            raise
        raise UserError(
            f"forecast {name} needs the published figures, which a checkout has and a wheel has not: in a checkout of "
            f"forecast, pip install -e . && forecast {name} --help"
        ) from error


def overview() -> str:
    """All commands, a line each."""
    lines = ["Long-horizon time-series forecasting. Usage: forecast COMMAND ...", ""]
    lines += [f"  {name:20} {text}" for name, text in COMMANDS.items()]
    lines += [
        "",
        "`forecast COMMAND --help` says more of each; --quiet leaves errors, warnings and results, of a training the",
    ]
    lines += ["verdict alone. To begin with: forecast train experiment=quickstart"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
