"""How a command with a config starts: Hydra around a main function, and one plain message when the user errs."""

import argparse
import contextlib
import functools
import logging
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from forecast.config import hydra_errors, resolvers
from forecast.config.allow_list import OPTION, trusted, trusting
from forecast.config.compose import CONF, Begun, choices, groups, in_sweep, natural, register_rows, run_folder
from forecast.errors import UsageError, UserError, closest
from forecast.run_folder import new_folder, rank, read_run, write_run_info
from forecast.run_folder.lock import FolderHeld, hold, release
from forecast.text.terminal import guard, mute_console, say

Main = Callable[[DictConfig], object]
log = logging.getLogger(__name__)

# The commands that leave results in their run folder, and hold its lock until they end.
WRITING = ("train", "evaluate", "backtest", "update")


class _Refused(BaseException):
    """Carries a UserError past Hydra, which would print a line of its own for an Exception."""


class JobFailed(UserError):
    """A job of a sweep has failed; the others have run nevertheless. Its log and run.json say more."""

    def __str__(self) -> str:
        after = "What has finished is kept: the same command runs the rest, and `forecast report FOLDER` compares it."
        return f"{super().__str__()}\n{after}"


def run(main: Main, *, config_name: str, begun: float | None = None) -> None:
    """Runs `main` with the config that the command line, sys.argv, asks for. begun: by time.time; None: now.

    Raises UserError, with one message, for whatever the user can mend; what `main` raises besides passes through.
    """

    @functools.wraps(main)
    def command(cfg: DictConfig) -> None:
        # the processes that Lightning starts run the same command line
        sys.argv[1:1] = [f"{OPTION}={module}" for module in sorted(trusted())]
        main(cfg)

    overrides: list[str] = []
    with _explained(config_name, overrides):
        Begun.at = begun or Begun.at
        arguments = _command_line()
        overrides += arguments.overrides
        register_rows(sys.argv)
        if arguments.help:
            say(help_text(config_name))
            return
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(_task(command, config_name))()


def call(main: Main, *, config_name: str, overrides: Sequence[str]) -> Path:
    """Runs `main` as `run` does, with overrides in place of a command line; returns its folder. Errors as `run`."""
    with _explained(config_name, overrides), logging_restored():
        register_rows(overrides)
        with hydra.initialize_config_dir(str(CONF), version_base="1.3", job_name=config_name):
            hydra_job = GlobalHydra.instance().hydra
            assert hydra_job is not None
            ended = hydra_job.run(
                config_name=config_name, task_function=_task(main, config_name), overrides=list(overrides)
            )
            _ = ended.return_value  # raises what the job has raised
            assert ended.hydra_cfg is not None
            return Path(ended.hydra_cfg.hydra.runtime.output_dir)


@contextlib.contextmanager
def _explained(config_name: str, overrides: Sequence[str]) -> Iterator[None]:
    """Begins a command. Raises a UserError with the text for a mistake of the user, any other error as it is."""
    Begun.at = time.time()
    # Without it Hydra prints its errors itself and exits, before `hydra_errors` could explain them.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault(resolvers.LARGE_PAGES, "1")
    os.environ.setdefault(resolvers.CUBLAS_WORKSPACE, ":4096:8")
    resolvers.register()
    new_folder.cache_clear()  # each command of a process gets one of its own
    try:
        yield
    except (Exception, _Refused) as error:
        cause = error.__cause__ if isinstance(error, _Refused) and error.__cause__ else error
        text = hydra_errors.message(cause, config_name=config_name, overrides=overrides)
        if text is None or isinstance(cause, BrokenPipeError):
            raise cause from cause.__cause__
        kind = UsageError if isinstance(cause, UsageError) else UserError
        raise kind(f"[process {rank()}] {text}" if rank() else text) from cause


@contextlib.contextmanager
def logging_restored() -> Iterator[None]:
    """Undoes `guard`, gives the root logger its handlers back, which Hydra exchanges, and closes Hydra's files."""
    root, factory, hook = logging.getLogger(), logging.getLogRecordFactory(), sys.excepthook
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in set(root.handlers) - set(handlers):
            handler.close()
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.setLogRecordFactory(factory)
        sys.excepthook = hook


def _command_line() -> argparse.Namespace:
    """Hydra's own parse, done beforehand to answer an unknown option. Raises UsageError for one."""
    parser = get_args_parser()
    arguments, others = parser.parse_known_args()
    if others:
        options = [OPTION, *(name for name in parser._option_string_actions if name.startswith("--"))]
        near = closest(others[0].partition("=")[0], options)
        raise UsageError(
            f"unrecognized arguments: {' '.join(others)}.{near} Options such as -m stand before the first key=value, "
            "all overrides together; see --help"
        )
    return arguments


def _task(main: Main, config_name: str) -> Main:
    """`main` as Hydra runs it.

    A command of WRITING holds the lock of its folder until its end. Where another process holds it, a single command
    is refused, and a job of a sweep is left out: two sweeps with the same overrides share the work. A job that has
    finished before is left out too, before torch is imported. Returns why it was left out.
    """
    modules = trusted()  # for the processes of a launcher, which get this function and nothing else

    @functools.wraps(main)
    def task(cfg: DictConfig) -> str | None:
        guard()
        if rank():
            mute_console()
        folder = run_folder()
        try:
            if config_name in WRITING and rank() == 0:
                hold(folder)
            varied = getattr(HydraConfig.get().sweeper, "params", None)
            if varied and not in_sweep():
                names = ", ".join(map(str, varied))
                raise UserError(f"experiment={choices().get('experiment')} is a sweep over {names}: add -m to run it")
            if in_sweep() and not cfg.get("ckpt_path") and read_run(folder).state == "finished":
                return "finished before"
            with trusting(modules):
                main(cfg)
            return None
        except FolderHeld as held:
            if not in_sweep():
                raise _Refused from held
            return f"left out: {held}"
        except Exception as error:
            _end_failed(error, folder)
        finally:
            release(folder)

    return task


def _end_failed(error: Exception, folder: Path) -> NoReturn:
    """Ends a run with its error. In a sweep it is logged at once and run.json keeps it; the other jobs still run."""
    mistake = hydra_errors.message(error, config_name="", overrides=[]) is not None
    if in_sweep():
        log.error("%s", error, exc_info=None if mistake else error)
        if rank() == 0:  # a job that failed before its training began has not written run.json
            write_run_info(folder, {**read_run(folder).run_info, "status": "failed", "error": str(error)})
        raise JobFailed(str(error)) from error
    if mistake or isinstance(error, BrokenPipeError):
        raise _Refused from error
    raise error


def help_text(config_name: str) -> str:
    """The help of an entry point, from the names of files alone: Hydra's own composes the config and takes a second."""
    template = OmegaConf.select(OmegaConf.load(CONF / f"{config_name}.yaml"), "hydra.help.template")
    lines = []
    for group, names in sorted(groups().items()):
        # `model: dlinear, gpt`; of a folder of experiments `experiment=etth1_m/: 24, 48`, as one types them
        shown = group.replace("experiment/", "experiment=") + "/" if group.startswith("experiment/") else group
        options = ", ".join(sorted((name for name in names if name != "inherit"), key=natural))
        lines.append(textwrap.fill(f"{shown}: {options}", 110, subsequent_indent="    ", break_on_hyphens=False))
    return Template(str(template)).safe_substitute(APP_CONFIG_GROUPS="\n".join(lines))
