"""A continued run keeps its model and data, and takes what the command may change."""

import inspect
import itertools
import re
import shlex

import lightning.pytorch as pl
import pytest
from config.composed import composed
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import Strategy
from omegaconf import OmegaConf
from own_modules import own  # noqa: F401 - a fixture

from forecast.config.allow_list import trusting
from forecast.config.resume import FREE_GROUPS, check_places, resumed_config
from forecast.config.values import CONF
from forecast.errors import UserError

LAST = "RUN/checkpoints/last.ckpt"
SAVED = (
    *("model=informer", "attention=full", "data=demo", "seq_len=48", "label_len=24"),
    *("optim.lr=0.002", "trainer.max_epochs=3", "model.d_model=64"),
)


def choices_of(cfg):
    return {str(k): v for k, v in OmegaConf.to_container(cfg.hydra.runtime.choices).items()}


def plain(cfg, lacks=()):
    cfg = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
    OmegaConf.set_struct(cfg, False)
    for key in lacks:
        parent, _, last = key.rpartition(".")
        del (OmegaConf.select(cfg, parent) if parent else cfg)[last]
    return OmegaConf.to_container(cfg, resolve=True)


def resumed(*overrides, saved=SAVED, lacks=()):
    """The config of `train.py ckpt_path=... OVERRIDES`; lacks: keys that the saved one does not have."""
    saved = composed(*saved, hydra=True)
    command = composed(f"ckpt_path={LAST}", *overrides, hydra=True)
    overrides = [f"ckpt_path={LAST}", *overrides]
    choices = {group: option for group, option in choices_of(saved).items() if group not in lacks}
    return resumed_config(plain(saved, lacks), choices, command, overrides, choices_of(command))


def test_without_overrides_it_is_the_saved_config_with_the_new_path():
    assert OmegaConf.to_container(resumed()) == plain(composed(*SAVED)) | {"ckpt_path": LAST}


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("trainer.max_epochs=9", "trainer.max_epochs", 9),
        ("callbacks.early_stopping.patience=7", "callbacks.early_stopping.patience", 7),
        ("logger.name=other", "logger.name", "other"),
        ("checks.leakage=false", "checks.leakage", False),
        ("process_timeout=30", "process_timeout", 30),
        ("++trainer.max_time={hours:1}", "trainer.max_time", {"hours": 1}),
        ("+callbacks.early_stopping.min_delta=0.5", "callbacks.early_stopping.min_delta", 0.5),
        ("trainer.max_epochs=${seed}", "trainer.max_epochs", 1),
    ],
)
def test_what_may_change_changes(override, key, value):
    assert OmegaConf.select(resumed(override), key) == value


def test_a_key_that_an_older_run_lacks_has_the_default_of_its_class():
    older = {"saved": ("data=ETTh1",), "lacks": ["data.gaps", "protocol.horizon_offsets"]}
    assert resumed("data.gaps=refuse", "protocol.horizon_offsets=[]", **older) == resumed(**older)
    assert "gaps" not in resumed(**older).data
    with pytest.raises(UserError, match=r"^data\.gaps=mask: the saved run has data\.gaps=refuse"):
        resumed("data.gaps=mask", **older)


def test_what_may_be_deleted_is():
    cfg = resumed("~callbacks.early_stopping", "~logger.version")
    assert "early_stopping" not in cfg.callbacks
    assert "checkpoint" in cfg.callbacks
    assert "version" not in cfg.logger
    assert "logger" not in resumed("~logger")
    assert resumed("logger=none").logger == {}


def test_a_group_replaces_its_whole_section_and_keys_lie_over_it():
    cfg = resumed("trainer=gpu", "trainer.max_epochs=9")
    assert (cfg.trainer.accelerator, cfg.trainer.max_epochs) == ("gpu", 9)
    assert resumed("trainer=gpu").trainer.max_epochs == 6


def test_the_place_of_the_data_may_change():
    data = resumed("data.root=/there", "data.path=/x.csv", saved=("data=ETTh1",)).data
    assert (data.root, data.path) == ("/there", "/x.csv")


SAME = [
    *("seq_len=48", "seq_len=48.0", "model.d_model=64", "optim.lr=2e-3", "seed=1", "model=informer", "data=demo"),
    *("attention=full", "attention@model.cross_attention=full", "data=demo data/split=shares", "protocol=all_windows"),
    *("hydra.verbose=true", "hydra.run.dir=x"),
]


@pytest.mark.parametrize("overrides", SAME)
def test_repeating_what_is_so_changes_nothing(overrides):
    assert resumed(*overrides.split()) == resumed()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("seq_len=96", r"^seq_len=96: the saved run has seq_len=48"),
        ("seed=2", r"^seed=2: the saved run has seed=1"),
        ("model.d_model=32", r"^model\.d_model=32: the saved run has model\.d_model=64"),
        ("model.mix=true", r"^model\.mix=true: the saved run has model\.mix=false"),
        ("model=informer2020", r"^model=informer2020: the saved run has model=informer\n"),
        ("attention=prob", r"^attention=prob: the saved run has attention=full"),
        ("attention@model.cross_attention=prob", r"^attention@model\.cross_attention=prob: the saved"),
        ("data=ETTh1", r"^data=ETTh1: the saved run has data=demo"),
        ("optim.lr=1", r"^optim\.lr=1: the saved run has optim\.lr=0\.002"),
        ("~optim.lr", r"^optim\.lr=\(none\): the saved run has optim\.lr=0\.002"),
        ("+optim.amsgrad=true", r"^optim\.amsgrad=true: the saved run has optim\.amsgrad=false"),
        ("+optim.momentum=1", r"^\+?optim\.momentum=1: the saved run has optim\.momentum=\(none\)"),
        ("experiment=quickstart", r"^experiment=quickstart: the saved run has experiment=null"),
        ("protocol=informer2021", r"^protocol=informer2021: the saved run has protocol=all_windows"),
        ("data.path=x.csv", r"^data\.path=x\.csv: the saved run's data takes no 'path'"),
        ("data.batch_size=64", r"^data\.batch_size=64: the saved run has data\.batch_size=32"),
        ("data.split.train=0.5", r"^data\.split\.train=0\.5: the saved run has data\.split\.train=0\.7"),
        ("+model.x={a:1}", r"^model\.x=\{'a': 1\}: the saved run"),
    ],
)
def test_what_would_change_the_model_or_the_data_is_refused(override, says):
    with pytest.raises(UserError, match=says):
        resumed(override)


def test_all_refusals_come_at_once_with_the_way_out():
    with pytest.raises(UserError) as error:
        resumed("seq_len=96", "seed=2", "trainer.max_epochs=9", "data=ETTh1")
    assert len(str(error.value).splitlines()) == 4
    assert "Start a new run without ckpt_path" in str(error.value)


# Where a run writes, and what it calls, is for the command to say.

HOSTILE = {
    "logger.name": "/home/other",
    "logger.version": "../../../other",
    "logger.root_dir": "other",
    "logger._target_": "lightning.pytorch.loggers.CometLogger",
    "logger.tracking_uri": "databricks",
    "logger.settings": {"base_url": "http://192.0.2.1"},
    "callbacks.spy": {"_target_": "lightning.pytorch.callbacks.ModelCheckpoint", "dirpath": "other"},
    "callbacks.checkpoint.dirpath": "other",
    "trainer.profiler": {"_target_": "lightning.pytorch.profilers.AdvancedProfiler", "dirpath": "other"},
    "trainer.plugins": [{"_target_": "lightning.pytorch.plugins.precision.MixedPrecision", "device": "cpu"}],
    "trainer.model_registry": "other/model",
    "trainer.strategy": {"_target_": "lightning.pytorch.strategies.DeepSpeedStrategy", "nvme_path": "other"},
}


def resumed_from(changes, *overrides, options=()):
    """The config of a run that goes on from a checkpoint in whose config the keys of `changes` were changed."""
    saved, typed = composed(*SAVED, *options, hydra=True), [f"ckpt_path={LAST}", *overrides]
    config = OmegaConf.create(plain(saved))
    for key, value in changes.items():
        OmegaConf.update(config, key, value, force_add=True, merge=False)
    command = composed(*typed, hydra=True)
    return resumed_config(OmegaConf.to_container(config), choices_of(saved), command, typed, choices_of(command))


@pytest.mark.parametrize("key", HOSTILE)
def test_a_path_or_an_address_in_the_checkpoint_is_refused_with_what_to_type_instead(key):
    group = key.partition(".")[0]
    with pytest.raises(UserError, match=rf"^{key}.*: only the checkpoint says so") as error:
        resumed_from({key: HOSTILE[key]})
    without = re.search(r"Say (\S+), or to keep it", str(error.value))[1]
    assert resumed_from({key: HOSTILE[key]}, without)[group] == resumed(without)[group]


def test_what_the_refusal_says_to_type_keeps_the_value():
    changes = {key: HOSTILE[key] for key in ("logger.name", "callbacks.spy", "trainer.profiler")}
    with pytest.raises(UserError) as error:
        resumed_from(changes)
    advice = [shlex.split(line)[-1] for line in str(error.value).splitlines()[:-1]]
    assert len(advice) == 5 and all(override.startswith("++") for override in advice)
    config = resumed_from(changes, *advice)
    assert all(OmegaConf.select(config, key) == value for key, value in changes.items())


SHIPPED = [f"{group}={file.stem}" for group in FREE_GROUPS for file in (CONF / group).glob("*.yaml")]
OWN_WORDS = (
    "callbacks.checkpoint.monitor=mae",
    "logger.name=my run",
    "logger=wandb logger.project=load",
    "trainer.precision=bf16-mixed",
)


@pytest.mark.parametrize("options", [*SHIPPED, *OWN_WORDS, "trainer.max_time='00:12:00:00'", "trainer=ddp"])
def test_a_run_goes_on_with_what_conf_has_and_with_names_of_its_own(options):
    words = re.findall(r"\S+=(?:'[^']*'|[^=]+(?= \S+=|$))", options)
    assert resumed_from({}, options=words) == plain(composed(*SAVED, *words)) | {"ckpt_path": LAST}


def test_a_class_of_ones_own_is_gone_on_with_where_the_command_trusts_it(own):  # noqa: F811
    mine = {"callbacks.mine": {"_target_": "my_package.models.Origin"}}
    with trusting(["my_package.models"]):
        assert resumed_from(mine).callbacks.mine == mine["callbacks.mine"]
    with pytest.raises(UserError, match=r"^callbacks\.mine\._target_=my_package\.models\.Origin: only the checkpoint"):
        resumed_from(mine)


def all_below(kind):
    return [found for sub in kind.__subclasses__() for found in [sub, *all_below(sub)]]


PLACES = {"logger": Logger, "callbacks.x": Callback, "trainer.profiler": Profiler, "trainer.strategy": Strategy}


ELSEWHERE = ("/home/other", "../other", "http://192.0.2.1", "s3://bucket")


@pytest.mark.parametrize("place", PLACES)
def test_no_class_of_lightnings_takes_a_path_or_an_address_from_a_checkpoint(place):
    kinds = [kind for kind in all_below(PLACES[place]) if kind.__module__.startswith("lightning.")]
    assert len(kinds) >= 5
    for kind in kinds:
        values = dict(zip(inspect.signature(kind).parameters, itertools.cycle(ELSEWHERE), strict=False))
        config = OmegaConf.create({})
        OmegaConf.update(config, place, {"_target_": f"{kind.__module__}.{kind.__qualname__}", **values})
        with pytest.raises(UserError) as error:
            check_places(config, ["ckpt_path", "seed"])
        assert all(
            f"{place}.{key}={value}: only the checkpoint says so" in str(error.value) for key, value in values.items()
        )


@pytest.mark.parametrize("value", ELSEWHERE)
def test_no_argument_of_the_trainer_takes_a_path_or_an_address_from_a_checkpoint(value):
    keys = inspect.signature(pl.Trainer).parameters
    with pytest.raises(UserError) as error:
        check_places(OmegaConf.create({"trainer": dict.fromkeys(keys, value)}), ["ckpt_path", "seed"])
    assert all(f"trainer.{key}={value}: only the checkpoint says so" in str(error.value) for key in keys)
