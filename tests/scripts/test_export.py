"""forecast export: what it writes forecasts as the checkpoint does, without this package."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from apps.files import LAYOUT, read_forecast, write_csv
from checkpoints import DEMO, LENGTHS, SIZES, write_untrained
from models.test_model_laws import ATTENTIONS, ENCODER_ALONE, MODELS, PAPERS
from program import call, shapes_unchecked
from script import call_script

from forecast.apps.export import as_called, export, largest_difference, noise_windows
from forecast.checkpoint.load import load_checkpoint
from forecast.data.values.calendar import feature_rules, time_features
from forecast.errors import UserError

SNIPPET = Path(__file__).with_name("exported_forecast.py")
WITHOUT_FORECAST = (
    "import runpy, sys; sys.modules['forecast'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])"
)


@pytest.fixture(scope="module")
def informer(tmp_path_factory):
    """A checkpoint of the default model."""
    return write_untrained(tmp_path_factory.mktemp("informer") / "best.ckpt", *DEMO, *LENGTHS)


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """A checkpoint of the model that is exported fastest."""
    return write_untrained(tmp_path_factory.mktemp("linear") / "best.ckpt", *DEMO, *LENGTHS, "model=nlinear")


@pytest.fixture(scope="module")
def exported(informer, tmp_path_factory):
    """It, exported."""
    out = tmp_path_factory.mktemp("exported") / "out"
    export(load_checkpoint(informer), out, batch=None)
    return out


def exports(path, out, *, batch=None, sizes=(1, 4, 11)):
    """The description of an export, whose program is compared with the model on other windows than its own check is."""
    checkpoint = load_checkpoint(path)
    with shapes_unchecked():
        description = export(checkpoint, out, batch=batch)
    past, *known = noise_windows(checkpoint, sum(sizes))
    windows = (past.flip(0) * 1.7 + 0.3, *known)
    assert (
        largest_difference(torch.export.load(out / "model.pt2").module(), as_called(checkpoint.model()), windows, sizes)
        <= 1e-5
    )
    return description


def test_the_folder_holds_the_weights_the_description_and_the_program(informer, exported):
    assert sorted(file.name for file in exported.iterdir()) == ["config.json", "model.pt2", "model.safetensors"]
    checkpoint, about = load_checkpoint(informer), json.loads((exported / "config.json").read_text())
    weights = safetensors.torch.load_file(exported / "model.safetensors")
    assert weights.keys() == checkpoint.weights.keys()
    assert all(torch.equal(value, checkpoint.weights[name]) for name, value in weights.items())
    for entry in (about["weights"], about["program"]):
        content = (exported / entry["file"]).read_bytes()
        assert (entry["sha256"], entry["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    assert about["checkpoint"]["sha256"] == hashlib.sha256(informer.read_bytes()).hexdigest()


def test_the_description_says_all_that_a_caller_needs(informer, exported):
    checkpoint, about = load_checkpoint(informer), json.loads((exported / "config.json").read_text())
    scale = checkpoint.scale
    assert about["scaler"] == {"mean": scale.mean[0].tolist(), "std": scale.std[0].tolist()}  # to the last bit
    assert about["columns"] == about["targets"] == ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    assert [rule["name"] for rule in about["known"]] == checkpoint.data["known"]
    assert (about["freq"], about["seq_len"], about["label_len"], about["pred_len"]) == ("h", 22, 11, 5)
    assert [(part["name"], part["shape"]) for part in about["inputs"]] == [
        ("past", ["B", 22, 7]),
        ("past_known", ["B", 22, 4]),
        ("future_known", ["B", 5, 4]),
    ]
    assert about["output"]["shape"] == ["B", 5, 7]
    assert about["config"] == checkpoint.config.plain and about["chosen"]["attention"] == "prob"
    assert about["parameters"] == checkpoint.record.parameters > 0
    assert about["trained_by"]["torch"] == about["exported_by"]["torch"] == torch.__version__
    assert about["data"]["checksum"] == "demo-seed7-rows700"
    assert about["program"]["windows"] is None and about["program"]["largest_difference_scaled"] <= 1e-5


def test_the_program_draws_no_random_numbers_and_gives_one_answer(exported, informer):
    program = torch.export.load(exported / "model.pt2")
    names = {str(node.target) for node in program.graph.nodes}
    assert not [name for name in names if "rand" in name or "bernoulli" in name]
    windows, run, before = noise_windows(load_checkpoint(informer), 3), program.module(), torch.get_rng_state()
    assert torch.equal(run(*windows), run(*windows))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_draws_of_each_layer_are_its_own(exported):
    draws = {
        name: value for name, value in torch.export.load(exported / "model.pt2").state_dict.items() if "draw_" in name
    }
    # two encoder layers, the second of half the length, and the decoder; each heads, keys, samples
    assert sorted(name.split("draw_")[1] for name in draws) == ["2_11_11", "2_16_15", "2_22_20"]


def test_a_fixed_number_of_windows_can_be_exported(linear, tmp_path):
    about = exports(linear, tmp_path / "out", batch=3, sizes=(3, 3))
    assert about["inputs"][0]["shape"] == [3, 22, 7] and about["program"]["windows"] == 3
    with pytest.raises(Exception, match="3"):
        torch.export.load(tmp_path / "out/model.pt2").module()(*noise_windows(load_checkpoint(linear), 2))


HEADS = {"quantile": ["quantile 0.1", "quantile 0.5", "quantile 0.95"]}
HEADS |= {key: ["location", "scale"] for key in ("normal", "student_t")}


def test_a_program_hides_the_rows_that_fill_a_window_as_the_model_does(tmp_path):
    dates = pd.date_range("2024-01-01", periods=90, freq="D").astype(str)
    table = pd.DataFrame({"date": dates, "load": np.random.default_rng(0).normal(size=90).round(3)})
    table.to_csv(tmp_path / "one.csv", index=False)
    keys = ["data=csv", f"data.path={tmp_path}/one.csv", "data.short=pad", "model.instance_norm=true"]
    path = write_untrained(tmp_path / "a.ckpt", *keys, *LENGTHS)
    checkpoint = load_checkpoint(path)
    (place,) = checkpoint.model().padding
    _, past_known, future_known = noise_windows(checkpoint, 3)
    assert past_known[..., place].sum(1).tolist() == [11, 10, 9] and not future_known[..., place].any()
    exports(path, tmp_path / "out")


@pytest.mark.parametrize("loss", HEADS)
def test_a_program_of_a_model_that_says_how_sure_it_is_gives_that_too(loss, tmp_path):
    levels = ["loss.levels=[0.1,0.95]"] if loss == "quantile" else []
    path = write_untrained(tmp_path / "a.ckpt", *DEMO, *LENGTHS, "model=nlinear", f"loss={loss}", *levels)
    about, checkpoint = exports(path, tmp_path / "out"), load_checkpoint(path)
    assert about["output"]["shape"] == ["B", 5, 7]
    assert about["spread"]["shape"] == ["B", 5, 7, len(HEADS[loss])] and about["spread"]["names"] == HEADS[loss]
    model, windows = checkpoint.model(), noise_windows(checkpoint, 3)
    point, parameters = torch.export.load(tmp_path / "out/model.pt2").module()(*windows)
    torch.testing.assert_close(point, model(*windows))
    if loss == "quantile":  # at 80 % the lower end is the quantile at 0.1, at 90 % the upper one that at 0.95
        _, lower, upper = model.interval(*windows, (80, 90))
        torch.testing.assert_close(parameters[..., 0], lower[..., 0])
        torch.testing.assert_close(parameters[..., 2], upper[..., 1])
        torch.testing.assert_close(parameters[..., 1], point)
    else:
        torch.testing.assert_close(parameters[..., 0], point)
        assert (parameters[..., 1] > 0).all()
    freedom = about["spread"].get("degrees_of_freedom")
    assert freedom == (model.spread.target_freedom.tolist() if loss == "student_t" else None)


LONG = ["data.rows=9000", "seq_len=601", "label_len=7", "pred_len=3"]  # where attention takes other forms
PLAIN = "model.distil=false"  # those of the Informer family distil, in the choices of a model


def slot_of(attention):
    """Where an Informer takes it."""
    return "attention@model.encoder_attention" if attention in ENCODER_ALONE else "attention"


CHOICES = [
    *([f"model={name}"] for name in MODELS),
    # the others are those that the models bring
    *([f"{slot_of(name)}={name}", PLAIN] for name in ATTENTIONS if name not in PAPERS.values()),
    ["attention=full", "model.decode=autoregressive", PLAIN],
    ["model=informer_plus", "model.tokens=variate"],
    ["model.embedding=fixed", "model.instance_norm=true", "data.features=MS"],
    ["data.features=S", "label_len=0", "model.mix=true", "model.distil=false"],
    *([f"attention={name}", *LONG, PLAIN] for name in ("prob", "fixed")),
]


# An export takes seconds for each layer and each step decoded. Two layers where one is distilled; gpt keeps its two,
# each with a cache, which is written to at the second step and at the third.
FEW_LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "stack_layers": [2, 1]}
DISTILLED = FEW_LAYERS | {"encoder_layers": 2}
DECODING = {"model=gpt", "model.decode=autoregressive"}


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
def test_every_model_attention_and_variant_is_exported(tmp_path, choice):
    layers = {"model=gpt": {}, "model=informer": DISTILLED, "model=informer2020": DISTILLED}
    sizes = SIZES | layers.get(choice[0], FEW_LAYERS)
    lengths = [*LENGTHS, *["pred_len=3"] * bool(DECODING & {*choice})]
    exports(write_untrained(tmp_path / "best.ckpt", *DEMO, *lengths, *choice, sizes=sizes), tmp_path / "out")


def test_a_linear_model_is_exported(linear, tmp_path):
    exports(linear, tmp_path / "out")


# What is refused


def test_a_checkpoint_without_one_answer_is_refused_and_nothing_written(tmp_path, capsys):
    path = write_untrained(tmp_path / "best.ckpt", *DEMO, *LENGTHS, "eval_seed=null")
    status, printed, message = call_script(capsys, "export", path, tmp_path / "out")
    assert (status, printed) == (1, "")
    assert "model.encoder_attention.mechanism.eval_seed, model.decoder_attention.mechanism.eval_seed: null" in message
    assert "Train with eval_seed=0" in message
    assert not list((tmp_path / "out").iterdir())


def test_a_program_that_forecasts_otherwise_is_refused(linear, tmp_path, monkeypatch):
    monkeypatch.setattr("forecast.apps.export.TOLERANCE", -1.0)
    with pytest.raises(UserError, match="away from the model's, scaled units"):
        export(load_checkpoint(linear), tmp_path / "out", batch=None)
    assert not list((tmp_path / "out").iterdir())


NOT_EMPTY = "exists and is no empty folder: nothing is overwritten"
REFUSED = {
    "a folder with a file": (["notes"], 1, f"notes {NOT_EMPTY}"),
    "a file": (["notes/mine"], 1, f"notes/mine {NOT_EMPTY}"),
    "a folder in a file": (["notes/mine/out"], 1, "mine/out: Not a directory. Make room, or choose a place"),
    "no window": (["out", "--batch", "0"], 2, "0 is no whole number from 1 on"),
    "fewer windows": (["out", "--batch", "-3"], 2, "-3 is no whole number from 1 on"),
    "no number of windows": (["out", "--batch", "some"], 2, "some is no whole number from 1 on"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_place_or_a_number_of_windows_that_cannot_be_is_refused_and_nothing_written(wrong, linear, tmp_path, capsys):
    (out, *batch), expected_status, expected = REFUSED[wrong]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine").write_text("mine")
    status, printed, message = call_script(capsys, "export", linear, tmp_path / out, *batch)
    assert (status, printed) == (expected_status, "") and expected in message
    assert [file.read_text() for file in tmp_path.rglob("*") if file.is_file()] == ["mine"]


# Without this package


MORE = ["model.embedding=fixed", "data.features=MS", "data.target=load"]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [[], MORE], ids=str)
def test_without_this_package_the_folder_forecasts_as_predict_does(tmp_path, changes):
    write_csv(tmp_path / "own.csv")
    trained = [*LAYOUT, f"data.path={tmp_path}/own.csv", *LENGTHS, *changes]
    path = write_untrained(tmp_path / "best.ckpt", *trained)
    write_csv(tmp_path / "history.csv", rows=101, start="2022-12-31 03:15", seed=3)
    (tmp_path / "predicted").mkdir()
    arguments = [f"ckpt_path={path}", f"data.path={tmp_path}/history.csv", f"output={tmp_path}/forecast.csv"]
    call("predict", *arguments, f"hydra.run.dir={tmp_path}/predicted")
    export(load_checkpoint(path), tmp_path / "out", batch=None)
    command = [sys.executable, "-c", WITHOUT_FORECAST, SNIPPET, tmp_path / "out", tmp_path / "history.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "snippet.csv").write_text(done.stdout)
    ours, theirs = read_forecast(tmp_path / "forecast.csv"), pd.read_csv(tmp_path / "snippet.csv")
    pd.testing.assert_frame_equal(ours, theirs, atol=6e-4)


@pytest.mark.parametrize("encoding", ["timeF", "fixed"])
@pytest.mark.parametrize("freq", ["s", "15min", "h", "D", "W-SUN", "MS", "QS-JAN"])
def test_the_described_calendar_is_the_models(freq, encoding):
    times = pd.date_range("2019-11-03", periods=211, freq=freq)
    expected = time_features(times, freq, encoding=encoding)
    for column, rule in zip(expected.T, feature_rules(freq, encoding), strict=True):
        week = rule["attribute"] == "week"
        number = np.asarray(times.isocalendar()["week"] if week else getattr(times, rule["attribute"]), dtype=float)
        scaled = (number - rule["first"]) / (rule["last"] - rule["first"]) - 0.5 if "last" in rule else number
        np.testing.assert_array_equal(column, scaled // rule["every"] if "every" in rule else scaled, rule["name"])


@pytest.mark.slow
def test_the_script_exports_in_a_process_of_its_own_and_says_what_it_did(informer, tmp_path):
    shutil.copy(informer, tmp_path / "best.ckpt")
    command = [sys.executable, "-W", "error", "-m", "forecast", "export", "best.ckpt", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "out/model.pt2: takes any number of windows at once" in done.stdout
    assert "its forecasts of 1, 2, 7 windows differ from the model's by 0.0e+00 at most" in done.stdout
    assert len(list((tmp_path / "out").iterdir())) == 3
