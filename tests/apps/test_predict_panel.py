"""forecast predict and merge of a panel: long format in the input's names, the same bytes in any number of parts."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from checkpoints import write_untrained
from program import call, refusal

from forecast import Forecaster
from forecast.apps import predict as command
from forecast.apps import predict as predict_command
from forecast.apps.common.forecast_parts import beside
from forecast.apps.common.training_data import read_data
from forecast.checkpoint.load import load_checkpoint
from forecast.data.sources import CsvSource
from forecast.evaluation import predict as core
from forecast.evaluation.predict import BATCH
from forecast.training.calibrated import add_calibration

LENGTHS = [60, 80, 45, 10, 90, 70, 22, 31, 40, 55, 33, 28, 64]
WINDOW = ["seq_len=22", "label_len=11", "pred_len=5", "data/split=last", "data=csv"]
HELD = [s for s, n in enumerate(LENGTHS) if n >= 22]
ENDINGS = [".csv", ".parquet"]


def long_table(lengths=LENGTHS, *, seed=0, name="s{}"):
    """Series of days, each beginning as many days later as its number."""
    draws = np.random.default_rng(seed)
    return pd.concat(
        pd.DataFrame(
            {
                "shop": name.format(s),
                "day": pd.date_range("2024-01-01", periods=n + s)[s:],
                "sold": draws.normal(100 * s, 1 + s, n).round(3),
                "price": draws.normal(5, 1, n).round(2),
            }
        )
        for s, n in enumerate(lengths)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """p.csv, p.parquet, and checkpoints of both columns, small and of an Informer, and of series padded in front."""
    folder = tmp_path_factory.mktemp("panel")
    table = long_table()
    table.to_csv(folder / "p.csv", index=False)
    table.to_parquet(folder / "p.parquet")
    keys = [*WINDOW, f"data.path={folder}/p.csv", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(folder / "c.ckpt", *keys, "model=nlinear")
    write_untrained(folder / "informer.ckpt", *keys)
    write_untrained(folder / "padded.ckpt", *keys, "data.short=pad")
    return folder


@pytest.fixture(autouse=True)
def undrawn(monkeypatch, request):
    """Pictures take most of the time of a forecast; one test looks at a real one."""
    if "picture" not in request.node.name:
        monkeypatch.setattr(command, "draw_ends", lambda path, *_: path.write_bytes(b"a picture"))


@pytest.fixture
def small(monkeypatch):
    """Batches of three series: as many as a panel of millions has."""
    monkeypatch.setattr(core, "BATCH", 3)
    monkeypatch.setattr(command, "BATCH", 3)


def predict(checkpoint, output, *changes):
    call("predict", f"ckpt_path={checkpoint}", f"output={output}", "device=cpu", *changes)
    return pd.read_parquet(output) if output.suffix == ".parquet" else pd.read_csv(output, parse_dates=["day"])


def refused(capsys, checkpoint, output, *changes):
    return refusal(capsys, "predict", f"ckpt_path={checkpoint}", f"output={output}", "device=cpu", *changes)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", [None, "csv", "parquet"])
def test_every_series_goes_on_in_the_order_and_names_of_the_file(folder, tmp_path, ending, kind):
    changes = [] if kind is None else [f"data.path={folder}/p.{kind}"]
    found = predict(folder / "c.ckpt", tmp_path / f"f{ending}", *changes)
    assert found.columns.tolist() == ["shop", "day", "sold", "price"]
    assert found["shop"].tolist() == [f"s{s}" for s in HELD for _ in range(5)]
    ends = [pd.Timestamp("2024-01-01") + pd.Timedelta(days=LENGTHS[s] + s) for s in HELD]
    assert found["day"].tolist() == [end + pd.Timedelta(days=p) for end in ends for p in range(5)]
    level = found.groupby("shop", sort=False)["sold"].mean().to_numpy()
    assert (np.abs(level - 100 * np.array(HELD)) < 4 * (1 + np.array(HELD))).all()  # original units


def test_a_network_is_told_which_known_feature_marks_the_rows_that_fill_a_window(folder, tmp_path):
    """The one after the calendar, whatever is known beside it."""
    keys = [*WINDOW, f"data.path={folder}/p.csv", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(tmp_path / "priced.ckpt", *keys, "data.short=pad", "data.known=[price]")
    marks = {}
    for path in (folder / "informer.ckpt", folder / "padded.ckpt", tmp_path / "priced.ckpt"):
        checkpoint = load_checkpoint(path)
        marks[path.stem] = [checkpoint.record.data["known"][i] for i in checkpoint.model().padding]
    assert marks == {"informer": [], "padded": ["padded"], "priced": ["padded"]}


def test_a_picture_shows_some_series(folder, tmp_path):
    for checkpoint in ("c", "padded"):
        predict(folder / f"{checkpoint}.ckpt", tmp_path / f"{checkpoint}.csv")
        assert (tmp_path / f"{checkpoint}.png").read_bytes().startswith(b"\x89PNG")


def test_a_forecast_of_another_ending_replaces_the_picture_of_its_namesake_as_the_tutorial_has_it(folder, tmp_path):
    predict(folder / "c.ckpt", tmp_path / "forecast.csv")
    predict(folder / "c.ckpt", tmp_path / "forecast.parquet", f"data.path={folder}/p.csv")
    assert (tmp_path / "forecast.png").read_bytes().startswith(b"\x89PNG")
    parts = [tmp_path / f"part{i}.parquet" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        predict(folder / "c.ckpt", part, f"shard={i}/2")
    call("merge", *parts, "--output", tmp_path / "forecast.parquet")


def test_a_forecast_is_the_models_own_of_the_last_rows(folder, tmp_path):
    found = predict(folder / "c.ckpt", tmp_path / "f.csv")
    checkpoint, table = load_checkpoint(folder / "c.ckpt"), long_table()
    rows = table[table["shop"] == "s4"][["sold", "price"]].to_numpy()
    train = rows[: len(rows) - 5 * sum(checkpoint.config.data.get("split")[part] for part in ("val", "test"))]
    past = (rows[-22:] - train.mean(0)) / train.std(0)
    times = pd.date_range(end=found[found["shop"] == "s4"]["day"].iloc[-1], periods=27)
    known = np.stack([times.day_of_week / 6, (times.day - 1) / 30, (times.day_of_year - 1) / 365], axis=1) - 0.5
    inputs = [torch.tensor(np.asarray(part), dtype=torch.float32)[None] for part in (past, known[:22], known[22:])]
    with torch.inference_mode():
        expected = checkpoint.model()(*inputs)[0].double().numpy() * train.std(0) + train.mean(0)
    np.testing.assert_allclose(found[found["shop"] == "s4"][["sold", "price"]], expected, rtol=1e-5)


@pytest.fixture(scope="module")
def calibrated(folder):
    """The checkpoint with intervals."""
    path = folder / "calibrated.ckpt"
    path.write_bytes((folder / "c.ckpt").read_bytes())
    checkpoint = load_checkpoint(path)
    data = read_data(checkpoint.config.data.build(CsvSource), checkpoint.config)
    add_calibration(path, folder, data, levels=(80.0,), device=torch.device("cpu"))
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ends_of_intervals_are_further_columns(folder, calibrated, tmp_path, small, ending):
    plain = predict(folder / "c.ckpt", tmp_path / f"plain{ending}")
    whole = predict(calibrated, tmp_path / f"whole{ending}", "level=[50,80]")
    names = [f"{name}-{end}-{level}" for name in ("sold", "price") for level in (50, 80) for end in ("lo", "hi")]
    assert whole.columns.tolist() == ["shop", "day", "sold", "price", *names]
    pd.testing.assert_frame_equal(whole[plain.columns.tolist()], plain)
    assert (whole["sold-lo-80"] <= whole["sold-lo-50"]).all() and (whole["sold-lo-50"] < whole["sold"]).all()
    width = (whole["sold-hi-80"] - whole["sold-lo-80"]).groupby(whole["shop"], sort=False).mean()
    assert width["s11"] > 2 * width["s1"]  # in units of the scale of each series
    parts = [tmp_path / f"{i}{ending}" for i in (1, 2, 3)]
    for i, part in enumerate(parts, start=1):
        predict(calibrated, part, f"shard={i}/3", "level=[50,80]")
    call("merge", *parts, "--output", tmp_path / f"joined{ending}")
    assert (tmp_path / f"joined{ending}").read_bytes() == (tmp_path / f"whole{ending}").read_bytes()
    table = Forecaster.load(calibrated).predict(level=[50, 80])
    np.testing.assert_allclose(table[names], whole[names], rtol=1e-5)


@pytest.mark.parametrize(("ending", "numbers"), [(".csv", (1, 5)), (".parquet", (5,))], ids=ENDINGS)
@pytest.mark.usefixtures("small")
def test_one_part_or_five_are_joined_to_the_same_bytes(folder, tmp_path, capsys, ending, numbers):
    """Of a model that draws keys by chance."""
    whole = tmp_path / f"whole{ending}"
    predict(folder / "informer.ckpt", whole)
    for n in numbers:
        parts = [tmp_path / f"{i}of{n}{ending}" for i in range(1, n + 1)]
        for i, part in enumerate(parts, start=1):
            predict(folder / "informer.ckpt", part, f"shard={i}/{n}")
        joined = tmp_path / f"joined{n}{ending}"
        call("merge", *parts[::-1], "--output", joined)
        assert joined.read_bytes() == whole.read_bytes()
        assert beside(joined).read_bytes() == beside(whole).read_bytes()
    assert "5 parts, 12 series in 60 rows, are joined in" in capsys.readouterr().out


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("series", [0, 1, 3 * BATCH, 4 * BATCH - 1, 4 * BATCH + 1])
def test_parts_hold_each_series_once_and_begin_with_a_batch(series, n):
    """The last batch may be less than a whole one."""
    parts = [command.series_of((i, n), series) for i in range(1, n + 1)]
    assert [number for first, stop in parts for number in range(first, stop)] == list(range(series))
    assert all(first % BATCH == 0 for first, stop in parts if first < stop)


def test_a_series_that_was_not_trained_on_is_scaled_by_its_own_rows_and_counted(folder, tmp_path, capsys):
    table = pd.concat([long_table([60, 40], seed=5, name="new{}"), long_table()])
    table.to_csv(tmp_path / "more.csv", index=False)
    changes = [f"data.path={tmp_path}/more.csv"]
    found = predict(folder / "c.ckpt", tmp_path / "f.csv", *changes)
    assert "2 of 15 series were not in the training: scaled by their own history." in capsys.readouterr().err
    assert json.loads(beside(tmp_path / "f.csv").read_text())["run"]["unseen"] == 2
    assert found["shop"].iloc[0] == "new0" and found["sold"].iloc[:5].abs().max() < 4
    text = refused(capsys, folder / "c.ckpt", tmp_path / "g.csv", *changes, "unseen=refuse")
    assert "2 of 15 series were not in the training, the first is 'new0', and unseen=refuse." in text
    assert not (tmp_path / "g.csv").exists()
    predict(folder / "c.ckpt", tmp_path / "g.csv", "unseen=refuse")


@pytest.mark.parametrize(
    ("scaling", "words"), [("global", "scaled as those that were"), ("season", "scaled by their own history")]
)
def test_a_new_series_is_counted_however_the_others_are_scaled(folder, tmp_path, capsys, scaling, words):
    keys = [f"data.path={folder}/p.csv", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(tmp_path / "c.ckpt", *WINDOW, *keys, f"data.scaling={scaling}", "data.season=7")
    pd.concat([long_table(), long_table([60], name="new{}")]).to_csv(tmp_path / "more.csv", index=False)
    found = predict(tmp_path / "c.ckpt", tmp_path / "f.csv", f"data.path={tmp_path}/more.csv")
    assert f"1 of 14 series were not in the training: {words}." in capsys.readouterr().err
    assert found["shop"].iloc[-1] == "new0" and np.isfinite(found["sold"]).all()


def test_a_short_series_is_left_out_and_counted_or_padded_as_in_training(folder, tmp_path, capsys):
    predict(folder / "c.ckpt", tmp_path / "f.csv")
    said = capsys.readouterr().err
    assert "1 of 13 series have fewer than the 22 rows that the model reads and are left out, the first is 's3'" in said
    padded = predict(folder / "padded.ckpt", tmp_path / "p.csv")
    assert padded["shop"].drop_duplicates().tolist() == [f"s{s}" for s in range(13)]


def test_series_of_another_size_than_in_training_are_said_in_one_line(folder, tmp_path, capsys):
    table = long_table()
    last = table.groupby("shop").cumcount(ascending=False) < 22
    table["sold"] = table["sold"].where(~(table["shop"].isin(["s4", "s7"]) & last), 1e5)
    table.to_csv(tmp_path / "far.csv", index=False)
    predict(folder / "c.ckpt", tmp_path / "f.csv", f"data.path={tmp_path}/far.csv")
    text = capsys.readouterr().err
    assert text.count("standard deviations)") == 1
    assert (
        "far.csv, the last 22 rows of series 's4', as of 1 more of 13 series: column 'sold' has the median 1e+05"
        in text
    )


def test_series_all_too_short_are_refused(folder, tmp_path, capsys):
    long_table([9, 12, 7]).to_csv(tmp_path / "short.csv", index=False)
    text = refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", f"data.path={tmp_path}/short.csv")
    assert "short.csv: the longest of 3 series, 's1', has 12 rows; the model reads the last 22. Give it a" in text


def test_steps_without_dates_go_on_as_numbers(tmp_path):
    table = long_table()
    table["day"] = 40 + (table["day"] - table["day"].min()).dt.days
    table.to_csv(tmp_path / "p.csv", index=False)
    keys = [f"data.path={tmp_path}/p.csv", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(tmp_path / "c.ckpt", *WINDOW, *keys)
    for ending in ENDINGS:
        output = tmp_path / ending[1:] / f"f{ending}"
        output.parent.mkdir()
        call("predict", f"ckpt_path={tmp_path}/c.ckpt", f"output={output}", "device=cpu")
        found = pd.read_csv(output) if ending == ".csv" else pd.read_parquet(output)
        assert found["day"].tolist() == [40 + LENGTHS[s] + s + p for s in HELD for p in range(5)]


def test_a_wide_file_and_several_id_columns_are_answered_in_long_format(tmp_path):
    table = long_table([30, 40, 50])
    table.pivot_table(index="day", columns="shop", values="sold", sort=False).to_csv(tmp_path / "wide.csv")
    write_untrained(
        tmp_path / "wide.ckpt", *WINDOW, f"data.path={tmp_path}/wide.csv", "data.panel=columns", "data.time_column=day"
    )
    found = predict(tmp_path / "wide.ckpt", tmp_path / "w.csv")
    assert found.columns[:2].tolist() == ["unique_id", "day"] and found.shape == (15, 3)
    assert sorted(found["unique_id"].unique()) == ["s0", "s1", "s2"]
    table.insert(0, "city", "Ulm")
    table.to_csv(tmp_path / "two.csv", index=False)
    keys = [f"data.path={tmp_path}/two.csv", "data.id_column=[city,shop]", "data.time_column=day", "data.target=sold"]
    write_untrained(tmp_path / "two.ckpt", *WINDOW, *keys)
    found = predict(tmp_path / "two.ckpt", tmp_path / "t.csv")
    assert found.columns.tolist() == ["city", "shop", "day", "sold", "price"]
    assert set(found["city"]) == {"Ulm"} and found["shop"].unique().tolist() == ["s0", "s1", "s2"]


def test_ids_that_are_numbers_in_a_parquet_file_stay_numbers_in_one(tmp_path):
    table = long_table([30, 40, 50], name="{}").astype({"shop": "int32"})
    table.to_parquet(tmp_path / "p.parquet")
    keys = [f"data.path={tmp_path}/p.parquet", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(tmp_path / "c.ckpt", *WINDOW, *keys)
    for ending in ENDINGS:
        found = predict(tmp_path / "c.ckpt", tmp_path / f"f{ending}", "overwrite=true")
        assert found["shop"].tolist() == [s for s in range(3) for _ in range(5)]
    assert found.merge(table, on="shop").shape[0] == 5 * (30 + 40 + 50)


def test_gaps_are_filled_as_in_training(tmp_path):
    table = long_table()
    table = table[~((table["shop"] == "s4") & (table["day"] == "2024-03-20"))]
    table.to_csv(tmp_path / "p.csv", index=False)
    keys = [f"data.path={tmp_path}/p.csv", "data.id_column=shop", "data.time_column=day", "data.target=sold"]
    write_untrained(tmp_path / "c.ckpt", *WINDOW, *keys, "data.gaps=forward_fill")
    found = predict(tmp_path / "c.ckpt", tmp_path / "f.csv")
    rows = table["shop"] == "s4"
    filled = table[rows].set_index("day")[["sold", "price"]].resample("D").ffill().reset_index()
    pd.concat([table[~rows], filled.assign(shop="s4")]).to_csv(tmp_path / "whole.csv", index=False)
    other = predict(tmp_path / "c.ckpt", tmp_path / "g.csv", f"data.path={tmp_path}/whole.csv")
    one, two = (part[part["shop"] == "s4"][["sold", "price"]].to_numpy() for part in (found, other))
    np.testing.assert_allclose(one, two, rtol=1e-5)


def test_json_has_the_rows_of_a_few_series_and_the_counts_of_many(folder, tmp_path, capsys, monkeypatch):
    def answer(*changes):
        capsys.readouterr()
        predict(folder / "c.ckpt", tmp_path / "f.csv", "--json", *changes)
        return json.loads(capsys.readouterr().out)

    few = answer()
    assert {key: few[key] for key in ("series", "left_out", "unseen", "row_count", "shard")} == {
        "series": 12, "left_out": 1, "unseen": 0, "row_count": 60, "shard": "1/1",
    }  # fmt: skip
    written = pd.read_csv(tmp_path / "f.csv")
    assert [row["sold"] for row in few["rows"]] == written["sold"].tolist()
    assert few["rows"][0] == {"shop": "s0", "day": "2024-03-01", **written.iloc[0, 2:].to_dict()}
    monkeypatch.setattr(predict_command, "FEW_ROWS", 59)
    assert answer()["rows"] is None


def test_from_python_a_long_table_goes_in_and_a_long_table_comes_out(folder, tmp_path):
    forecaster = Forecaster.load(folder / "c.ckpt", device="cpu")
    written = predict(folder / "c.ckpt", tmp_path / "f.csv")
    for table in (None, long_table(), folder / "p.parquet"):
        pd.testing.assert_frame_equal(forecaster.predict(table), written, check_dtype=False)


def test_merge_answers_in_json_what_it_has_joined(folder, tmp_path, capsys, small):
    parts = [tmp_path / f"{i}.csv" for i in (1, 2)]
    for i, part in enumerate(parts, start=1):
        predict(folder / "c.ckpt", part, f"shard={i}/2")
    capsys.readouterr()
    call("merge", *parts[::-1], "--output", tmp_path / "f.csv", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "output": f"{tmp_path}/f.csv", "parts": [str(part) for part in parts],
        "series": 12, "left_out": 1, "unseen": 0, "row_count": 60,
    }  # fmt: skip


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1-3", "1/2/3"])
def test_a_shard_that_is_none_is_refused(folder, tmp_path, capsys, shard):
    text = refused(capsys, folder / "c.ckpt", tmp_path / "f.csv", f"shard='{shard}'")
    assert f"shard={shard}: it must say which part of how many, the first being 1. Say one of shard=1/3 to" in text


def test_what_is_there_is_replaced_by_a_forecast_of_its_kind_alone(folder, tmp_path, capsys, small):
    output = tmp_path / "f.csv"
    predict(folder / "c.ckpt", output, "shard=1/2")
    text = refused(capsys, folder / "c.ckpt", output, "shard=2/2")
    assert "f.csv is there and is not part 2 of 2 of a forecast. Nothing is overwritten: choose another name" in text
    predict(folder / "c.ckpt", output, "shard=1/2")
    assert "is not a whole forecast" in refused(capsys, folder / "c.ckpt", output)
    predict(folder / "c.ckpt", output, "overwrite=true")
    predict(folder / "c.ckpt", output)
    (tmp_path / "mine.csv").write_text("shop,day,sold,price\ns1,2024-01-01,1,2\n")
    assert "is not a whole forecast" in refused(capsys, folder / "c.ckpt", tmp_path / "mine.csv")
    changes = [f"data.path={folder}/p.csv", "overwrite=true"]
    assert "data.path is read from there." in refused(capsys, folder / "c.ckpt", folder / "p.csv", *changes)


def test_other_endings_are_refused(folder, tmp_path, capsys):
    assert "must end in .csv or .parquet" in refused(capsys, folder / "c.ckpt", tmp_path / "f.txt")


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_series_has_the_keys_of_many(tmp_path, best, ending):
    """A part of one series is all of it, or nothing; no series of a file without ids is unseen."""

    def written(name, *changes):
        call("predict", f"ckpt_path={best}", f"output={tmp_path}/{name}{ending}", "device=cpu", *changes)
        return (tmp_path / f"{name}{ending}").read_bytes()

    whole = written("whole", "unseen=refuse")
    parts = [written(str(i), f"shard={i}/3") for i in (1, 2, 3)]
    assert len(set(parts)) == 2 and parts[2] == whole
    call("merge", *(tmp_path / f"{i}{ending}" for i in (1, 2, 3)), "--output", tmp_path / f"joined{ending}")
    assert (tmp_path / f"joined{ending}").read_bytes() == whole


def test_merge_refuses_what_is_no_forecast_in_parts(folder, tmp_path, capsys, small):
    parts = [tmp_path / f"{i}.csv" for i in (1, 2)]
    for i, part in enumerate(parts, start=1):
        predict(folder / "c.ckpt", part, f"shard={i}/2")
    predict(folder / "padded.ckpt", tmp_path / "other.csv", "shard=2/2")
    (tmp_path / "mine.csv").write_text("a\n1\n")
    one, two = parts
    for arguments, message in {
        (one, "--output", tmp_path / "f.csv"): "These are the parts 1/2. Name each of 1/2 to 2/2 once",
        (one, one, two, "--output", tmp_path / "f.csv"): "These are the parts 1/2, 1/2, 2/2.",
        (one, tmp_path / "other.csv", "--output", tmp_path / "f.csv"): "for its checkpoint",
        (one, folder / "p.csv", "--output", tmp_path / "f.csv"): "p.csv is no part of a forecast: ",
        (one, two, "--output", tmp_path / "f.parquet"): "the parts are .csv files, and merging does not change them.",
        (one, two, "--output", tmp_path / "f.txt"): "--output .*f.txt: a forecast is a CSV",
        (one, two, "--output", one): "1.csv is there and is not a whole forecast.",
        (one, two, "--output", tmp_path / "mine.csv"): "mine.csv is there and is not a whole forecast.",
        (one, two, "--output", tmp_path / "none" / "f.csv"): "there is no folder",
    }.items():
        text = refusal(capsys, "merge", *arguments)
        assert pd.Series([text]).str.contains(message, regex=message.startswith("--output .*")).all(), text
    assert not (tmp_path / "f.csv").exists()
