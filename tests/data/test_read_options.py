"""The keys that say how a file of one series is read count for a panel too; a plain file is read as any other."""

import numpy as np
import pandas as pd
import pytest
from data.panel_files import held, long_table, planted, read, refusal, truth


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_where_drop_columns_and_missing_choose_as_for_one_series(tmp_path, kind, caplog):
    caplog.set_level("INFO")
    panel, stamps = planted()
    table = long_table(panel, stamps)
    other = table.assign(region="south", y=0.0)
    table = pd.concat([table.assign(region="north"), other]).assign(z=-200.0, note="x")
    table.loc[table["y"] == panel[0].values[0], "z"] = 1.0
    path = tmp_path / f"my.{kind}"
    getattr(table.reset_index(drop=True), f"to_{kind}")(path, **({"index": False} if kind == "csv" else {}))
    keys = {"id_column": "unique_id", "where": {"region": "north"}}
    assert held(read(path, drop=["z"], **keys)) == truth(panel)
    assert "Left out, as they hold no numbers of the series: note (text)" in caplog.text
    assert held(read(path, columns=["y"], **keys)) == truth(panel)
    frame = read(path, columns=["z", "y"], **keys)
    assert (frame.columns, set(frame.values[:, 0].tolist())) == (("z", "y"), {-200.0, 1.0})
    assert read(path, id_column=["region", "unique_id"], columns=["y"]).ids[-1] == "south/s6"


@pytest.mark.parametrize(("how", "expected"), [("first", 1.0), ("last", 5.0), ("mean", 3.0), ("sum", 6.0)])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_repeated_rows_are_made_one_within_their_series(tmp_path, kind, how, expected):
    times = pd.date_range("2021-03-01", periods=5, freq="h")
    table = pd.DataFrame({"unique_id": ["a"] * 5 + ["b"] * 5, "ds": [*times, *times], "y": np.arange(10.0)})
    again = pd.DataFrame({"unique_id": "a", "ds": [times[1]], "y": [5.0]})
    path = tmp_path / f"my.{kind}"
    getattr(pd.concat([table, again], ignore_index=True), f"to_{kind}")(path, index=False)
    frame = read(path, id_column="unique_id", duplicates=how)
    assert held(frame) == {"a": (0, [0, expected, 2, 3, 4]), "b": (0, [5, 6, 7, 8, 9])}


def test_rows_without_a_time_column_are_counted_in_each_series(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("unique_id,y\na,1\nb,5\na,2\nb,6\na,3\n")
    frame = read(path, id_column="unique_id", time_column=None, freq="steps")
    assert held(frame) == {"a": (0, [1, 2, 3]), "b": (0, [5, 6])}
    assert (frame.freq, frame.time_column) == ("ms", "step")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("aggregate", ["mean", "sum", "last"])
def test_rows_are_brought_to_a_frequency_series_by_series_as_pandas_does_it(tmp_path, kind, aggregate):
    rng, parts = np.random.default_rng(3), []
    for name, first in (("b", "2021-03-01 05:10"), ("a", "2021-03-02 11:00"), ("c", "2021-03-01")):
        times = pd.Timestamp(first) + pd.to_timedelta(np.cumsum(rng.integers(0, 90, size=300)), unit="min")
        parts.append(
            pd.DataFrame({"unique_id": name, "ds": times, "x": rng.normal(size=300), "y": rng.normal(size=300)})
        )
    table = pd.concat(parts).sample(frac=1, random_state=1)
    table.iloc[::9, 2] = np.nan
    path = tmp_path / f"my.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    frame = read(path, resample="6h", aggregate=aggregate, gaps="zero", sort=True)
    assert frame.ids.tolist() == list(dict.fromkeys(table["unique_id"])) and frame.freq == "6h"
    for number, name in enumerate(frame.ids):
        mine = table[table["unique_id"] == name].sort_values("ds", kind="stable").set_index("ds")[["x", "y"]]
        steps = mine.resample("6h")
        expected = steps.sum(min_count=1) if aggregate == "sum" else getattr(steps, aggregate)()
        rows = slice(*frame.offsets[number : number + 2])
        assert frame.timestamps(number).tolist() == expected.index.tolist()
        np.testing.assert_allclose(frame.values[rows], expected.fillna(0.0), rtol=1e-12, atol=1e-12)


def test_steps_are_not_resampled(tmp_path):
    rows = [f"{name},{step},{step % 5}" for name in "ab" for step in range(9)]
    (tmp_path / "my.csv").write_text("\n".join(["unique_id,ds,y", *rows]))
    text = refusal(tmp_path / "my.csv", resample="D", aggregate="mean", id_column="unique_id", time_column="ds")
    assert "data.resample=D is for dates, and the rows count steps. Leave it out." in text
