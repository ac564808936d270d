"""`Forecaster.tune`: the study of `forecast tune`, then the training with its best settings."""

import json

import pandas as pd
import pytest
from apps.tunings import DLINEAR, drawn, read
from program import call

from forecast import Forecaster
from forecast.data.sources import demo_frame
from forecast.errors import UserError

SPACE = {"optim.lr": {"low": 1e-4, "high": 1e-1, "log": True}, "model.kernel_size": [3, 5, 25], "loss": ["mse", "mae"]}
AS_TYPED = "tune.space={optim.lr: {low: 1e-4, high: 1e-1, log: true}, model.kernel_size: [3, 5, 25], loss: [mse, mae]}"
ROWS = 400
OWN = [word for word in DLINEAR if not word.startswith(("model=", "data=", "data.rows"))]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The run folders of the trainings."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def frame():
    found = demo_frame(seed=7, rows=ROWS)
    return pd.DataFrame(found.values, columns=found.columns, index=found.timestamps)


def dlinear(*words, **keys):
    return Forecaster(model="dlinear", overrides=[*OWN, *words], **keys)


def test_it_runs_the_trials_of_the_command_and_trains_the_best_to_its_validation_error(frame, tmp_path):
    seed = 3  # another than without a word
    untuned = dlinear(seed=seed)
    best = untuned.tune(frame, output="study", minutes=None, trials=3, space=SPACE)
    path = tmp_path / "study" / "data.parquet"
    of_file = [*OWN, "model=dlinear", "data=csv", f"data.path={path}", f"seed={seed}", AS_TYPED]
    call("tune", *of_file, "tune.minutes=null", "tune.trials=3", f"hydra.run.dir={tmp_path / 'typed'}")
    assert drawn(best.study) == drawn(read(tmp_path / "typed")) == drawn(read(tmp_path / "study"))
    metrics = json.loads((best.folder / "metrics.json").read_text())
    assert metrics["val"]["scaled"]["mse"] == pytest.approx(best.study["best"]["error"], rel=1e-5)
    assert len(best.predict()) == 5 and best.predict().equals(best.predict(frame))
    assert untuned.overrides == dlinear(seed=seed).overrides
    with pytest.raises(UserError, match="has no trained model"):
        untuned.predict()


def test_the_same_call_goes_on_and_the_settings_fit_another_table(frame):
    keys = {"output": "study", "minutes": None, "space": SPACE}
    first = dlinear().tune(frame, trials=2, **keys)
    more = dlinear().tune(frame, trials=3, **keys)
    assert drawn(more.study)[:2] == drawn(first.study) and len(more.study["trials"]) == 3
    again = more.fit(frame.iloc[:360])
    config = more.study["best"]["config"]
    assert {f"loss={config['loss']}", f"model.kernel_size={config['model.kernel_size']}"} <= set(again.overrides)
    with pytest.raises(UserError, match=r"study' holds another data\.parquet\. Choose another folder"):
        dlinear().tune(frame.iloc[:360], trials=3, **keys)


def test_another_metric_judges_and_refit_is_for_the_training_alone(frame):
    space = {"loss": ["mse", "mae"]}
    best = dlinear("refit=true").tune(frame, output="study", minutes=None, trials=1, metric="mae", space=space)
    assert best.study["metric"] == "val mae, scaled" and best.checkpoint.path.name == "refit.ckpt"


def test_the_best_of_trials_that_were_cut_off_is_trained_for_as_many_epochs():
    from forecast.apps.forecaster import best_words

    cut = {"best": {"config": {"loss": "mae", "seq_len": None}, "epochs": 3, "state": "cut"}}
    assert best_words(cut) == ["loss=mae", "seq_len=null", "trainer.max_epochs=3"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"table": 3}, r"a int was given in place of a DataFrame or the path of a CSV file"),
        ({"minutes": 0}, r"tune\.minutes=0: must be above 0"),
        ({"trials": None}, r"nothing would end the study\. Say tune\.trials=20, or tune\.minutes=10"),
        ({"space": {}}, r"tune\.space names no key to vary"),
        ({"space": {"optim.lrr": [1, 2]}}, r"'optim\.lrr' is no key of the config\. Did you mean 'optim\.lr'\?"),
        ({"space": "no.yaml"}, r"tune\.space=no\.yaml cannot be read"),
    ],
)
def test_bad_input_is_refused_and_leaves_no_table_in_the_way_of_the_next_call(frame, keys, message, tmp_path):
    usual = {"table": frame, "minutes": None, "trials": 1, "space": SPACE}
    with pytest.raises(UserError, match=message) as refused:
        dlinear().tune(**{**usual, **keys}, output="study")
    assert len(str(refused.value).splitlines()) <= 2
    assert not (tmp_path / "study" / "data.parquet").exists()


def test_a_strangers_data_are_kept(frame, tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "data.parquet").write_text("mine")
    with pytest.raises(UserError, match=r"holds another data\.parquet"):
        dlinear().tune(frame, output="study", minutes=None, trials=1, space=SPACE)
    assert (tmp_path / "study" / "data.parquet").read_text() == "mine"
