"""forecast attend: the maps of one window as arrays, with times, and on the page."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from checkpoints import DEMO, LENGTHS, write_untrained
from own_modules import own  # noqa: F401 - a fixture
from script import call_script

from forecast.apps.common.page import remake
from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.record import RECORD
from forecast.run_folder import ATTENTION, sha256

PLACES = ["encoder/0", "encoder/1", "decoder/0", "cross/0"]


@pytest.fixture(scope="module")
def informer(tmp_path_factory):
    return written(tmp_path_factory.mktemp("run"), "model=informer", "model.decoder_layers=1")


def written(run, *overrides):
    (run / "checkpoints").mkdir(exist_ok=True)
    return write_untrained(run / "checkpoints/best.ckpt", *DEMO, *LENGTHS, *overrides)


def attend(capsys, path, *more):
    status, printed, message = call_script(capsys, "attend", f"ckpt_path={path}", *more)
    assert (status, message) == (0, ""), message
    return printed


def refused(capsys, path, *more):
    status, printed, message = call_script(capsys, "attend", path, *more)
    assert (status, printed) == (1, "") and message.count("\n") == 1
    return message


def arrays_of(folder):
    with np.load(folder / ATTENTION) as arrays:
        return dict(arrays)


def test_it_writes_every_map_with_the_times_of_queries_and_keys(informer, capsys):
    run = informer.parents[1]
    printed = attend(capsys, informer)
    arrays = arrays_of(run)
    assert [name for name in arrays if name.count("/") == 1] == PLACES
    assert f"{run / ATTENTION}: test window " in printed and "; encoder/0, encoder/1, decoder/0, cross/0\n" in printed
    hour = np.timedelta64(1, "h")
    for name in PLACES:
        weights, queries, keys = (arrays[f"{name}{part}"] for part in ("", "/queries", "/keys"))
        assert weights.shape == (1, 2, len(queries), len(keys))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    origin = arrays["known_until"][0]
    steps = arrays["encoder/0/keys"]
    assert (steps[:, 0] == steps[:, 1]).all() and steps[-1, 1] == origin and len(steps) == 22
    assert steps[0, 0] == origin - 21 * hour
    assert [list((pair - origin) // hour) for pair in arrays["cross/0/keys"][[0, -1]]] == [[-21, -20], [-2, 0]]
    assert list((arrays["cross/0/queries"][:, 0] - origin) // hour) == [1, 2, 3, 4, 5]


def test_the_arrays_are_those_that_a_page_reads_with_the_active_rows_of_probsparse(informer, capsys, tmp_path):
    attend(capsys, informer, "--to", tmp_path, "--window", 2)
    arrays = arrays_of(tmp_path)
    assert arrays["places"].tolist() == PLACES
    assert [arrays[key].tolist() for key in ("split", "window", "checkpoint")] == [["test"], [2], ["best.ckpt"]]
    assert "cross/0/active" not in arrays  # the Informer's cross-attention is full
    for name in PLACES[:3]:
        active, measures = arrays[f"{name}/active"], arrays[f"{name}/measures"]
        assert active.shape == measures.shape == arrays[name].shape[:3]
        seen = arrays[name][~active]
        assert all(np.ptp(row[row > 0]) < 1e-6 for row in seen)
    assert not (tmp_path / "report.html").exists()  # this is no run


def test_a_run_has_its_page_remade_with_its_attention(csv_run, capsys, tmp_path):
    run = shutil.copytree(csv_run, tmp_path / "run")
    before = (run / "report.html").read_text()
    printed = attend(capsys, run / "checkpoints/best.ckpt", "--window", 1)
    page = (run / "report.html").read_text()
    assert f"{run / 'report.html'}: 0." in printed and 'id="attention"' not in before
    assert "Window 1 of test, known until " in page.split('<section id="attention">')[1].split("</section>")[0]
    assert json.loads((run / "metrics.json").read_text())["files"]["report.html"] == sha256(run / "report.html")
    (run / ATTENTION).unlink()
    remake(run)
    assert (run / "report.html").read_text() == before


def test_a_window_is_named_by_its_number_or_the_last_time_that_it_knows(informer, capsys, tmp_path):
    maps = {}
    attend(capsys, informer, "--window", "3", "--to", tmp_path)
    by_number = arrays_of(tmp_path)
    time = str(pd.Timestamp(by_number["known_until"][0]))
    for name in (time, time.removesuffix(":00")):
        printed = attend(capsys, informer, "--window", name, "--to", tmp_path)
        assert "test window 3, known until" in printed
        maps = arrays_of(tmp_path)
        assert all(np.array_equal(by_number[name], maps[name]) for name in PLACES)
    attend(capsys, informer, "--window", "4", "--to", tmp_path)
    assert not np.array_equal(arrays_of(tmp_path)["cross/0"], maps["cross/0"])


def test_columns_that_are_sequences_of_their_own_have_their_names(capsys, tmp_path):
    path = written(tmp_path, "model=patchtst", "model.patch_len=5", "model.stride=3")
    attend(capsys, path)
    arrays = arrays_of(tmp_path)
    assert list(arrays["encoder/0/columns"]) == load_checkpoint(path).data["columns"]
    assert len(arrays["encoder/0"]) == len(arrays["encoder/0/columns"])
    assert (arrays["encoder/0/keys"][0, 1] - arrays["encoder/0/keys"][0, 0]) == np.timedelta64(4, "h")


@pytest.mark.parametrize("columns", ["joint", "independent"])
def test_the_axes_of_an_attention_over_columns_are_their_names(columns, capsys, tmp_path):
    variate = ["model=informer_plus", "model.skip=none", "model.tokens=variate", f"model.columns={columns}"]
    path = written(tmp_path, *variate)
    assert "encoder/0, encoder/1\n" in attend(capsys, path)
    arrays, data = arrays_of(tmp_path), load_checkpoint(path).data
    names = [*(data["columns"] if columns == "joint" else ["itself"]), *data["known"]]
    for part in ("query_names", "key_names"):
        assert list(arrays[f"encoder/1/{part}"]) == names
    assert "encoder/1/keys" not in arrays
    assert arrays["encoder/1"].shape[2:] == (len(names), len(names))


@pytest.mark.parametrize(
    "choice, text",
    [
        (["--window", "99999"], "--window=99999: demo has 136 test windows. Choose a number from 0 to 135."),
        (["--window", "noon"], "--window=noon: neither a number nor a time; "),
        (["--window", "2031-01-01"], "--window=2031-01-01: the test windows are known until times from 20"),
        (["--split", "tset"], "split=tset: demo has the splits train, val, test, new. Did you mean 'test'?"),
        (["--to", "nowhere"], "--to=nowhere: there is no such folder. Make it, or choose another one: --to DIR"),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused_with_what_is(informer, capsys, choice, text):
    assert text in refused(capsys, informer, *choice)


@pytest.mark.parametrize("model, name", [("nlinear", "NLinear"), ("ridge", "Ridge")])
def test_a_model_without_attention_is_refused(capsys, tmp_path, model, name):
    path = written(tmp_path, f"model={model}")
    text = f"{name} has no attention: none of its parts is a mechanism of forecast.attention. Choose a checkpoint of"
    assert text in refused(capsys, path)
    assert not (tmp_path / ATTENTION).exists()


def test_a_class_of_somebodys_own_without_our_mechanisms_is_refused(own, capsys, tmp_path):  # noqa: F811
    path = written(tmp_path, "model=nlinear")
    content = torch.load(path, weights_only=True)
    content[RECORD]["config"]["model"] = {"_target_": "my_package.models.Drift"}
    content["state_dict"] = {"model.drift": torch.zeros(5)}
    torch.save(content, path)
    assert "Drift has no attention: none of" in refused(capsys, path, "--trust", "my_package.models")


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    """A checkpoint of three series, of 97 days each."""
    folder = tmp_path_factory.mktemp("shops")
    days = pd.date_range("2024-01-01", periods=97)
    tables = [pd.DataFrame({"shop": f"s{i}", "date": days, "sold": np.sin(np.arange(97.0) * i)}) for i in (1, 2, 3)]
    pd.concat(tables).to_csv(folder / "shops.csv", index=False)
    data = ["data=csv", f"data.path={folder}/shops.csv", "data.target=null", "data.id_column=shop"]
    (folder / "checkpoints").mkdir()
    lengths = ["seq_len=11", "label_len=5", "pred_len=3"]
    return write_untrained(folder / "checkpoints/best.ckpt", *data, *lengths, "model=transformer")


def test_a_time_that_several_series_have_names_their_windows(shops, capsys, tmp_path):
    attend(capsys, shops, "--window", "0", "--to", tmp_path)
    first = arrays_of(tmp_path)
    time = str(pd.Timestamp(first["known_until"][0]))
    message = refused(capsys, shops, "--window", time)
    assert "of several series. Choose one by its number, as 0 (series 's1'), " in message
    number = message.split("(series 's1'), ")[1].split(" (series 's2')")[0]
    assert f"test window {number} of series 's2'" in attend(capsys, shops, "--window", number, "--to", tmp_path)
    theirs = arrays_of(tmp_path)
    assert theirs["series"].tolist() == ["s2"] and theirs["known_until"] == first["known_until"]
    assert not np.array_equal(theirs["cross/0"], first["cross/0"])


def test_rows_without_a_calendar_have_the_numbers_of_their_steps(capsys, tmp_path):
    table = pd.DataFrame({"date": 7 + 4 * np.arange(211), "load": np.sin(np.arange(211.0))})
    table.to_csv(tmp_path / "steps.csv", index=False)
    data = ["data=csv", f"data.path={tmp_path}/steps.csv", "data.target=load"]
    (tmp_path / "checkpoints").mkdir()
    path = write_untrained(tmp_path / "checkpoints/best.ckpt", *data, *LENGTHS, "model=transformer")
    assert "known until step 827; " in attend(capsys, path)
    arrays = arrays_of(tmp_path)
    assert arrays["cross/0/queries"].tolist() == [[step, step] for step in range(831, 851, 4)]


def test_nothing_of_somebody_else_is_overwritten(informer, capsys, tmp_path):
    np.savez(tmp_path / ATTENTION, other=np.zeros(3))
    text = f"--to={tmp_path}: {tmp_path / ATTENTION} is there and is not a file of forecast attend. Nothing is overwr"
    assert text in refused(capsys, informer, "--to", tmp_path)
    assert list(arrays_of(tmp_path)) == ["other"]
    attend(capsys, informer, "--to", tmp_path, "--overwrite")
    attend(capsys, informer, "--to", tmp_path)  # it is its own now


def test_a_checkpoint_outside_a_run_needs_a_folder(informer, capsys, tmp_path):
    alone = tmp_path / "alone.ckpt"
    alone.write_bytes(informer.read_bytes())
    assert "lies in no RUN/checkpoints. Say where to write: --to DIR" in refused(capsys, alone)
    attend(capsys, alone, "--to", tmp_path)
