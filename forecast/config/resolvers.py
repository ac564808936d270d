"""The resolvers in the `hydra:` blocks of conf: the folder of a run or a sweep, the identity that names a job."""

import datetime
import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config.allow_list import own_code, trusted
from forecast.config.compose import plain_values, select
from forecast.run_folder import NOT_IDENTITY, RUN_INFO, continued_run, new_folder, rank
from forecast.run_folder.commit import program_hash, short_hash
from forecast.run_folder.lock import in_use

# Read by torch when it is imported: "1" puts large tensors on a CPU into large pages, where Linux has them ("madvise",
# "always"). Without, a tenth of a training step goes into asking for memory (docs/experiments.md, "Speed").
LARGE_PAGES = "THP_MEM_ALLOC_ENABLE"
# Read once, before the first product on a GPU: with it, and not without, these give the same bits each time.
CUBLAS_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
# Words that leave the jobs what they are. Another data.path is mostly another file, and then another sweep.
UNNAMED = tuple(path for path in NOT_IDENTITY if path != "data.path")


def register() -> None:
    """Register the resolvers, for one command; any number of times."""
    functions: dict[str, Callable[..., object]] = {
        **{resolver.__name__: resolver for resolver in (run_dir, new_run_dir, backtest_dir, tuning_dir, update_dir)},
        **{resolver.__name__: resolver for resolver in (hydra_dir, evaluation_dir, log_name, identity)},
        # with what holds for this command: jobs in other processes get it too
        "sweep_dir": functools.partial(sweep_dir, []),
        "program": functools.partial(program, trusted()),
        "job_dir": functools.partial(job_dir, ()),  # a sweep, whose keys are known then, puts its own here
    }
    for name, function in functions.items():
        OmegaConf.register_new_resolver(name, function, replace=True)


def run_dir(ckpt_path: str | None) -> str:
    """The folder of the run that `ckpt_path` continues in place, else a new one.

    Raises UserError when there is no such file.
    """
    return str(continued_run(ckpt_path) or new_folder())


def new_run_dir(ckpt_path: str) -> str:
    """A new folder, for a program that only reads the checkpoint. Raises UserError when it is not there."""
    continued_run(ckpt_path)
    return str(new_folder())


def backtest_dir(ckpt_path: str | None, name: str) -> str:
    """backtests/NAME: the same command goes on there; of a checkpoint, which takes seconds, a new folder.

    Raises UserError when the checkpoint is not there.
    """
    return new_run_dir(ckpt_path) if ckpt_path else str(Path("backtests", name))


def tuning_dir(program: str, *, _root_: DictConfig) -> str:
    """tunings/NAME: the same command goes on there, with more minutes or trials too."""
    words = [word for word in _root_.hydra.overrides.task if not word.startswith("tune.")]
    of = json.dumps([identity(_root_=_root_), plain_values(_root_.tune)["space"], sorted(typed_keys(words))])
    return str(Path("tunings", f"{hashlib.sha256(of.encode()).hexdigest()[:12]}-{program}"))


def typed_keys(words: Sequence[str]) -> list[str]:
    """The keys of a command line: what the space of a model leaves out."""
    return [word.lstrip("+~").partition("=")[0] for word in words]


def update_dir(ckpt_path: str) -> str:
    """RUN/updates, where the updates of a run's checkpoint go on; of another one updates in the current folder.

    Raises UserError when the checkpoint is not there.
    """
    return str(Path(continued_run(ckpt_path) or "", "updates"))


def hydra_dir(ckpt_path: str | None, *, _root_: DictConfig) -> str | None:
    """Where Hydra keeps the config: nowhere when a run goes on, so that its first .hydra stays.

    Of several processes the first one writes it. Hydra asks for this right before it writes: where another process
    holds the run folder nothing is written. `forecast.config.entry` refuses the run then.
    """
    if continued_run(ckpt_path) or rank():
        return None
    folder = OmegaConf.select(_root_, "hydra.runtime.output_dir")  # None: the config is only looked at
    return ".hydra" if folder is None or not in_use(Path(folder)) else None


def evaluation_dir(*, _root_: DictConfig) -> str | None:
    """Where Hydra keeps the config of an evaluation: nowhere in the run of a training, which keeps its own.

    `forecast.apps.common.outputs` refuses the evaluation then.
    """
    folder = OmegaConf.select(_root_, "hydra.runtime.output_dir")
    in_a_run = folder is not None and (Path(folder) / RUN_INFO).is_file()
    return None if in_a_run else hydra_dir(None, _root_=_root_)


def log_name(program: str) -> str:
    """The file name of this process's log: train.log, train-process1.log.

    program: Hydra's name of the job, to which Lightning adds in the processes that it starts.
    """
    program = program.split("_ddp_process_", maxsplit=1)[0]
    return f"{program}-process{rank()}.log" if rank() else f"{program}.log"


def identity(*, _root_: DictConfig) -> str:
    """12 hex digits: equal for two runs that must give the same numbers, different otherwise.

    From the resolved config without NOT_IDENTITY and the checksum of the data. What cannot be resolved counts as it is
    written: check_config says so later, and better.
    """
    config = OmegaConf.masked_copy(_root_, [str(key) for key in _root_ if key != "hydra"])
    try:
        plain = plain_values(config)
    except OmegaConfBaseException:
        plain = plain_values(config, resolve=False)
    checksum = data_checksum(plain.get("data"))
    for path in NOT_IDENTITY:
        parent, _, last = path.rpartition(".")
        node = select(plain, parent)[1] if parent else plain
        if isinstance(node, dict):
            node.pop(last, None)
    data, model = plain.get("data"), plain.get("model")
    if isinstance(data, dict) and isinstance(model, dict) and data.get("short") != "pad":
        model.pop("mask_padding", None)  # no window has any
    if "networks" in plain:
        plain["seeds"] = plain.pop("networks")  # as it was called when the identities in results/ were recorded
    text = json.dumps({"config": plain, "data": checksum}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def program(modules: Iterable[str]) -> str:
    """8 hex digits of the code that runs: ours, the libraries', and that of the modules which the command trusts."""
    return program_hash(*own_code(modules).values())


def data_checksum(data: object) -> str | None:
    """md5 of the data's file; a catalogued series' own. None for made-up data and no file."""
    if not isinstance(data, Mapping):
        return None
    from forecast.data.sources import CATALOG, file_md5  # here: it is not needed for --help

    if path := data.get("path"):
        return file_md5(Path(str(path))) if Path(str(path)).is_file() else None
    return CATALOG.get(str(data.get("name")))


def sweep_dir(first: list[str], parent: str, *, _root_: DictConfig) -> str:
    """PARENT/EXPERIMENT; without an experiment, or where the experiment is what varies, PARENT/DATE-HASH.

    first: what was answered first. Hydra asks once before the jobs, then for each of them, which knows its own words
    alone; a job in another process has a copy of the list.
    """
    if not first:
        name = OmegaConf.select(_root_, "hydra.runtime.choices.experiment")
        folder = Path(parent) / str(name).replace("/", "-") if name else unnamed_folder(Path(parent), _root_)
        first.append(str(folder))
    return first[0]


def unnamed_folder(parent: Path, root: DictConfig) -> Path:
    """The folder in which a sweep of the same words began, on whatever day, else that of today."""
    folders = [source.path for source in root.hydra.runtime.config_sources if source.provider == "command-line"]
    name = words_hash(sweep_words(root), [str(root.hydra.job.config_name), *folders])
    earlier = sorted(parent.glob(f"[0-9]*-[0-9]*-[0-9]*-{name}"))
    return earlier[0] if earlier else parent / f"{datetime.date.today():%Y-%m-%d}-{name}"


def job_dir(keys: Collection[str], code: str, *, _root_: DictConfig) -> str:
    """WORDS+CODE, such as `attention-prob+seed-2+0d4441884fc6-19714632`; the folder of that code, where there is one.

    keys: those that vary in the sweep. code: of jobs that give the same figures, in whatever words.
    """
    folders = sorted(Path(str(_root_.hydra.sweep.dir)).glob(f"*{code}"))
    words = sorted(word.lstrip("+") for word in _root_.hydra.overrides.task if word.partition("=")[0] in keys)
    shown = "".join(f"{re.sub(r'[^A-Za-z0-9_.]+', '-', word)}+" for word in words)
    return folders[0].name if folders else shown[-100:] + code  # no file system takes names without end


def words_hash(overrides: Sequence[str], others: Sequence[str] = ()) -> str:
    """8 hex digits of some overrides, in any order. Those that leave the jobs what they are do not count.

    others: what else the jobs come from.
    """
    keys = {word: word.lstrip("+~").partition("=")[0].replace("/", ".") for word in overrides}
    words = [word for word, key in keys.items() if not any(f"{key}.".startswith(f"{path}.") for path in UNNAMED)]
    return short_hash([*sorted(words), *others])


def sweep_words(root: DictConfig) -> list[str]:
    """What varies by the config's own sweeper, then what was typed, which wins."""
    params = OmegaConf.select(root, "hydra.sweeper.params") or {}
    return [*(f"{key}={value}" for key, value in params.items()), *root.hydra.overrides.task]
