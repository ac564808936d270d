"""Nothing is written outside a folder by way of what came with it: links, pipes, the paths in a checkpoint."""

import os

import pytest
from apps.test_foreign_folders import failures
from omegaconf import OmegaConf

from forecast.apps.auto.budget import check_folder
from forecast.apps.common.inputs import saved_source
from forecast.config import resolvers
from forecast.config.run_config import DataRecipe
from forecast.errors import UserError
from forecast.run_folder import METRICS, RUN_INFO, WINDOW_ERRORS, read_run
from forecast.run_folder.lock import ENTERED, HOLDER, LOCK, hold, holder, keep_inside, release


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("of somebody")
    yield tmp_path / "run"
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]
    assert (tmp_path / "elsewhere" / "file").read_text() == "of somebody"


def locked(run):
    hold(run)
    release(run)


def logged(run):
    resolvers.log_name("train", _root_=OmegaConf.create({"hydra": {"runtime": {"output_dir": str(run)}}}))


BELOW = ("train.log", "members/ridge.log", "tensorboard/hparams.yaml", "folds/fold-0")
DOORS = {"lock": locked, "log": logged, "auto": check_folder}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", [*ENTERED, *BELOW])
def test_a_link_out_of_a_folder_and_a_pipe_are_refused_wherever_one_writes(folder, name, door):
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    for there in ("elsewhere", "elsewhere/file", "elsewhere/new", "pipe"):
        place.unlink(missing_ok=True)
        os.mkfifo(place) if there == "pipe" else place.symlink_to(folder.parent / there)
        with pytest.raises(UserError) as refused:
            DOORS[door](folder)
        what = "a pipe or a device" if there == "pipe" else "a link out of this folder"
        assert str(refused.value).startswith(f"{place} is {what}, and what is written there would not lie in ")


def test_links_within_a_folder_and_files_that_are_replaced_are_a_users_own(folder):
    (folder / "kept").mkdir()
    (folder / "checkpoints").symlink_to("kept")
    (folder / "data").symlink_to(folder.parent / "elsewhere")
    (folder / "metrics.json").symlink_to(folder.parent / "elsewhere" / "file")
    keep_inside(folder)
    keep_inside(folder.parent / "none")
    locked(folder)


def test_a_pipe_is_never_waited_for(folder):
    for name in (WINDOW_ERRORS, RUN_INFO, METRICS, HOLDER, LOCK):
        os.mkfifo(folder / name)
    assert read_run(folder).state == "foreign"
    (folder / RUN_INFO).unlink()
    (folder / RUN_INFO).write_text('{"status": "finished", "overrides": [], "job": 0}')
    (folder / METRICS).unlink()
    (folder / METRICS).write_text('{"model": "m"}')
    assert read_run(folder).reason == f"{WINDOW_ERRORS} is missing or cut off"
    assert holder(folder) == ""


def test_who_holds_a_folder_is_a_short_text(folder):
    cases = [(name, text) for name, text in {"long": b"x" * 900, "large": b"x" * 2000, "bytes": b"\xff\0"}.items()]

    def said(content):
        (folder / HOLDER).write_bytes(content)
        assert len(holder(folder)) <= 200

    assert failures(cases, said) == {}


def test_a_checkpoint_names_no_folder_in_which_panels_are_converted(tmp_path):
    split = {"_target_": "forecast.data.split.ShareSplit", "train": 0.7, "val": 0.1, "test": 0.2}
    keys = {"_target_": "forecast.data.sources.CsvSource", "path": "p.csv", "id_column": "id", "split": split}
    ours, others = tmp_path / "ours", tmp_path / "others"
    (ours / "panel-1").mkdir(parents=True)
    (ours / "panel-1" / "meta.json").touch()
    others.mkdir()
    given = [str(one) for one in (ours, others, others / "\0", "x")]
    caches = [saved_source(DataRecipe({**keys, "cache": one}), root=None).cache for one in given]
    assert caches == [str(ours), None, None, None]
