"""A planted panel is read back whole from every form that people have it in."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.panel_files import Series, held, long_table, planted, read, truth, wide_table

from forecast.data.panel import Repair

SHARED = Path(__file__).parents[3] / "shared/data/panels"
needs_panels = pytest.mark.skipif(not SHARED.is_dir(), reason="the panels with published figures are not here")


FORMS = ["long csv", "long parquet", "long feather", "wide csv", "wide parquet"]


def write(folder, form, panel, stamps, shuffle=None):
    """The file of a panel in one of the forms, and the keys that read it."""
    shape, kind = form.split()
    path = folder / f"my.{kind}"
    if shape == "long":
        table, keys = long_table(panel, stamps, shuffle=shuffle), {"id_column": "unique_id"}
    else:
        table, keys = wide_table(panel, stamps), {"panel": "columns"}
    table = table.reset_index(drop=True)
    if kind == "csv":
        table.to_csv(path, index=False)
    else:
        getattr(table, f"to_{kind}")(path)
    return path, keys


@pytest.mark.parametrize("form", FORMS)
def test_series_that_begin_and_end_at_different_times_are_read_from_every_form(tmp_path, form):
    panel, stamps = planted()
    path, keys = write(tmp_path, form, panel, stamps)
    frame = read(path, **keys)
    assert held(frame) == truth(panel)
    assert (frame.freq, frame.first, frame.measured) == ("h", stamps[min(s.begin for s in panel)], None)
    assert frame.columns == (("y",) if form.startswith("long") else ("value",))
    assert (frame.id_column, frame.time_column, frame.name) == ("unique_id", "ds", str(path))
    assert frame.checksum == hashlib.md5(path.read_bytes()).hexdigest()
    for number, series in enumerate(panel):
        expected = stamps[series.begin : series.begin + len(series.values)]
        assert frame.timestamps(number).tolist() == expected.tolist()


@pytest.mark.parametrize("form", ["long csv", "long parquet"])
def test_rows_in_any_order_are_the_same_panel(tmp_path, form):
    panel, stamps = planted()
    path, keys = write(tmp_path, form, panel, stamps, shuffle=5)
    assert held(read(path, sort=True, **keys)) == truth(panel)


def test_ids_stand_in_the_order_of_their_first_row(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text("ds,item_id,target\n" + "".join(f"2021-03-0{d},{i},{d}\n" for d in range(1, 5) for i in "zab"))
    frame = read(path, panel="long")
    assert frame.ids.tolist() == ["z", "a", "b"]
    assert (frame.id_column, frame.columns) == ("item_id", ("target",))


@pytest.mark.parametrize("freq", ["15min", "D", "B", "W-SUN", "W-WED", "MS", "ME", "QS-OCT", "YS-JAN", "2h", "2W-TUE"])
@pytest.mark.parametrize("form", ["long csv", "long parquet", "wide csv"])
def test_calendar_frequencies_are_found_inside_the_series(tmp_path, form, freq):
    panel, stamps = planted(freq)
    path, keys = write(tmp_path, form, panel, stamps)
    frame = read(path, **keys)
    assert held(frame) == truth(panel)
    assert frame.calendar().tolist() == stamps[min(s.begin for s in panel) :][: len(frame.calendar())].tolist()
    assert held(read(path, trained_on=frame.freq, **keys)) == held(frame)


GAPPY = [
    Series("a", 0, [1.0, 2.0, np.nan, np.nan, 8.0, 9.0, 10.0]),
    Series("b", 2, [5.0, 6.0, 7.0, 8.0, 9.0]),
    Series("c", 1, [3.0, np.nan, 5.0, 1.0, np.nan, 7.0]),
]
FILLED = {
    "interpolate": {"a": [1, 2, 4, 6, 8, 9, 10], "b": [5, 6, 7, 8, 9], "c": [3, 4, 5, 1, 4, 7]},
    "forward_fill": {"a": [1, 2, 2, 2, 8, 9, 10], "b": [5, 6, 7, 8, 9], "c": [3, 3, 5, 1, 1, 7]},
}
FILLED["mask"] = FILLED["forward_fill"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", FILLED)
def test_gaps_are_filled_series_by_series_and_every_cell_made_up_is_marked(tmp_path, form, policy):
    path, keys = write(tmp_path, form, GAPPY, pd.date_range("2021-03-01", periods=9, freq="D"))
    frame = read(path, gaps=policy, **keys)
    assert {name: values for name, (_, values) in held(frame).items()} == FILLED[policy]
    made_up = np.concatenate([np.isnan(series.values) for series in GAPPY])
    assert (~frame.measured[:, 0]).tolist() == made_up.tolist()
    assert frame.repair == Repair(policy, rows_added=4, cells_filled=0, longest_run=2)


def test_interpolation_counts_time_and_not_rows(tmp_path):
    """From January to March are 31 and 28 days."""
    path = tmp_path / "my.csv"
    whole = "".join(f"b,2021-{month:02}-01,0\n" for month in range(1, 9))
    path.write_text(f"unique_id,ds,y\na,2021-01-01,0\na,2021-03-01,59\na,2021-04-01,60\n{whole}")
    assert read(path, id_column="unique_id", gaps="interpolate").rows(0)[:, 0] == pytest.approx([0, 31, 59, 60])


def test_blank_ends_are_cut_off_and_blank_cells_are_gaps(tmp_path):
    path = tmp_path / "my.csv"
    cells = ["", "1", "", "3", "4", ""]
    lines = [f"a,2021-03-0{day},{cell}" for day, cell in enumerate(cells, start=1)]
    lines += [f"b,2021-03-0{day},{day}" for day in range(1, 7)]
    path.write_text("\n".join(["unique_id,ds,y", *lines]) + "\n")
    frame = read(path, id_column="unique_id", gaps="forward_fill")
    assert held(frame) == {"a": (1, [1, 1, 3, 4]), "b": (0, [1, 2, 3, 4, 5, 6])}
    assert frame.repair == Repair("forward_fill", rows_added=0, cells_filled=1, longest_run=1)


def test_a_row_of_what_is_known_in_advance_alone_is_no_zero_that_was_measured(tmp_path):
    cells = [",0", "1,0", ",1", "3,0", ",1", ",0"]
    lines = [f"2021-03-0{day},{cell}" for day, cell in enumerate(cells, start=1)]
    (tmp_path / "my.csv").write_text("\n".join(["date,y,promo", *lines]) + "\n")
    frame = read(tmp_path / "my.csv", panel=None, gaps="zero", known=["promo"], target="y")
    assert frame.values.tolist() == [[0, 0], [1, 0], [0, 1], [3, 0]]


def test_series_without_a_value_or_with_most_missing_are_left_out_and_named(tmp_path, caplog):
    path = tmp_path / "my.csv"
    days = pd.date_range("2021-03-01", periods=11, freq="D")
    lines = [f"full,{day},{n}" for n, day in enumerate(days)] + [f"none,{day}," for day in days]
    lines += [f"sparse,{days[n]},{n}" for n in (0, 1, 10)]
    path.write_text("\n".join(["unique_id,ds,y", *lines]) + "\n")
    frame = read(path, id_column="unique_id", gaps="mask")
    assert frame.ids.tolist() == ["full"]
    assert list(frame.left_out.values()) == [["none"], ["sparse"]]
    assert "1 series left out, most of its rows missing: sparse" in caplog.text


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_several_id_columns_are_joined(tmp_path, kind):
    panel, stamps = planted()
    table = long_table(panel, stamps)
    table.insert(0, "store", table["unique_id"].str[1:].astype(int) // 3)
    table["brand"] = "b" + table.pop("unique_id").str[1:]
    path = tmp_path / f"my.{kind}"
    getattr(table, f"to_{kind}")(path, index=False)
    frame = read(path, id_column=["store", "brand"])
    expected = {f"{int(name[1:]) // 3}/b{name[1:]}": value for name, value in truth(panel).items()}
    assert held(frame) == expected
    assert (frame.id_column, frame.columns) == ("store/brand", ("y",))


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("form", ["long", "columns"])
def test_whole_numbers_are_steps_and_missing_ones_gaps(tmp_path, kind, form):
    table = pd.DataFrame({"week": [40, 41, 43, 44, 45], "a": [1.0, 2, 4, 5, 6]})
    whole = pd.DataFrame({"week": range(38, 46), "b": np.arange(8.0)})
    if form == "long":
        table = pd.concat([t.melt("week", var_name="unique_id", value_name="y") for t in (table, whole)])
        keys = {"id_column": "unique_id"}
    else:
        table, keys = whole.merge(table, how="left"), {"panel": "columns"}
    path = tmp_path / f"my.{kind}"
    table = table.reset_index(drop=True)
    table.to_csv(path, index=False) if kind == "csv" else getattr(table, f"to_{kind}")(path)
    frame = read(path, time_column="week", gaps="interpolate", **keys)
    assert (frame.freq, frame.first, frame.time_column) == ("ms", pd.Timestamp(0), "week")
    assert frame.without_calendar
    assert held(frame) == {"a": (2, [1, 2, 3, 4, 5, 6]), "b": (0, list(range(8)))} or form == "columns"
    assert dict(sorted(held(frame).items())) == {"a": (2, [1, 2, 3, 4, 5, 6]), "b": (0, list(range(8)))}
    assert held(read(path, time_column="week", gaps="mask", trained_on="ms", **keys))["a"][1] == [1, 2, 2, 4, 5, 6]


def test_whole_numbers_that_are_dates_are_read_as_such(tmp_path):
    for name, times in {"year": range(1990, 1999), "ds": [20210300 + day for day in range(1, 10)]}.items():
        for kind in ("csv", "parquet"):
            path = tmp_path / f"{name}.{kind}"
            table = pd.DataFrame({"unique_id": "a", name: list(times), "y": np.arange(9.0)})
            table = pd.concat([table, table.assign(unique_id="b")])
            getattr(table, f"to_{kind}")(path, index=False)
            frame = read(path, id_column="unique_id", time_column=name)
            expected = {"year": "1990-01-01", "ds": "2021-03-01"}[name]
            assert (frame.first, len(frame)) == (pd.Timestamp(expected), 2)


def test_a_stored_index_is_no_column_of_values(tmp_path):
    panel, stamps = planted()
    table = long_table(panel, stamps).iloc[::-1]  # an index that pandas stores
    table.to_parquet(tmp_path / "index.parquet")
    assert read(tmp_path / "index.parquet", id_column="unique_id").columns == ("y",)
    table.set_index(pd.Index(range(7, 7 + len(table)), name="number")).to_parquet(tmp_path / "named.parquet")
    assert read(tmp_path / "named.parquet", id_column="unique_id").columns == ("y",)
    texts = table.set_index(pd.Index([f"{n}" for n in range(len(table))]))  # what R writes
    texts.rename(columns={"ds": "when"}).to_parquet(tmp_path / "texts.parquet")
    assert read(tmp_path / "texts.parquet", id_column="unique_id", time_column="when").columns == ("y",)
    table.set_index(["unique_id", "ds"]).to_parquet(tmp_path / "both.parquet")
    assert held(read(tmp_path / "both.parquet", id_column="unique_id")) == held(
        read(tmp_path / "index.parquet", id_column="unique_id")
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_series_of_several_files_are_one_panel(tmp_path, kind):
    panel, stamps = planted()
    table = long_table(panel, stamps)
    for number in range(3):
        part = table[table["unique_id"].str[1:].astype(int) % 3 == number]
        getattr(part, f"to_{kind}")(tmp_path / f"part{number}.{kind}", index=False)
    frame = read(tmp_path / f"*.{kind}", id_column="unique_id")
    assert dict(sorted(held(frame).items())) == truth(panel)
    assert frame.ids.tolist()[:3] == ["s0", "s3", "s6"]
    one = read(tmp_path / f"part0.{kind}", id_column="unique_id")
    assert len({frame.checksum, one.checksum}) == 2


def test_a_file_a_month_holds_some_rows_of_every_series(tmp_path):
    panel, stamps = planted()
    table = long_table(panel, stamps)
    for number in range(3):
        table[table["ds"].dt.hour % 3 == number].to_csv(tmp_path / f"month{number}.csv", index=False)
    assert dict(sorted(held(read(tmp_path / "month*.csv", id_column="unique_id")).items())) == truth(panel)


@needs_panels
def test_the_nn5_file_holds_111_daily_series_with_gaps():
    frame = read(
        SHARED / "nn5_daily.csv",
        panel="columns",
        time_column="Day",
        separator="\t",
        gaps="mask",
    )
    assert (len(frame), frame.freq) == (111, "D")
    table = pd.read_csv(SHARED / "nn5_daily.csv", sep="\t").iloc[:, 1:]
    assert int(table.isna().sum().sum()) == 1677
    assert int(frame.measured.sum()) == table.size - 1677
    for number in (0, 57, 110):
        known = table[str(frame.ids[number])].dropna().to_numpy(np.float64)
        assert (
            frame.rows(number)[frame.measured[frame.offsets[number] : frame.offsets[number + 1], 0], 0].tolist()
            == known.tolist()
        )


@needs_panels
def test_the_orange_juice_file_holds_913_weekly_series_with_holes():
    table = pd.read_parquet(SHARED / "orange_juice.parquet")
    keys = {"id_column": ["store", "brand"], "columns": ["y", "price", "deal", "feat"], "gaps": "mask"}
    frame = read(SHARED / "orange_juice.parquet", time_column="t", **keys)
    assert (len(frame), frame.freq) == (913, "ms")
    assert int(frame.measured.all(axis=1).sum()) == len(table)
    assert [frame.lengths.min() <= 121, frame.lengths.max()] == [True, 121]
    numbers, rows = frame.id_numbers, table.groupby(["store", "brand"])["y"]
    for (store, brand), values in rows:
        series = numbers[f"{store}/{brand}"]
        measured = frame.measured[frame.offsets[series] : frame.offsets[series + 1], 0]
        assert frame.rows(series)[measured, 0].tolist() == values.to_numpy(np.float64).tolist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_of_several_columns_lie_one_behind_the_other(tmp_path, kind):
    """Windows are views of whole rows of one memory; files are read column by column."""
    panel, stamps = planted()
    table = long_table(panel, stamps).reset_index(drop=True).assign(z=1.0)
    path = tmp_path / f"my.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    frame = read(path, id_column="unique_id")
    assert frame.columns == ("y", "z") and frame.values.flags.c_contiguous
