"""How an entry point starts: Hydra around a main function, and one plain message when the user errs."""

import argparse
import functools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from forecast.config import launch, refusals, resolvers
from forecast.config.values import CONF
from forecast.errors import Terminated, UserError, closest

Main = Callable[[DictConfig], None]
log = logging.getLogger(__name__)


class _Refused(BaseException):
    """Carries a UserError past Hydra, which would print a line of its own for an Exception."""


def run(main: Main, *, config_name: str) -> None:
    """Run `main` with the config that the command line asks for; never returns after an error.

    A user's mistake: one message on stderr, status 1. Ctrl-C: status 130, SIGTERM: 143. A bug keeps its traceback, and
    FORECAST_TRACEBACK=1 shows that of a mistake as well.
    """
    # Without it Hydra prints its refusals itself and exits, before anyone could say them better.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    resolvers.register()
    arguments = argparse.Namespace(overrides=[], multirun=False, config_name=None)
    try:
        arguments = _command_line()
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(_task(main))()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    except Terminated as stop:
        print(stop, file=sys.stderr)
        sys.exit(143)
    except BrokenPipeError:  # `| head` has read enough; Python would complain once more when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (Exception, _Refused) as error:
        cause = error.__cause__ if isinstance(error, _Refused) and error.__cause__ else error
        text = refusals.message(
            cause,
            config_name=arguments.config_name or config_name,
            overrides=arguments.overrides,
            multirun=arguments.multirun,
        )
        if text is None or os.environ.get("FORECAST_TRACEBACK") == "1":
            raise cause from None
        print(f"[process {launch.rank()}] {text}" if launch.rank() else text, file=sys.stderr)
        sys.exit(1)


def _command_line() -> argparse.Namespace:
    """Hydra's own parse, done beforehand to answer an unknown option. Raises UserError for one."""
    parser = get_args_parser()
    options = [name for name in parser._option_string_actions if name.startswith("--")]

    def refuse(text: str) -> NoReturn:
        unknown = text.removeprefix("unrecognized arguments: ").split()[0]
        if unknown.startswith("-"):
            near = closest(unknown.split("=")[0], options)
            raise UserError(f"{text}.{near} Overrides are written key=value; see --help")
        raise UserError(f"{text}. Options such as -m stand before the first key=value, all overrides together")

    setattr(parser, "error", refuse)  # noqa: B010 - mypy refuses the plain assignment
    return parser.parse_args()


def _task(main: Main) -> Main:
    """`main` as Hydra runs it: in a sweep, a job's mistake is logged at once and the other jobs still run."""

    @functools.wraps(main)
    def task(cfg: DictConfig) -> None:
        launch.leave_console_to_first_process()
        try:
            main(cfg)
        except Exception as error:
            if refusals.message(error, config_name="", overrides=[], multirun=True) is None:
                raise
            if in_sweep():
                log.error("%s", error)
                raise
            raise _Refused from error

    return task


def choices() -> dict[str, str | None]:
    """The chosen option of every group of ours: {"model": "informer", ...}."""
    found = OmegaConf.to_container(HydraConfig.get().runtime.choices)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items() if not str(key).startswith("hydra/")}


def chosen(name: str) -> str | None:
    """The chosen option of one group; None when nothing, or no such group, was chosen."""
    return choices().get(name)


def in_sweep() -> bool:
    """Whether this run is one of a sweep's (-m)."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def run_folder() -> Path:
    """Where this run writes."""
    return Path(HydraConfig.get().runtime.output_dir)


def task_overrides() -> list[str]:
    """The overrides of the command line, those of hydra.* left out."""
    return [str(override) for override in HydraConfig.get().overrides.task]
