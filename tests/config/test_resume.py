"""A continued run keeps its model and data, and takes what the command may change."""

import pytest
from config.composed import composed
from omegaconf import OmegaConf

from forecast.apps.common.resumed import resumed_config
from forecast.errors import UserError

LAST = "RUN/checkpoints/last.ckpt"
SAVED = (
    *("model=informer", "attention=full", "data=demo", "seq_len=48", "label_len=24"),
    *("optim.lr=0.002", "trainer.max_epochs=3", "model.d_model=64"),
)


def choices_of(cfg):
    return {str(k): v for k, v in OmegaConf.to_container(cfg.hydra.runtime.choices).items()}


def plain(cfg):
    return OmegaConf.to_container(OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"]), resolve=True)


def resumed(*overrides, saved=SAVED):
    """The config of `train.py ckpt_path=... OVERRIDES`."""
    saved = composed(*saved, hydra=True)
    command = composed(f"ckpt_path={LAST}", *overrides, hydra=True)
    overrides = [f"ckpt_path={LAST}", *overrides]
    return resumed_config(plain(saved), choices_of(saved), command, overrides, choices_of(command))


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
        ("~optim.lr", r"^~optim\.lr: the saved run has optim\.lr=0\.002"),
        ("+optim.momentum=1", r"^\+optim\.momentum=1: the saved run has optim\.momentum=null"),
        ("experiment=quickstart", r"^experiment=quickstart: the saved run has experiment=null"),
        ("protocol=informer2021", r"^protocol=informer2021: the saved run has protocol=all_windows"),
        ("data.batch_size=64", r"^data\.batch_size=64: the saved run has data\.batch_size=32"),
        ("data.split.train=0.5", r"^data\.split\.train=0\.5: the saved run has data\.split\.train=0\.7"),
        ("+model.x={a:1}", r"^\+model\.x=\{a:1\}: the saved run"),
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
