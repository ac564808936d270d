"""Which folder a sweep has: the same words find it again."""

import datetime
import re
from pathlib import Path
from unittest import mock

import pytest
from config.composed import composed
from hydra import initialize_config_dir
from hydra.conf import ConfigSourceInfo
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from forecast.config import resolvers
from forecast.config.compose import CONF, register_rows
from forecast.config.resolvers import words_hash
from forecast.config.run_config import composed as composed_run


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    resolvers.register()


def sweep_dir(command):
    """The folder that `train -m COMMAND` gets, asked as Hydra asks before the jobs."""
    resolvers.register()
    overrides = command.split()
    register_rows(overrides)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        cfg = hydra.compose_config("train", overrides, run_mode=RunMode.MULTIRUN)
        return cfg.hydra.sweep.dir


def test_a_sweep_is_called_as_its_experiment():
    assert sweep_dir("experiment=quickstart seed=1,2") == "multirun/quickstart"
    assert sweep_dir("experiment=ablation/scramble") == "multirun/ablation-scramble"


def test_a_sweep_without_an_experiment_is_called_by_date_and_words():
    folder = sweep_dir("seed=1,2")
    assert re.fullmatch(rf"multirun/{datetime.date.today()}-[0-9a-f]{{8}}", folder)
    assert sweep_dir("experiment=quickstart,etth1_small").startswith(f"multirun/{datetime.date.today()}-")


def test_the_first_answer_holds_for_all_jobs():
    """A job knows its own words alone."""
    first = []
    root = OmegaConf.create({"hydra": {"runtime": {"choices": {"experiment": "a/b"}}}})
    assert resolvers.sweep_dir(first, "multirun", _root_=root) == "multirun/a-b"
    assert resolvers.sweep_dir(first, "multirun", _root_=composed("seed=2", hydra=True)) == "multirun/a-b"


SAME = {
    "order": ("model=informer,nlinear seed=1,2", "seed=1,2 model=informer,nlinear"),
    "what is shown": ("seed=1,2", "seed=1,2 logger.name=mine trainer.enable_progress_bar=false checks.leakage=false"),
    "Hydra's own": ("seed=1,2", "seed=1,2 hydra/launcher=joblib hydra.launcher.n_jobs=4 hydra.verbose=true"),
    "where the data lie": ("seed=1,2", "seed=1,2 data.root=/elsewhere"),
}
OTHER = {
    "a value": ("seed=1,2", "seed=1,3"),
    "fewer": ("seed=1,2", "seed=1"),
    "another key": ("seed=1,2", "eval_seed=1,2"),
    "a word more": ("seed=1,2", "seed=1,2 pred_len=3"),
    "a deletion": ("seed=1,2", "seed=1,2 ~callbacks.figures"),
    "another file": ("seed=1,2 data.path=a.csv", "seed=1,2 data.path=b.csv"),
    "a slot": ("attention=full,prob", "attention@model.cross_attention=full,prob"),
    "a glob": ("model=*", "model=s*"),
}


def hashed(words):
    return words_hash(words.split(" "))


@pytest.mark.parametrize("words", SAME.values(), ids=SAME)
def test_words_that_give_the_same_jobs_have_one_folder(words):
    assert hashed(words[0]) == hashed(words[1])


@pytest.mark.parametrize("words", OTHER.values(), ids=OTHER)
def test_words_that_give_other_jobs_have_another(words):
    assert hashed(words[0]) != hashed(words[1])


def test_what_the_jobs_come_from_besides_makes_another_folder():
    assert len({words_hash(["seed=1"]), words_hash(["seed=1"], ["mine"]), words_hash(["seed=1"], ["theirs"])}) == 3


def test_what_a_users_own_yaml_varies_counts_among_the_words():
    varied = []
    for params in (None, {"seed": "1,2"}, {"seed": "1,3"}):
        root = composed(hydra=True)
        OmegaConf.set_readonly(root, False)
        root.hydra.sweeper.params = params
        varied.append(resolvers.unnamed_folder(Path("multirun"), root))
    assert len({*varied}) == 3 and str(varied[1]) == sweep_dir("seed=1,2")


def test_the_same_words_find_their_folder_on_a_later_day(monkeypatch):
    first = Path(sweep_dir("seed=1,2 model=nlinear"))
    other = Path(sweep_dir("seed=1,3 model=nlinear"))
    assert other != first
    first.mkdir(parents=True)

    days_later = datetime.date.today() + datetime.timedelta(3)
    monkeypatch.setattr(resolvers.datetime, "date", mock.Mock(today=lambda: days_later))
    assert Path(sweep_dir("model=nlinear seed=1,2")) == first
    assert sweep_dir("seed=1,3 model=nlinear").startswith(f"multirun/{days_later}-")  # it never began


def test_an_own_folder_of_yaml_makes_another_folder(tmp_path):
    root = composed("seed=2", hydra=True)
    before = resolvers.unnamed_folder(Path("multirun"), root)
    OmegaConf.set_readonly(root, False)
    OmegaConf.set_struct(root, False)
    mine = ConfigSourceInfo(path="/mine", schema="file", provider="command-line")
    root.hydra.runtime.config_sources.append(mine)
    assert resolvers.unnamed_folder(Path("multirun"), root) != before


def test_a_job_is_called_by_the_words_that_vary_and_keeps_the_folder_that_it_has(tmp_path):
    root = composed("attention=full", "seed=2", "pred_len=7", "hydra.sweep.dir=multirun", hydra=True)
    name = "attention-full+seed-2+1a2b-3c"
    assert resolvers.job_dir({"seed", "attention"}, "1a2b-3c", _root_=root) == name
    assert resolvers.job_dir({"pred_len"}, "1a2b-3c", _root_=root) == "pred_len-7+1a2b-3c"
    Path("multirun/1a2b-3c").mkdir(parents=True)  # of release 1.0
    assert resolvers.job_dir({"seed", "attention"}, "1a2b-3c", _root_=root) == "1a2b-3c"


def test_what_a_job_composes_leaves_the_folder_of_its_sweep_as_it_is(monkeypatch):
    monkeypatch.setattr(resolvers, "register", lambda: pytest.fail("a new answer for sweep_dir"))
    assert composed_run(["seed=3"]).config.seed == 3
