"""Roles of columns: categories, facts of series and holidays, as every reader gives them; and bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from config.composed import run_config

from forecast.apps.common.training_data import read_data
from forecast.data.read import read_panel, source_rows
from forecast.data.roles import with_categories
from forecast.data.sources import CsvSource
from forecast.data.split import LastSplit, ShareSplit
from forecast.errors import UserError

CONFIG = run_config("seq_len=11", "label_len=5", "pred_len=3", "model=dlinear")
SHARES = ShareSplit(train=0.7, test=0.2)
WORDS = ["sun", "rain", "fog"]


def series(rows=90, *, seed=5):
    draws = np.random.default_rng(seed)
    weather = np.array(WORDS)[draws.integers(0, 3, rows)]
    weather[-2] = "hail"  # in no train row
    return pd.DataFrame(
        {
            "date": pd.date_range("2024-12-20", periods=rows, freq="D"),
            "load": draws.normal(9, 2, rows).round(3),
            "weather": weather,
            "shift": draws.integers(1, 4, rows),
            "note": "text",
        }
    )


def panel(shops=("a", "b", "c"), rows=40, *, seed=6):
    draws = np.random.default_rng(seed)
    return pd.concat(
        pd.DataFrame(
            {
                "shop": shop,
                "date": pd.date_range("2024-01-01", periods=rows),
                "sold": draws.normal(10 * s, 1, rows).round(3),
                "promo": np.array(["no", "yes"])[draws.integers(0, 2, rows)],
                "size": 100 + s,
                "region": "north" if s % 2 else "south",
                "number": s + 1,
            }
        )
        for s, shop in enumerate(shops)
    )


def written(table, folder, kind):
    path = folder / f"t.{kind}"
    if kind == "parquet":
        table.to_parquet(path, index=False)
    elif kind == "xlsx":
        pytest.importorskip("openpyxl", reason='needs openpyxl: pip install -e ".[xlsx]"')
        table.to_excel(path, index=False)
    else:
        table.to_csv(path, index=False, sep=";" if kind == "slow.csv" else ",", quoting=2 if kind == "slow.csv" else 0)
    return path


def source(path, **keys):
    separator = ";" if str(path).endswith("slow.csv") else ","
    slow = {"missing": ["-"]} if str(path).endswith("slow.csv") else {}  # which pandas does not read as we do
    return CsvSource(path=str(path), split=SHARES, separator=separator, **{"target": "load", **slow, **keys})


@pytest.mark.parametrize("kind", ["csv", "slow.csv", "parquet", "xlsx"])
def test_every_reader_gives_the_same_categories_of_one_series(tmp_path, kind, caplog):
    table = series()
    keys = {"known": ["weather"], "past": ["shift"], "categorical": ["shift"]}
    data = read_data(source(written(table, tmp_path, kind), **keys), CONFIG)
    assert data.frame.columns == ("load", "weather", "shift")
    assert data.frame.categories == {"weather": ("fog", "rain", "sun"), "shift": ("1", "2", "3")}
    assert (data.covariates, data.hidden, data.covariate_sizes) == (("weather", "shift"), ("shift",), (4, 4))
    codes = [("fog", "rain", "sun").index(word) + 1 if word != "hail" else 0 for word in table["weather"]]
    np.testing.assert_array_equal(data.frame.values[:, 1], codes)
    np.testing.assert_array_equal(data.kept[:, -2:].numpy(), np.stack([codes, table["shift"]], axis=1))  # unscaled
    assert "column 'weather' has in 1 rows categories that the training did not have, hail" in caplog.text


def test_observed_categories_are_hidden_at_the_steps_to_come(tmp_path):
    keys = {"known": ["weather"], "past": ["shift"], "categorical": ["shift"]}
    data = read_data(source(written(series(), tmp_path, "csv"), **keys), CONFIG)
    windows = data.windows("train")
    for batch in (windows[4], windows.in_batches([4], 1)[0]):
        assert (batch.past_known[..., -1] > 0).all() and (batch.future_known[..., -1] == 0).all()
        assert (batch.future_known[..., -2] > 0).all()
    assert (data.kept[:, -1] > 0).all()  # a copy was changed


def test_observed_categories_of_a_panel_are_hidden_at_the_steps_to_come(tmp_path):
    keys = {"target": "sold", "past": ["promo"], "categorical": ["promo"], "id_column": "shop"}
    data = read_data(source(written(panel(), tmp_path, "csv"), **keys), CONFIG)
    assert data.hidden == ("promo",)
    windows = data.windows("train")
    batch = windows.__getitems__(range(len(windows)))
    assert (batch.past_known[..., -1] > 0).all() and (batch.future_known[..., -1] == 0).all()


def test_gaps_in_categories_are_unknown_ones(tmp_path):
    table = series()
    table.loc[[20, 21], "weather"] = None
    read = source(written(table.drop(index=30), tmp_path, "csv"), known=["weather"], gaps="interpolate")
    data = read_data(read, CONFIG)
    assert np.flatnonzero(data.frame.values[:, -1] == 0).tolist() == [20, 21, 30, 88]
    assert set(np.unique(data.kept[:, -1])) == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", ["csv", "slow.csv", "parquet"])
def test_every_reader_gives_the_same_panel_with_categories_and_facts(tmp_path, kind):
    keys = {"target": "sold", "known": ["promo"], "static": ["size", "region", "number"], "categorical": ["number"]}
    read = source(written(panel(), tmp_path, kind), **keys, id_column="shop")
    data = read_data(read, CONFIG)
    frame, facts = data.frame, data.frame.facts
    assert frame.columns == ("sold", "promo") and frame.categories == {"promo": ("no", "yes")}
    assert facts.categories == {"region": ("north", "south"), "number": ("1", "2", "3")}
    np.testing.assert_array_equal(facts.values, [[100, 2, 1], [101, 1, 2], [102, 2, 3]])
    assert data.covariate_sizes == (3, 0, 3, 4)
    windows = data.windows("train")
    batch = windows.__getitems__(torch.arange(len(windows)))
    scaled = (np.array([100, 101, 102]) - 101) / np.std([100, 101, 102])
    expected = np.stack([scaled, [2, 1, 2], [1, 2, 3]], axis=1)[batch.series]
    for part in (batch.past_known, batch.future_known):
        np.testing.assert_allclose(part[..., -3:], np.repeat(expected[:, None], part.shape[1], axis=1), rtol=1e-6)
        assert set(np.unique(part[..., -4])) == {1, 2}
    assert data.n_known == batch.past_known.shape[2]
    assert windows._facts.shape == (3, 3)  # once a series, whatever its rows


def test_ids_are_facts(tmp_path):
    table = panel(("7", "8", "9")).rename(columns={"shop": "store"}).assign(brand="x")
    keys = {"target": "sold", "id_column": ["store", "brand"], "known": ["promo"], "static": ["brand", "store", "size"]}
    facts = read_data(source(written(table, tmp_path, "csv"), **keys), CONFIG).frame.facts
    assert facts.categories == {"brand": ("x",)}
    np.testing.assert_array_equal(facts.values, [[1, 7, 100], [1, 8, 101], [1, 9, 102]])


def test_facts_come_back_from_a_cache(tmp_path):
    keys = {"target": "sold", "known": ["promo"], "static": ["region", "size"], "id_column": "shop"}
    read = source(written(panel(), tmp_path, "csv"), **keys, cache=str(tmp_path / "cache"))
    first, again, plain = read_panel(read), read_panel(read), read_panel(replace(read, cache=None))
    for frame in (first, again):
        np.testing.assert_array_equal(frame.facts.values, plain.facts.values)
        assert frame.facts.names == plain.facts.names and dict(frame.categories).keys() == {"promo"}
        assert {name: tuple(words) for name, words in frame.facts.categories.items()} == plain.facts.categories


def test_a_category_of_another_file_has_the_number_of_the_training(tmp_path, caplog):
    read = source(written(series(), tmp_path, "csv"), known=["weather"])
    frame = with_categories(source_rows(read), {"weather": ["rain", "sun"]})
    table = series()
    expected = [{"rain": 1, "sun": 2}.get(word, 0) for word in table["weather"]]
    np.testing.assert_array_equal(frame.values[:, frame.columns.index("weather")], expected)
    assert f"{(np.array(expected) == 0).sum()} rows categories that the training did not have, fog, hail" in caplog.text


def test_text_without_a_role_is_left_out(tmp_path):
    assert source_rows(source(written(series(), tmp_path, "csv"))).columns == ("load", "shift")
    assert source_rows(source(written(series(), tmp_path, "csv"), known=["shift"])).columns == ("load", "shift")


def test_holidays_are_known_in_advance(tmp_path):
    pytest.importorskip("holidays", reason='needs holidays: pip install -e ".[holidays]"')
    data = read_data(source(written(series(), tmp_path, "csv"), holidays="DE"), CONFIG)
    days = data.frame.timestamps(0)[data.frame.values[:, -1] == 1]
    assert data.covariates == ("holiday",)
    assert [str(day.date()) for day in days] == ["2024-12-25", "2024-12-26", "2025-01-01"]
    many = source(written(panel(), tmp_path, "csv"), target="sold", id_column="shop", holidays="DE")
    frame = read_data(many, CONFIG).frame
    assert frame.values[:, frame.columns.index("holiday")].reshape(3, 40).tolist() == [[1] + [0] * 39] * 3


ONE = {
    "a category as target": (
        {"target": "shift", "categorical": ["shift"]},
        "named in data.target and again in data.categorical",
    ),
    "no category": ({"categorical": ["shaft"]}, r"no column 'shaft' \(data.categorical\)"),
    "a country": ({"holidays": "DEU1"}, r"data.holidays=DEU1: Country DEU1 .*data.holidays=DE"),
}


@pytest.mark.parametrize("case", ONE)
def test_roles_of_one_series_that_cannot_be_are_refused(tmp_path, case):
    keys, match = ONE[case]
    if case == "a country":
        pytest.importorskip("holidays", reason='needs holidays: pip install -e ".[holidays]"')
    with pytest.raises(UserError, match=match):
        read_data(source(written(series(), tmp_path, "csv"), **keys), CONFIG)


def test_a_file_has_no_column_of_holidays_beside_those_of_a_country(tmp_path):
    table = series().rename(columns={"shift": "holiday"})
    with pytest.raises(UserError, match=r"column 'holiday' already.*data.drop=\[holiday\]"):
        read_data(source(written(table, tmp_path, "csv"), holidays="DE"), CONFIG)


FACTS = {
    "a change": (
        lambda t: t.assign(size=t["size"].where(np.arange(len(t)) != 50, 9)),
        {"static": ["size"]},
        r"t.csv: line 52: the fact 'size' .* of the series 'b' is not what it was before",
    ),
    "no value": (
        lambda t: t.assign(size=t["size"].where(t["shop"] != "b")),
        {"static": ["size"]},
        r"t.csv: the series 'b' has no value of the fact 'size'",
    ),
    "no column": (lambda t: t, {"static": ["sizes"]}, r"no column 'sizes' \(data.static\).* 'size'"),
}


@pytest.mark.parametrize("case", FACTS)
def test_facts_that_cannot_be_are_refused(tmp_path, case):
    change, keys, match = FACTS[case]
    path = written(change(panel()), tmp_path, "csv")
    with pytest.raises(UserError, match=match):
        read_data(source(path, target="sold", id_column="shop", **keys), CONFIG)


def test_the_end_of_each_series_is_cut_with_facts_too(tmp_path):
    read = source(written(panel(), tmp_path, "csv"), target="sold", id_column="shop", static=["size"])
    data = read_data(replace(read, split=LastSplit(val=1, test=1, horizon=3)), CONFIG)
    assert len(data.windows("test")) == 3
