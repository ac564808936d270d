"""Where a run writes, and what makes two runs of a sweep the same."""

import hashlib
import re
from functools import partial

import pytest
from config.composed import composed
from omegaconf import OmegaConf

from forecast.config import resolvers
from forecast.errors import UserError


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    resolvers.register()
    resolvers.new_folder.cache_clear()
    yield
    resolvers.new_folder.cache_clear()


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "outputs" / "then"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / ".hydra").mkdir()
    (folder / "checkpoints" / "last.ckpt").touch()
    return folder


def test_a_new_run_gets_a_folder_by_date_and_time_the_same_within_a_process():
    folder = resolvers.run_dir(None)
    assert re.fullmatch(r"outputs/\d{4}-\d\d-\d\d/\d\d-\d\d-\d\d", folder)
    resolvers.register()  # any number of times
    assert resolvers.run_dir(None) == folder


def test_two_runs_of_one_second_get_two_folders(monkeypatch):
    class Clock(resolvers.datetime.datetime):
        @classmethod
        def now(cls):
            return cls(2026, 2, 3, 4, 5, 6)

    monkeypatch.setattr(resolvers.datetime, "datetime", Clock)
    result = []
    for _ in range(3):
        resolvers.new_folder.cache_clear()
        result.append(resolvers.run_dir(None))
    assert result == [f"outputs/2026-02-03/04-05-06{end}" for end in ("", "-2", "-3")]


def test_a_run_goes_on_in_its_own_folder_and_a_new_one_keeps_its_config(run):
    hydra = composed(f"ckpt_path={run}/checkpoints/last.ckpt", hydra=True).hydra
    assert (hydra.run.dir, hydra.output_subdir) == (str(run), None)
    assert resolvers.run_dir("outputs/then/checkpoints/last.ckpt") == str(run)  # meant from the working directory
    assert composed(hydra=True).hydra.output_subdir == ".hydra"


@pytest.mark.parametrize("gone", [".hydra", "checkpoints"])
def test_any_other_checkpoint_gets_a_new_folder(run, gone):
    (run / gone).rename(run / "elsewhere")
    path = run / ("elsewhere" if gone == "checkpoints" else gone.replace(".hydra", "checkpoints")) / "last.ckpt"
    assert resolvers.run_dir(str(path)).startswith("outputs/2")
    assert resolvers.hydra_dir(str(path), _root_=OmegaConf.create()) == ".hydra"


def test_evaluating_never_writes_into_the_run(run):
    cfg = composed(f"ckpt_path={run}/checkpoints/last.ckpt", name="evaluate", hydra=True)
    assert cfg.hydra.run.dir.startswith("outputs/2")


@pytest.mark.parametrize(
    "resolver", [resolvers.run_dir, resolvers.new_run_dir, partial(resolvers.hydra_dir, _root_=OmegaConf.create())]
)
def test_a_checkpoint_that_is_not_there_is_named(resolver):
    with pytest.raises(UserError, match=r"ckpt_path=no/such\.ckpt: there is no such file"):
        resolver("no/such.ckpt")


def test_a_job_is_called_by_its_identity_and_by_what_ran_it():
    assert re.fullmatch("[0-9a-f]{12}-[0-9a-f]{8}", composed("experiment=quickstart", hydra=True).hydra.sweep.subdir)


def identity(*overrides):
    return composed(*overrides, hydra=True).hydra.sweep.subdir.partition("-")[0]


SAME = [
    *("data.root=/elsewhere", "logger.name=other", "+callbacks.progress.leave=true", "trainer.default_root_dir=/x"),
    *("trainer.enable_progress_bar=false", "trainer.log_every_n_steps=3", "hydra.verbose=true", "hydra.sweep.dir=x"),
    *(
        "attention=prob",
        "checks.leakage=false",
        "process_timeout=30",
        "tags=[night,two words]",
        "logger=csv",
        "logger=none",
        "trainer.logger=false",
        "loss=mse",
        "model.mask_padding=false",  # no window has padded rows
    ),
]


@pytest.mark.parametrize("override", SAME)
def test_the_identity_ignores_what_changes_no_number(override):
    assert identity(override) == identity()


DIFFERENT = [
    *(
        "seed=2",
        "eval_seed=null",
        "attention=full",
        "attention.mechanism.factor=4",
        "model.dropout=0.1",
        "optim.lr=1e-3",
    ),
    *("data=ETTh2", "data=demo", "data=demo data.demo_seed=8", "data.split.train=100", "protocol=informer2021"),
    *("trainer.max_epochs=7", "callbacks.early_stopping.patience=4", "compile=default", "refit=true", "refit=val"),
    *("data=csv data.short=pad", "data=csv data.short=pad model.mask_padding=false"),
    *("loss=mae", "loss=huber", "loss=huber loss.delta=2"),
    *("optim=adamw", "optim=sgd", "schedule=cosine", "schedule=warmup_cosine", "schedule=plateau"),
]


def test_the_identity_sees_what_changes_numbers():
    assert len({identity(), *(identity(*overrides.split()) for overrides in DIFFERENT)}) == len(DIFFERENT) + 1


def test_the_identity_holds_the_catalogues_checksum(monkeypatch):
    from forecast.data import sources

    before = identity()
    monkeypatch.setitem(sources.CATALOG, "ETTh1", "0" * 32)
    assert identity() != before


def test_the_identity_follows_the_content_of_a_file_not_its_place(tmp_path):
    for name, text in {"a.csv": "1", "b.csv": "1", "c.csv": "2"}.items():
        (tmp_path / name).write_text(text)
    a, b, c = (identity("data=csv", f"data.path={tmp_path}/{name}.csv") for name in "abc")
    assert a == b
    assert a != c
    assert resolvers.data_checksum({"path": str(tmp_path / "c.csv")}) == hashlib.md5(b"2").hexdigest()


def test_a_config_that_cannot_be_resolved_still_has_an_identity():
    assert re.fullmatch("[0-9a-f]{12}", identity("attention=inherit"))
