"""forecast export to ONNX, which runs without torch; a server as docs/ has it."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from apps.files import LAYOUT, write_csv
from checkpoints import DEMO, LENGTHS, SIZES, write_untrained
from program import call, refusal, shapes_unchecked

from forecast import Forecaster
from forecast.apps.export import export
from forecast.checkpoint.load import load_checkpoint
from forecast.errors import UserError
from forecast.text.overrides import install

ROOT = Path(__file__).parents[2]
FILES = ["config.json", "model.onnx", "model.safetensors"]


def needed():
    pytest.importorskip("onnxscript", reason='needs onnxscript: pip install -e ".[onnx]"')
    return pytest.importorskip("onnxruntime", reason='needs onnxruntime: pip install -e ".[onnx]"')


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained model with calibrated intervals and a floor, and a history of another time."""
    folder = tmp_path_factory.mktemp("run")
    table = write_csv(folder / "own.csv", rows=900)
    assert (table[["load", "wind"]] > 0).all(axis=None)
    lengths = ["seq_len=33", "label_len=0", "pred_len=3", "checks.leakage=false", "logger=none"]
    call(
        "train",
        "model=ridge",
        "model.look_back=40",
        *LAYOUT,
        f"data.path={folder}/own.csv",
        *lengths,
        f"hydra.run.dir={folder}/run",
    )
    write_csv(folder / "history.csv", rows=101, start="2022-12-31 03:15", seed=3)
    return folder


def page_example(first):
    """The program of the page on exports that imports this first, for the columns of the file here."""
    page = (ROOT / "docs/reference/exports.md").read_text()
    code = re.search(rf"```python\n(import json\n[^`]*?\nimport {first}.*?)```", page, re.DOTALL)[1]
    return code.replace('"date"', '"when"')


@pytest.mark.filterwarnings("ignore")  # LitServe's own
def test_the_litserve_server_of_the_page_answers(run, monkeypatch):
    pytest.importorskip("litserve", reason="needs litserve: pip install litserve")
    server = {"__name__": "server"}
    exec(page_example("litserve"), server)
    monkeypatch.chdir(run)
    api = server["Forecasts"]()
    api.setup("cpu")
    table = pd.read_csv(run / "history.csv", sep=";", decimal=",")
    answer = api.predict(json.loads(table.to_json(orient="records")))
    expected = Forecaster.load(run / "run/checkpoints/best.ckpt").predict(run / "history.csv", level=[80, 95])
    found = pd.DataFrame(answer).assign(when=lambda rows: pd.to_datetime(rows["when"]))
    np.testing.assert_allclose(found.drop(columns="when"), expected.drop(columns="when"))
    assert list(found["when"]) == list(expected["when"])


def exported(folder, *choice, sizes=SIZES, format="onnx"):
    path = write_untrained(folder / "a.ckpt", *choice, sizes=sizes)
    with shapes_unchecked():
        return export(load_checkpoint(path), folder / "out", batch=None, format=format)


# The models that bring the fewest layers, of each family; pytest -m slow tests/scripts/test_export.py has all.
CONVERTED = {
    "dlinear": ["loss=quantile", "loss.levels=[0.1,0.95]"],
    "boosted_trees": [],
    "smoothing": ["model.seasons=[3,7]", "model.clip=1.5"],
}


@pytest.mark.parametrize("model", CONVERTED)
def test_a_model_is_written_and_onnxruntime_forecasts_as_it_does(model, tmp_path):
    runtime = needed()
    about = exported(tmp_path, *DEMO, *LENGTHS, f"model={model}", *CONVERTED[model])
    assert about["onnx"]["largest_difference_scaled"] <= 1e-5 and about["onnx"]["compared_on_windows"] == [1, 2, 7]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    inputs = runtime.InferenceSession(tmp_path / "out/model.onnx").get_inputs()
    assert [(part.name, part.shape[1:]) for part in inputs] == [(p["name"], p["shape"][1:]) for p in about["inputs"]]


# Torch translates no stable sort and no complex conjugate; should this fail one day, docs/limits.md has less to say.
REFUSED = {
    "sort": ["model=reformer"],
    "_conj_physical": ["attention@model.encoder_attention=autocorrelation", "model.distil=false"],
}


@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_what_onnx_has_no_words_for_is_refused_with_torchs_reason(what, tmp_path):
    needed()
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    with pytest.raises(UserError, match=rf"(?s){what}.*Export it with --format program"):
        exported(tmp_path, *DEMO, *LENGTHS, *REFUSED[what], sizes=SIZES | layers)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["informer", "gpt", "patchtst"])
def test_a_model_with_attention_is_written_too(model, tmp_path):
    needed()
    about = exported(tmp_path, *DEMO, *LENGTHS, f"model={model}")["onnx"]
    assert about["largest_difference_scaled"] <= 1e-5


def weather(rows=300):
    days = pd.date_range("2024-01-01", periods=rows)
    draw = np.random.default_rng(2)
    words = draw.choice(["sun", "rain"], rows)
    table = {"date": days, "load": draw.normal(9, 2, rows), "heat": draw.normal(20, 5, rows), "sky": words}
    return pd.DataFrame(table)


@pytest.mark.parametrize("format", ["program", "onnx"])
def test_the_description_of_a_model_with_known_columns_says_what_they_are(tmp_path, format):
    if format == "onnx":
        needed()
    weather().to_csv(tmp_path / "w.csv", index=False)
    roles = ["data=csv", f"data.path={tmp_path}/w.csv", "data.target=load", "data.known=[heat,sky]"]
    about = exported(tmp_path, *roles, *LENGTHS, "model=dlinear", format=format)
    assert [part["shape"] for part in about["inputs"]] == [["B", 22, 1], ["B", 22, 5], ["B", 5, 5]]
    assert about["known"][3:] == [{"name": "heat"}, {"name": "sky", "words": ["rain", "sun"]}]


def test_a_model_of_many_series_becomes_onnx_too(tmp_path):
    needed()
    table = pd.concat([weather(80).assign(shop=name) for name in "ab"])[["shop", "date", "load"]]
    table.to_csv(tmp_path / "p.csv", index=False)
    keys = ["data=csv", f"data.path={tmp_path}/p.csv", "data.id_column=shop", "data.short=pad"]
    assert exported(tmp_path, *keys, *LENGTHS, "model=nlinear")["onnx"]["largest_difference_scaled"] <= 1e-5


# What is refused


def test_without_the_packages_the_extra_is_named_and_nothing_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = write_untrained(tmp_path / "a.ckpt", *DEMO, *LENGTHS, "model=nlinear")
    said = refusal(capsys, "export", path, tmp_path / "out", "--format", "onnx")
    assert "ONNX needs onnxscript and onnxruntime" in said and install("onnx") in said
    assert not list((tmp_path / "out").iterdir())


def test_a_model_without_a_graph_is_refused(tmp_path):
    with pytest.raises(UserError, match="is fitted anew to each window"):
        exported(tmp_path, *DEMO, *LENGTHS, "model=theta", format="program")
