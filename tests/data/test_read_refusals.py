"""What is no panel is refused in one sentence that names the place and a fix; the fix works."""

import re

import numpy as np
import pandas as pd
import pytest
from data.panel_files import read, refusal

LONG = {"id_column": "unique_id"}


@pytest.fixture(params=["csv", "parquet"])
def written(request, tmp_path):

    def write(table, name="my"):
        path = tmp_path / f"{name}.{request.param}"
        getattr(table.reset_index(drop=True), f"to_{request.param}")(
            path, **({"index": False} if request.param == "csv" else {})
        )
        return path

    return write


def hourly(name, hours, freq="h", start="2021-03-01"):
    times = pd.date_range(start, periods=max(hours) + 1, freq=freq)[list(hours)]
    return pd.DataFrame({"unique_id": name, "ds": times, "y": np.arange(float(len(times)))})


def stacked(*tables):
    return pd.concat(tables, ignore_index=True)


def test_an_id_column_that_is_not_there(written):
    path = written(hourly("a", range(5)))
    assert re.search(
        r"no column 'unique_ID' \(data.id_column\) among unique_id, ds, y. Did you mean 'unique_id'\? Name those",
        refusal(path, id_column="unique_ID"),
    )
    assert "no column 'brand'" in refusal(path, id_column=["unique_id", "brand"])
    other = written(hourly("a", range(5)).rename(columns={"unique_id": "shop"}), "other")
    assert re.search(r"no column 'unique_id' \(data.id_column\) among shop, ds, y", refusal(other, panel="long"))
    assert len(read(other, id_column="shop")) == 1


def test_a_time_column_that_is_not_there(written):
    path = written(hourly("a", range(5)).rename(columns={"ds": "when"}))
    assert re.search("no time column 'date' among the 3 columns unique_id, when, y", refusal(path, **LONG))


def test_an_id_that_is_unique_for_every_row(written):
    table = hourly("a", range(5)).assign(row=[f"r{n}" for n in range(5)])
    assert re.search(
        "5 series of at most 1 row are too short .* Is data.id_column the same in all rows",
        refusal(written(table), id_column="row"),
    )


def test_an_id_that_is_missing(written):
    table = hourly("a", range(5))
    table.loc[3, "unique_id"] = None
    assert re.search(r"(line 5|row 4): the id \(data.id_column\) is missing", refusal(written(table), **LONG))


def test_files_of_different_columns(written, tmp_path):
    first, second = written(hourly("a", range(5)), "x1"), written(hourly("b", range(5)).assign(z=1.0), "x2")
    pattern = tmp_path / f"*{first.suffix}"
    assert f"{second} has the columns y, z by dates, where {first} has y by dates" in refusal(pattern, **LONG)
    assert len(read(pattern, columns=["y"], **LONG)) == 2


def test_series_of_different_frequencies(written):
    for other in ("D", "30min", "MS"):
        table = stacked(hourly("slow", range(9), other), hourly("fast", range(60)))
        text = refusal(written(table), **LONG)
        assert re.search(f"the series 'slow' has the frequency '{other}'; other series have 'h'", text)
    weeks = stacked(hourly("a", range(40), "W-SUN"), hourly("b", range(20), "W-MON", "2021-03-02"))
    assert re.search(
        "the series 'b' has the frequency 'W-MON'; other series have 'W-SUN'", refusal(written(weeks), **LONG)
    )


def test_a_series_between_the_steps_of_the_others(written):
    table = stacked(hourly("a", range(30)), hourly("b", range(9), start="2021-03-01 00:30"))
    text = refusal(written(table), **LONG)
    assert re.search("2021-03-01 00:30:00 of the series 'b' is between the steps of 'h'", text)


def test_rows_that_are_not_regular(written):
    times = pd.Timestamp("2021-03-01") + pd.to_timedelta([0, 60, 120, 180, 247, 300, 360], unit="min")
    table = pd.DataFrame({"unique_id": "odd", "ds": times, "y": 1.0})
    text = refusal(written(stacked(hourly("a", range(30)), table)), **LONG)
    assert re.search("line 36: 2021-03-01 04:07:00 of the series 'odd' is between", text)


def test_steps_of_a_training_must_be_those_of_the_file(written):
    path = written(stacked(hourly("a", range(30)), hourly("b", range(9))))
    with pytest.raises(ValueError, match="the series 'a' has the frequency 'h'; the model was trained on 'D'"):
        read(path, trained_on="D", **LONG)
    with pytest.raises(ValueError, match="has dates; the model was trained on 'ms'"):
        read(path, trained_on="ms", **LONG)
    assert read(path, trained_on="h", **LONG).freq == "h"


def test_a_gap_names_the_series_its_place_and_the_fix_works(written):
    table = stacked(hourly("whole", range(9)), hourly("gappy", [0, 1, 4, 5, 6, 7, 8]))
    text = refusal(written(table), **LONG)
    assert re.search(
        "before it 2 rows of 'h' of the series 'gappy' are missing, from 2021-03-01 02:00:00 on; 1 of 2 series",
        text,
    )
    for fix in re.findall(r"data\.gaps=(\w+)", text):
        assert read(written(table), gaps=fix, **LONG).lengths.tolist() == [9, 9]
    cell = stacked(hourly("whole", range(9)), hourly("gappy", range(9)))
    cell.loc[12, "y"] = None
    text = refusal(written(cell), **LONG)
    assert re.search(r"line 15: .* of the series 'gappy' is missing \(no value of y\), from 2021-03-01 03:00:00", text)


def test_a_repeated_time_names_the_series_and_the_fix_works(written):
    table = stacked(hourly("a", range(9)), hourly("b", range(9)), hourly("b", [3]).assign(y=-7.0))
    text = refusal(written(table), **LONG)
    assert re.search(
        r"line 20: 2021-03-01 03:00:00 of the series 'b' stands already \(line 14\), with other values; so do 1 of 19",
        text,
    )
    assert len(read(written(table), duplicates="mean", **LONG)) == 2


def test_numbers_that_single_precision_does_not_hold(written):
    for value, what in ((1e39, "is larger than 3.4e.38"), (float("inf"), "is no number")):
        table = hourly("a", range(5))
        table.loc[2, "y"] = value
        assert re.search(
            f"(line 4|row 3), column 'y': '?{value!r}'? {what}".replace("+", r"\+"), refusal(written(table), **LONG)
        )


def test_an_empty_panel(written, tmp_path):
    # pandas 2 writes a column of words without any as one of no type
    assert re.search("no rows|of the type null", refusal(written(hourly("a", range(5)).iloc[:0]), **LONG))
    table = hourly("a", range(5)).assign(y=np.nan)
    assert re.search("none of 1 series|no column of numbers", refusal(written(table), **LONG))
    path = tmp_path / "empty.csv"
    path.write_text("")
    assert "empty" in refusal(path, **LONG)
    assert "no file is called so" in refusal(tmp_path / "no*.csv", **LONG)
    assert "is a folder. Name the files in it by a pattern" in refusal(tmp_path, **LONG)


def test_series_too_short_for_a_frequency(written):
    text = refusal(written(stacked(hourly("a", range(2)), hourly("b", range(2)))), **LONG)
    assert "2 series of at most 2 rows are too short to infer a frequency" in text


def test_a_long_panel_that_is_read_as_columns(tmp_path):
    path = tmp_path / "my.csv"
    stacked(hourly("a", range(5)), hourly("b", range(5)).assign(y=9.0)).to_csv(path, index=False)
    text = refusal(path, panel="columns")
    assert re.search("line 7: 2021-03-01 00:00:00 of the series 'y' stands already .*data.id_column=", text)


def test_keys_that_do_not_go_with_a_form(tmp_path):
    path = tmp_path / "my.csv"
    hourly("a", range(9)).to_csv(path, index=False)
    text = refusal(path, resample="D", aggregate="mean", **LONG)
    assert "data.resample=D leaves 1 row of 9, from 2021-03-01 00:00:00 to" in text


def test_a_damaged_parquet_file(tmp_path):
    path = tmp_path / "my.parquet"
    hourly("a", range(5)).to_parquet(path)
    path.write_bytes(path.read_bytes()[:200])
    assert "is a Parquet file, and cannot be read" in refusal(path, **LONG)
