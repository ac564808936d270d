"""forecast import-informer2020: a state dict of the authors' becomes a checkpoint with the authors' forecasts."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from informer2020 import config_of
from program import call
from scripts.imports import (
    SCRIPT,
    authors_forecast,
    batch,
    check_forecast,
    close,
    columns_of,
    command,
    forecast,
    golden_case,
    imported,
    make_parser,
    options,
    refused,
    script,
    weights,
    write_csv,
)

from forecast.apps.import_informer2020.command import copy_in, in_their_names
from forecast.apps.import_informer2020.options import UNUSED, UNUSED_FLAGS
from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.model import build_model
from forecast.errors import UserError
from forecast.layers.distil import Distil
from forecast.layers.embedding import sinusoid_table

INFORMERS = pytest.mark.golden_family("informer_full", "informer_prob", "informer_stack")


@pytest.fixture
def prob(golden):
    return golden_case(golden, "informer_prob")


@INFORMERS
def test_an_imported_reference_file_forecasts_as_the_authors_code_did(case, tmp_path):
    check_forecast(imported(tmp_path, weights(case), *command(tmp_path, case)), case)


def test_evaluate_and_predict_take_it(prob, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = imported(tmp_path, weights(prob), *command(tmp_path, prob))
    printed = capsys.readouterr().out
    call("evaluate", f"ckpt_path={path}", "hydra.run.dir=evaluated", "device=cpu")
    metrics = json.loads((tmp_path / "evaluated" / "metrics.json").read_text())
    c, attention = config_of(prob), "prob_informer2020"
    assert metrics["model"] == "informer2020" and metrics["attention"] == attention
    assert metrics["attention_slots"] == {"encoder": attention, "decoder": attention, "cross": "full"}
    assert metrics["best_epoch"] is None and metrics["test"]["windows"] == 42 - c["out_len"] + 1
    counted = sum(v.numel() for name, v in weights(prob).items() if "running" not in name and "batches" not in name)
    assert metrics["parameters"] == counted
    call("predict", f"ckpt_path={path}", "output=next.csv", "device=cpu")
    table = pd.read_csv(tmp_path / "next.csv")
    assert list(table.columns) == ["date", *columns_of(prob)] and len(table) == c["out_len"]
    assert table["date"][0] == str(pd.Timestamp("2021-03-01") + pd.Timedelta(hours=211))
    assert f"{len(weights(prob))} names of {tmp_path}/checkpoint.pth, {counted:,} parameters" in printed
    for program in ("evaluate", "predict"):
        assert f"forecast {program} ckpt_path={path} " in printed


def test_the_record_is_that_of_a_training_on_these_data_and_names_the_import(prob, tmp_path):
    changed = ["--dropout", "0.25", "--batch_size", "7"]
    checkpoint = load_checkpoint(imported(tmp_path, weights(prob), *command(tmp_path, prob, "dropout"), *changed))
    train = pd.read_csv(tmp_path / "own.csv")[list(columns_of(prob))].to_numpy()[: int(0.7 * 211)]
    np.testing.assert_allclose(checkpoint.scale.mean[0], train.mean(0))
    np.testing.assert_allclose(checkpoint.scale.std[0], train.std(0))
    data, config = checkpoint.data, checkpoint.config
    assert data["path"] == str(tmp_path / "own.csv") and data["columns"] == list(columns_of(prob))
    assert data["checksum"] == hashlib.md5((tmp_path / "own.csv").read_bytes()).hexdigest()
    assert data["splits"] == {"train": [0, 147], "val": [147, 169], "test": [169, 211]}
    assert checkpoint.record.fits["nlinear_weight"].shape == (config_of(prob)["out_len"], config_of(prob)["seq_len"])
    digest = hashlib.sha256((tmp_path / "checkpoint.pth").read_bytes()).hexdigest()
    assert checkpoint.record.imported == {"file": "checkpoint.pth", "sha256": digest}
    assert (config.model.get("dropout"), config.data.batch_size) == (0.25, 7)
    assert "hydra" not in config.plain and not any(g.startswith("hydra") for g in checkpoint.record.choices)


@pytest.mark.parametrize("new", [True, False])
def test_a_state_dict_of_several_gpus_or_of_an_old_torch_is_read(new, prob, tmp_path):
    state = {f"module.{name}": value for name, value in weights(prob).items()}
    torch.save(state, tmp_path / "checkpoint.pth", _use_new_zipfile_serialization=new)
    check_forecast(imported(tmp_path, None, *command(tmp_path, prob)), prob)


def with_positions(case, rows=5000):
    """Their state dict as it is saved: the position tables too, of one more axis."""
    tables = {
        f"{part}_embedding.position_embedding.pe": sinusoid_table(rows, config_of(case)["d_model"])[None]
        for part in ("enc", "dec")
    }
    return {**weights(case), **tables}


def test_position_tables_may_be_there(prob, tmp_path):
    check_forecast(imported(tmp_path, with_positions(prob), *command(tmp_path, prob)), prob)


SIZES = {"month": 13, "day": 32, "weekday": 7, "hour": 24}


def with_calendar_tables(case, sizes=SIZES):
    """The state dict of --embed fixed: frozen tables in place of a linear map."""
    state = {name: value for name, value in weights(case).items() if ".temporal_embedding." not in name}
    for part in ("enc", "dec"):
        for name, size in sizes.items():
            state[f"{part}_embedding.temporal_embedding.{name}_embed.emb.weight"] = sinusoid_table(
                size, config_of(case)["d_model"]
            )
    return state


def test_calendar_tables_may_be_missing_all_together(prob, tmp_path):
    fixed, d_model = [*options(prob, "embed"), "--embed", "fixed"], config_of(prob)["d_model"]
    arguments = [*write_csv(tmp_path / "own.csv", prob), *fixed]
    minutes = refused(tmp_path, with_calendar_tables(prob, {**SIZES, "minute": 4}), *arguments)
    assert f"extra: dec_embedding.temporal_embedding.minute_embed.emb.weight (4, {d_model})" in minutes
    for state in (with_calendar_tables(prob), with_calendar_tables(prob, {})):
        config = load_checkpoint(imported(tmp_path, state, *arguments)).config
        assert config.encoding == "fixed"
    (tmp_path / "out.ckpt").unlink()
    quarter_hours = [*write_csv(tmp_path / "own.csv", prob, freq="15min"), *fixed]
    message = refused(tmp_path, with_calendar_tables(prob), *quarter_hours)
    assert f"missing: enc_embedding.temporal_embedding.minute_embed.emb.weight (4, {d_model})" in message


def test_quarter_hours_trained_with_the_calendar_of_hours_have_the_same_forecasts(prob, tmp_path, capsys):
    path = imported(tmp_path, weights(prob), *command(tmp_path, prob, freq="15min"))
    assert "Trained without minute_of_hour (another --freq than these data have)" in capsys.readouterr().out
    past, *calendar = batch(prob)
    minutes = [torch.cat([torch.rand_like(marks[..., :1]), marks], dim=-1) for marks in calendar]
    check_forecast(path, prob, past, *minutes)


def cut_to(state, *, inputs, outputs):
    """A state dict that reads the columns `inputs` of theirs and forecasts `outputs`."""
    for part in ("enc", "dec"):
        name = f"{part}_embedding.value_embedding.tokenConv.weight"
        state[name] = state[name][:, inputs]
    for name in ("projection.weight", "projection.bias"):
        state[name] = state[name][outputs]
    return state


def test_ms_forecasts_the_target_from_all_columns_and_s_from_itself(prob, tmp_path):
    last = config_of(prob)["c_out"] - 1  # the target, in their order
    arguments = command(tmp_path, prob, "enc_in", "dec_in", "c_out")
    state = cut_to(weights(prob), inputs=list(range(last + 1)), outputs=[last])
    path = imported(tmp_path, state, *arguments, "--features", "MS")
    close(forecast(path, prob), authors_forecast(prob)[..., last:])
    state = cut_to(weights(prob), inputs=[last], outputs=[last])
    data = load_checkpoint(imported(tmp_path, state, *arguments, "--features", "S")).data
    assert data["columns"] == data["targets"] == ["OT"]


def test_nothing_is_copied_unless_everything_fits():
    distil = Distil(3)
    before = distil.conv.bias.clone()
    with pytest.raises(UserError, match=r"^missing: downConv\.weight \(3, 3, 3\)\n(missing: norm\.\w+ .*\n?)+$"):
        copy_in(distil, {"downConv.bias": torch.full((3,), 7.0)})
    assert torch.equal(distil.conv.bias, before)


def test_their_whole_command_can_be_pasted(prob, tmp_path):
    pasted = ["--itr", "5", "--des", "Exp", "--freq", "h", "--learning_rate", "0.0001", "--output_attention"]
    check_forecast(imported(tmp_path, weights(prob), *command(tmp_path, prob, "freq"), *pasted), prob)


def run_script(*arguments, python=()):
    """The script in a process of its own."""
    return subprocess.run([sys.executable, *python, *SCRIPT, *arguments], check=False, capture_output=True, text=True)


def test_each_option_is_explained_and_help_does_not_load_torch():
    done = run_script("--help", python=["-X", "importtime"])
    assert done.returncode == 0 and " torch\n" not in done.stderr and " hydra\n" not in done.stderr
    unused = {*UNUSED, *UNUSED_FLAGS}
    for action in make_parser()._actions:
        assert (action.help or "").strip() and (action.dest in unused) == (action.help == "==SUPPRESS==")
    assert all(f"--{name}" in done.stdout for name in unused)


@pytest.mark.parametrize("word", ["--dist", "--cols"])
def test_what_is_not_wholly_an_option_of_theirs_is_refused(word, capsys):
    with pytest.raises(SystemExit) as stop:
        make_parser().parse_args(["checkpoint.pth", "out.ckpt", "--data", "ETTh1", word])
    assert stop.value.code == 2 and f"unrecognized arguments: {word}" in capsys.readouterr().err


def their_state(path, arguments):
    """Writes a state dict of random weights with the authors' names, as large as the options say; returns its model."""
    parsed = make_parser().parse_args(["a", "b", *map(str, arguments)])
    config, _ = script.make_config(parsed)
    columns = ["OT"] if parsed.features == "S" else ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    known = ["hour_of_day", "day_of_week", "day_of_month", "day_of_year"]
    torch.manual_seed(11)
    model = build_model(config, {"columns": columns, "targets": columns, "known": known})
    torch.save({name: value.clone() for name, value in in_their_names(model, model.state_dict()).items()}, path)
    return model.eval()


PUBLISHED = {
    "7 columns": ([], 11_330_055),
    "the target": (["--features", "S"], 11_308_545),
    "3 and 2 layers": (["--e_layers", "3", "--d_layers", "2"], 19_474_439),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", PUBLISHED)
def test_a_model_of_the_authors_sizes_has_as_many_parameters_as_theirs(which, ett_root, tmp_path):
    more, parameters = PUBLISHED[which]
    arguments = ["--data", "ETTh1", "--root_path", ett_root, *more]
    model = their_state(tmp_path / "checkpoint.pth", arguments)
    checkpoint = load_checkpoint(imported(tmp_path, None, *arguments))
    assert checkpoint.record.parameters == parameters
    state = checkpoint.model().state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert checkpoint.data["name"] == "ETTh1" and checkpoint.config.plain["attention"]["mechanism"]["factor"] == 5
    assert (checkpoint.config.model.get("distil"), checkpoint.config.model.get("mix")) == (True, True)


@pytest.mark.slow
def test_an_import_on_etth1_is_evaluated_on_its_test_windows(ett_root, tmp_path):
    sizes = {"seq_len": 48, "factor": 3, "d_model": 16, "n_heads": 2, "d_ff": 32}
    arguments = ["--data", "ETTh1", f"--root_path={ett_root}", *(f"--{name}={value}" for name, value in sizes.items())]
    their_state(tmp_path / "checkpoint.pth", arguments)
    done = run_script(tmp_path / "checkpoint.pth", tmp_path / "out.ckpt", *arguments)
    assert done.returncode == 0 and done.stderr == ""
    call("evaluate", f"ckpt_path={tmp_path}/out.ckpt", f"hydra.run.dir={tmp_path}/evaluated", "device=cpu")
    metrics = json.loads((tmp_path / "evaluated" / "metrics.json").read_text())
    assert metrics["test"]["windows"] == 2857 and metrics["data"] == "ETTh1"
    assert metrics["baselines"]["closed_form_nlinear"]["scaled"]["mse"] == pytest.approx(0.33, abs=0.05)
