"""forecast predict future=FILE: what is known in advance, of one series and of every series of a panel."""

import numpy as np
import pandas as pd
import pytest
import torch
from checkpoints import write_untrained
from program import call, refusal

from forecast import Forecaster, UserError
from forecast.apps import predict as command
from forecast.apps.common.inputs import evaluated_data, trained_source
from forecast.checkpoint.load import load_checkpoint

ROLES = ["data.target=sold", "data.known=[promo,temp]", "seq_len=22", "label_len=11", "pred_len=5", "data=csv"]
HOURS, DAYS = 140, [60, 80, 45, 70]
READING = ["data/split=last", "data.id_column=shop", "data.time_column=day"]


def hours(rows=HOURS, *, seed=1):
    draws = np.random.default_rng(seed)
    columns = {name: draws.normal(50, 9, rows).round(2) for name in ("temp", "sold", "wind")}
    times = pd.date_range("2024-03-01", periods=rows, freq="h")
    return pd.DataFrame({"date": times, "promo": draws.integers(0, 2, rows), **columns})


def days(lengths=DAYS, *, seed=2):
    draws = np.random.default_rng(seed)
    return pd.concat(
        [
            pd.DataFrame({"shop": f"s{s}", "day": pd.date_range("2024-01-01", periods=n + s)[s:]})
            .assign(sold=draws.normal(100 * s, 5, n).round(2), promo=draws.integers(0, 2, n))
            .assign(temp=draws.normal(9, 4, n).round(1))
            for s, n in enumerate(lengths)
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The rows before the last five, what is known of these, and checkpoints."""
    folder = tmp_path_factory.mktemp("future")
    whole, panel = hours(), days()
    whole.to_csv(folder / "whole.csv", index=False)
    whole[:-5].to_csv(folder / "before.csv", index=False)
    whole[-5:][["date", "temp", "promo"]].to_csv(folder / "after.csv", index=False)
    panel.to_csv(folder / "panel.csv", index=False)
    last = panel.groupby("shop").cumcount(ascending=False) < 5
    panel[~last].to_csv(folder / "panel_before.csv", index=False)
    panel[last][["temp", "shop", "promo", "day"]].to_csv(folder / "panel_after.csv", index=False)
    panel[last][["temp", "shop", "promo", "day"]].to_parquet(folder / "panel_after.parquet")
    write_untrained(folder / "c.ckpt", *ROLES, f"data.path={folder}/whole.csv")
    write_untrained(folder / "bare.ckpt", *ROLES[2:], f"data.path={folder}/whole.csv")
    write_untrained(folder / "p.ckpt", *ROLES, *READING, f"data.path={folder}/panel.csv")
    return folder


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    monkeypatch.setattr(command, "draw_ends", lambda path, *_: path.write_bytes(b"a picture"))


def predict(checkpoint, output, *changes):
    call("predict", f"ckpt_path={checkpoint}", f"output={output}", "device=cpu", *changes)
    return pd.read_csv(output)


def last_window(checkpoint, split="test"):
    """The model's own forecast of the last window of the data trained on, original units."""
    source = trained_source(checkpoint.config.data, root=None)
    data = evaluated_data(checkpoint, source, None, split=split)
    windows = data.windows(split)
    return data, windows


def test_a_forecast_is_that_of_the_window_that_holds_the_known_columns(folder, tmp_path):
    found = predict(
        folder / "c.ckpt", tmp_path / "f.csv", f"data.path={folder}/before.csv", f"future={folder}/after.csv"
    )
    checkpoint = load_checkpoint(folder / "c.ckpt")
    assert checkpoint.data["columns"] == ["sold", "wind", "promo", "temp"]
    data, windows = last_window(checkpoint)
    batch = windows[len(windows) - 1]
    with torch.inference_mode():
        forecast = checkpoint.model()(batch.past, batch.past_known, batch.future_known)
    assert batch.future_known.shape[2] == len(checkpoint.data["known"])
    np.testing.assert_allclose(found[["sold"]], data.original(forecast.double().numpy(), np.array([0]))[0], atol=2e-4)
    assert found["date"].tolist() == [str(time) for time in hours()["date"][-5:]]
    python = Forecaster.load(folder / "c.ckpt", device="cpu").predict(hours()[:-5], future=hours()[-5:])
    np.testing.assert_allclose(python["sold"], found["sold"], atol=1e-3)


def test_what_is_known_in_advance_changes_the_forecast(folder, tmp_path):
    other = hours()[-5:].assign(promo=lambda table: 1 - table["promo"])
    forecaster = Forecaster.load(folder / "c.ckpt", device="cpu")
    one, two = (forecaster.predict(hours()[:-5], future=rows)["sold"] for rows in (hours()[-5:], other))
    assert (one != two).any()
    later = pd.concat([hours()[-5:], hours(150)[140:].assign(temp=1e6)])
    np.testing.assert_array_equal(forecaster.predict(hours()[:-5], future=later)["sold"], one)  # beyond the horizon


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_series_of_a_panel_is_told_its_own(folder, tmp_path, kind):
    paths = [f"data.path={folder}/panel_before.csv", f"future={folder}/panel_after.{kind}"]
    found = predict(folder / "p.ckpt", tmp_path / "f.csv", *paths)
    checkpoint = load_checkpoint(folder / "p.ckpt")
    data, windows = last_window(checkpoint)
    last = torch.from_numpy(windows.origins.ends - 1)
    batch = windows.__getitems__(last)
    with torch.inference_mode():
        forecast = checkpoint.model()(batch.past, batch.past_known, batch.future_known).double().numpy()
    expected = data.original(forecast, np.arange(len(DAYS)))
    np.testing.assert_allclose(found["sold"].to_numpy().reshape(len(DAYS), 5), expected[..., 0], rtol=1e-5)
    table, last = days(), days().groupby("shop").cumcount(ascending=False) < 5
    forecaster, last = Forecaster.load(folder / "p.ckpt", device="cpu"), last.to_numpy()
    python = forecaster.predict(table[~last], future=table[last])
    np.testing.assert_allclose(python["sold"], found["sold"], atol=1e-3)


ONE = {
    "a hole": (
        lambda t: t.drop(index=t.index[2]),
        r"the column 'promo' has no value at 2024-03-06 17:00:00. The forecast must be told promo, temp at the 5 steps "
        r"from 2024-03-06 15:00:00 to 2024-03-06 19:00:00",
    ),
    "an empty cell": (
        lambda t: t.assign(temp=t["temp"].where(t.index < t.index[3])),
        r"the column 'temp' has no value at 2024-03-06 18:00:00",
    ),
    "no column": (
        lambda t: t.drop(columns="promo"),
        r"there is no column 'promo' among temp, sold, wind",
    ),
    "between steps": (
        lambda t: t.assign(date=t["date"] + pd.Timedelta("30min")),
        r"has no value at 2024-03-06 15:00:00",
    ),
}


@pytest.mark.parametrize("case", ONE)
def test_a_future_of_one_series_that_lacks_something_is_refused(folder, tmp_path, capsys, case):
    change, match = ONE[case]
    change(hours()[-5:]).to_csv(tmp_path / "bad.csv", index=False)
    changes = [f"data.path={folder}/before.csv", f"future={tmp_path}/bad.csv", f"output={tmp_path}/f.csv"]
    text = refusal(capsys, "predict", f"ckpt_path={folder}/c.ckpt", *changes)
    with pytest.raises(UserError, match=match):
        raise UserError(text)
    assert not (tmp_path / "f.csv").exists()


PANEL = {
    "a series": (
        lambda t: t[t["shop"] != "s2"],
        r"'promo' has no value of series 's2' at 2024-02-12 00:00:00. The forecast must be told promo, temp at "
        r"the 5 steps from 2024-02-12 00:00:00 to 2024-02-16 00:00:00",
    ),
    "a row": (
        lambda t: t[(t["shop"] != "s1") | (t["day"] != "2024-03-18")],
        r"has no value of series 's1' at 2024-03-18 00:00:00",
    ),
    "a row twice": (
        lambda t: pd.concat([t, t[-1:].assign(temp=99)]),
        r"of the series 's3' stands already",
    ),
}


@pytest.mark.parametrize("case", PANEL)
def test_a_future_of_a_panel_that_lacks_something_is_refused(folder, tmp_path, capsys, case):
    change, match = PANEL[case]
    table = days()
    change(table[table.groupby("shop").cumcount(ascending=False) < 5]).to_csv(tmp_path / "bad.csv", index=False)
    changes = [f"data.path={folder}/panel_before.csv", f"future={tmp_path}/bad.csv", f"output={tmp_path}/f.csv"]
    text = refusal(capsys, "predict", f"ckpt_path={folder}/p.ckpt", *changes)
    with pytest.raises(UserError, match=match):
        raise UserError(text)


@pytest.mark.parametrize(("kind", "name"), [("c", ""), ("p", "panel_")])
def test_rows_without_targets_at_the_end_are_the_future_of_a_forecast(folder, tmp_path, capsys, kind, name):
    before, after = f"{name}before", f"{name}after"
    paths = [f"data.path={folder}/{before}.csv", f"future={folder}/{after}.csv"]
    expected = predict(folder / f"{kind}.ckpt", tmp_path / "told.csv", *paths)
    known = [pd.read_csv(folder / f"{name}.csv", dtype=str) for name in (before, after)]
    pd.concat(known).to_csv(tmp_path / "both.csv", index=False)
    found = predict(folder / f"{kind}.ckpt", tmp_path / "own.csv", f"data.path={tmp_path}/both.csv")
    pd.testing.assert_frame_equal(found, expected)
    said = "both.csv: its rows behind the last target say what is known in advance: promo, temp"
    assert said in "".join(capsys.readouterr())
    python = Forecaster.load(folder / f"{kind}.ckpt", device="cpu").predict(pd.read_csv(tmp_path / "both.csv"))
    np.testing.assert_allclose(python["sold"], expected["sold"], atol=1e-3)


def test_rows_without_a_time_may_end_in_the_future(folder, tmp_path):
    settings = ["data.time_column=null", "data.freq=steps", "data.drop=[date]"]
    write_untrained(tmp_path / "n.ckpt", *ROLES, *settings, f"data.path={folder}/whole.csv")
    rows, told = hours()[:-5], hours()[-5:][["promo", "temp"]]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    told.to_csv(tmp_path / "told.csv", index=False)
    pd.concat([rows, told]).to_csv(tmp_path / "both.csv", index=False)
    paths = [f"data.path={tmp_path}/rows.csv", f"future={tmp_path}/told.csv"]
    expected = predict(tmp_path / "n.ckpt", tmp_path / "one.csv", *paths)
    found = predict(tmp_path / "n.ckpt", tmp_path / "two.csv", f"data.path={tmp_path}/both.csv")
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(("kind", "first"), [("c", "2024-03-06 20:00:00"), ("p", "2024-03-01 00:00:00")])
def test_without_what_is_known_in_advance_the_columns_and_steps_are_said(folder, tmp_path, capsys, kind, first):
    text = refusal(capsys, "predict", f"ckpt_path={folder}/{kind}.ckpt", f"output={tmp_path}/f.csv")
    assert f"must be told promo, temp at the 5 steps from {first}" in text
    assert "future=FILE" in text


def test_a_future_of_a_model_that_knows_nothing_is_refused(folder, tmp_path, capsys):
    text = refusal(
        capsys, "predict", f"ckpt_path={folder}/bare.ckpt", f"output={tmp_path}/f.csv", f"future={folder}/after.csv"
    )
    assert "was trained without columns that are known in advance" in text


def test_a_future_is_not_overwritten(folder, tmp_path, capsys):
    text = refusal(
        capsys, "predict", f"ckpt_path={folder}/c.ckpt", f"output={folder}/after.csv", f"future={folder}/after.csv"
    )
    assert "future is read from there. Choose another name" in text
