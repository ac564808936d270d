"""Former names of keys, values, options and classes keep working, with one line that gives today's."""

import json
import re

import pytest
from composed import composed
from program import TINY, call

from forecast.config import aliases
from forecast.config.aliases import CLASSES, KEYS, OPTIONS, VALUES, current_config, current_override
from forecast.config.allow_list import resolve_target
from forecast.config.check import check_config
from forecast.errors import UserError


@pytest.mark.parametrize(
    "former, today",
    [
        ("protocol.offsets=[3,6]", "protocol.horizon_offsets=[3,6]"),
        ("attention.mechanism.keys=shared", "attention.mechanism.key_sampling=per_head"),
        ("model.x_attention.mechanism.keys=repeated", "model.x_attention.mechanism.key_sampling=with_replacement"),
        ("attention.mechanism.keys=shared,distinct", "attention.mechanism.key_sampling=per_head,per_query"),
        ("+attention.mechanism.bucket=8", "+attention.mechanism.bucket_size=8"),
        ("attention.mechanism.rounds=2", "attention.mechanism.n_hashes=2"),
        ("model.decode=dynamic", "model.decode=autoregressive"),
        ("schedule=type1", "schedule=halve_each_epoch"),
        ("schedule=constant,type3", "schedule=constant,decay_90"),
        ("logger=null", "logger=none"),
        ("variant=informer2020", "model=informer2020"),
        ("variant=scrambled", "attention=prob_scrambled"),
        ("~attention.mechanism.keys", "~attention.mechanism.key_sampling"),
    ],
)
def test_a_former_override_is_todays(former, today):
    assert current_override(former) == today
    assert current_override(today) == today


@pytest.mark.parametrize(
    "override", ["data.path='a=b, c.csv'", "model.d_model=32,64", "hydra.sweep.dir=keys", "seed=1", "-m"]
)
def test_other_overrides_stay_as_they_are(override):
    assert current_override(override) == override


@pytest.mark.parametrize("override", ["variant=mix,informer2020", "variant=informer2020,mix"])
def test_a_sweep_over_options_that_went_to_other_groups_is_refused(override):
    says = f"{override}: variant=informer2020 is now model=informer2020. Sweep over one group at a time."
    with pytest.raises(UserError, match=re.escape(says)):
        current_override(override)


def test_a_config_comes_to_todays_words_and_back():
    former = {
        "protocol": {"_target_": "forecast.evaluation.Protocol", "offsets": [3]},
        "model": {"decode": "dynamic", "encoder_attention": {"mechanism": {"keys": "shared", "factor": 5}}},
        "schedule": {"_target_": "forecast.training.schedule.type1"},
    }
    today = current_config(former)
    assert today["protocol"]["horizon_offsets"] == [3]
    assert today["model"]["decode"] == "autoregressive"
    assert today["model"]["encoder_attention"]["mechanism"] == {"key_sampling": "per_head", "factor": 5}
    built = {**today, "schedule": {"_target_": CLASSES["forecast.training.schedule.type1"]}}
    built["protocol"] = {**today["protocol"], "_target_": CLASSES["forecast.evaluation.Protocol"]}
    assert aliases.former_config(built) == former
    assert current_config(today) == today


def test_choices_stay_in_their_group():
    choices = {"schedule": "type1", "variant": "informer2020", "model": "informer2020", "experiment": None}
    assert aliases.current_choices(choices) == {**choices, "schedule": "halve_each_epoch"}


def test_every_name_of_today_exists():
    for today in CLASSES.values():
        resolve_target(today)
    for option in OPTIONS.values():
        check_config(composed(option))
    of = {"mechanism.bucket_size": "lsh", "mechanism.n_hashes": "lsh"}
    for key in KEYS.values():
        cfg = composed(f"attention={of.get(key, 'prob')}")
        node = cfg.protocol if key.startswith("protocol") else cfg.attention.mechanism
        assert key.rpartition(".")[2] in node
    for value in VALUES["mechanism.key_sampling"].values():
        check_config(composed(f"attention.mechanism.key_sampling={value}", "attention=prob"))
    for value in VALUES["model.decode"].values():
        check_config(composed(f"model.decode={value}", "attention=full"))


def test_the_command_line_answers_with_todays_name_once_and_runs(tmp_path, capsys):
    few = "trainer.limit_train_batches=1"
    call("train", *TINY, few, "schedule=type1", "attention.mechanism.keys=distinct", f"hydra.run.dir={tmp_path}")
    text = capsys.readouterr().err
    assert text.count("schedule=type1 is now written schedule=halve_each_epoch\n") == 1
    assert text.count("attention.mechanism.keys=distinct is now written attention.mechanism.key_sampling=per_q") == 1
    assert "key_sampling: per_query" in (tmp_path / ".hydra" / "config.yaml").read_text()


def test_yaml_of_a_users_own_may_have_former_names(tmp_path, capsys):
    few = "trainer.limit_train_batches=1"
    (tmp_path / "experiment").mkdir()
    keys = ("model: {decode: generative}", "attention: {mechanism: {keys: distinct}}", "protocol: {offsets: [2]}")
    (tmp_path / "experiment/mine.yaml").write_text("\n".join(("# @package _global_", *keys)))
    call("train", f"--config-dir={tmp_path}", "experiment=mine", *TINY, few, f"hydra.run.dir={tmp_path}/run")
    names = ("model.decode=one_shot", "attention.mechanism.key_sampling=per_query", "protocol.horizon_offsets=[2]")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "former names" in line]
    assert all(name in line for name in names)
    assert list(json.loads((tmp_path / "run/metrics.json").read_text())["offsets"]) == ["2"]
