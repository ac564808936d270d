"""The reading options of the data group: what each of them reads of a small file, and what it refuses."""

import logging

import pytest
from data.csv_files import hours, read_frame, write
from hypothesis import given, settings
from hypothesis import strategies as st

from forecast.data.reading.layout import Layout
from forecast.errors import UserError


def rows(*lines):
    return "\n".join(lines) + "\n"


def hourly(header, *cells):
    """A file of one row an hour, whose cells beside the time are these."""
    return rows(f"date,{header}", *(f"{stamp},{cell}" for stamp, cell in zip(hours(len(cells)), cells, strict=True)))


def read(folder, text, **options):
    return read_frame(write(folder, text), Layout(**options))


def refused(folder, text, match, **options):
    with pytest.raises(UserError, match=match):
        read(folder, text, **options)


def days(frame):
    return [str(stamp.date()) for stamp in frame.timestamps]


# time


def test_several_columns_make_one_time(tmp_path):
    text = rows("day,a,year,month", "30,1,2016,6", "1,2,2016,7", "2,3,2016,7")
    frame = read(tmp_path, text, time_column=["year", "month", "day"])
    assert (frame.columns, days(frame)) == (("a",), ["2016-06-30", "2016-07-01", "2016-07-02"])
    assert frame.values[:, 0].tolist() == [1, 2, 3]


def test_a_date_and_a_time_of_day_in_two_columns_are_joined(tmp_path):
    text = rows(
        "Date;Time;a",
        *(f"10/03/2004;{h}.00.00;{h}" for h in range(18)),
        "10/03/2004;19.00.00;2",
        "10/03/2004;20.00.00;3",
    )
    options = {"time_column": ["Date", "Time"], "separator": ";", "time_format": "%d/%m/%Y %H.%M.%S"}
    frame = read(tmp_path, text, gaps="interpolate", **options)
    assert (str(frame.timestamps[0]), str(frame.timestamps[18]), len(frame)) == (
        "2004-03-10 00:00:00", "2004-03-10 18:00:00", 21,
    )  # fmt: skip


def test_without_a_time_column_the_rows_are_counted_from_a_start(tmp_path):
    frame = read(tmp_path, rows("a,b", "1,2", "3,4", "5,6"), time_column=None, freq="MS", start="2016-07-01")
    assert (frame.columns, frame.freq, days(frame)) == (("a", "b"), "MS", ["2016-07-01", "2016-08-01", "2016-09-01"])
    assert frame.values.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_without_a_time_column_rows_may_be_plain_steps(tmp_path):
    frame = read(tmp_path, rows("a,b", "1,2", "3,4", "5,6"), time_column=None, freq="steps")
    assert (frame.columns, frame.freq, len(frame)) == (("a", "b"), "ms", 3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"freq": "often", "start": "2016-07-01"}, r"data\.freq=often is no frequency\. Write h, 15min"),
        ({"freq": "h", "start": "some day"}, r"data\.start=some day is no time without a zone\. Write it as 2016"),
        ({"freq": "h", "start": "2016-07-01T00:00Z"}, r"no time without a zone"),
        ({"freq": "500YE", "start": "2016-07-01"}, r"leave the years 1678 to 2261\. Set a finer data\.freq"),
    ],
)
def test_a_start_and_a_frequency_that_are_none_are_refused(tmp_path, options, match):
    refused(tmp_path, rows("a", "1", "2", "3"), match, time_column=None, **options)


def test_a_format_decides_between_day_and_month(tmp_path):
    text = rows("date,a", "01/01/2016,1", "02/01/2016,2", "03/01/2016,3")
    assert days(read(tmp_path, text, time_format="%d/%m/%Y")) == ["2016-01-01", "2016-01-02", "2016-01-03"]
    assert days(read(tmp_path, text, time_format="%m/%d/%Y")) == ["2016-01-01", "2016-02-01", "2016-03-01"]


def test_letters_for_a_time_zone_are_refused_and_a_format_reads_the_clock_alone(tmp_path):
    text = rows("date,a", "2016-07-01 00:00 CET,1", "2016-07-01 01:00 CET,2", "2016-07-01 02:00 CET,3")
    refused(tmp_path, text, r"set data\.time_format, as .* of a zone's letters, '%Y-%m-%d %H:%M CET'")
    assert str(read(tmp_path, text, time_format="%Y-%m-%d %H:%M CET").timestamps[0]) == "2016-07-01 00:00:00"
    digits = text.replace(" CET", "+01:00")
    assert str(read(tmp_path, digits).timestamps[0]) == "2016-06-30 23:00:00"


def test_rows_that_go_back_are_read_the_other_way_round_and_that_is_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    frame = read(tmp_path, rows("date,a", "2016-07-03,3", "2016-07-02,2", "2016-07-01,1"))
    assert (frame.values[:, 0].tolist(), days(frame)[0]) == ([1, 2, 3], "2016-07-01")
    assert "the rows go back in time, and are read the other way round" in caplog.text


# numbers


def test_a_sign_for_thousands_is_read_where_it_is_set(tmp_path):
    text = rows("date;a", "2016-07-01;1,234.5", "2016-07-02;900", "2016-07-03;-4,800")
    assert read(tmp_path, text, separator=";", thousands=",").values[:, 0].tolist() == [1234.5, 900, -4800]
    refused(tmp_path, text, r"line 2, column 'a'", separator=";")


def test_words_and_numbers_that_stand_for_no_value_are_missing(tmp_path):
    text = hourly("a", "1", "M", "3", "-200.0", "5")
    frame = read(tmp_path, text, missing=["M", -200], gaps="interpolate")
    assert frame.values[:, 0].tolist() == [1, 2, 3, 4, 5]
    refused(tmp_path, text, r"line 4: .*no value of a", missing=["M", -200])
    refused(tmp_path, text, r"line 3, column 'a': 'M' is no number", missing=[-200], gaps="interpolate")


# columns


def test_named_columns_are_read_in_their_order(tmp_path):
    frame = read(tmp_path, hourly("a,b,c", *["1,2,3"] * 3), columns=["c", "a"])
    assert (frame.columns, frame.values[2].tolist()) == (("c", "a"), [3, 1])


def test_dropped_columns_are_not_read_whatever_they_hold(tmp_path):
    frame = read(tmp_path, hourly("a,b,c", *["1,x,3"] * 3), drop=["b"])
    assert (frame.columns, frame.values[2].tolist()) == (("a", "c"), [1, 3])


@pytest.mark.parametrize("key", ["columns", "drop"])
def test_a_column_that_is_not_there_is_refused_with_the_nearest_name(tmp_path, key):
    match = r"no column 'loads'.* among load, b\. Did you mean 'load'\? Name a column that the file has"
    refused(tmp_path, hourly("load,b", *["1,2"] * 3), match, **{key: ["loads"]})


def test_columns_that_hold_no_numbers_are_left_out_in_one_sentence(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    text = rows("index,date,a,city,empty", *(f"{i},{stamp},{i}.5,Rome," for i, stamp in enumerate(hours(3))))
    assert read(tmp_path, text).columns == ("a",)
    said = [record.getMessage() for record in caplog.records if "Left out" in record.getMessage()]
    assert len(said) == 1
    assert "index (row numbers), city (text), empty (empty)" in said[0]


def test_a_file_without_any_numbers_is_refused(tmp_path):
    match = r"there is no column of numbers beside the time: city \(text\)\. Name the columns to read all the same"
    refused(tmp_path, hourly("city", "Rome", "Paris", "Oslo"), match)


def test_columns_of_one_name_are_told_apart_and_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    frame = read(tmp_path, hourly("a,b,a", *["1,2,3"] * 3))
    assert (frame.columns, frame.values[0].tolist()) == (("a", "b", "a.1"), [1, 2, 3])
    assert "Columns of one name are told apart as a.1." in caplog.text
    assert read(tmp_path, hourly("a,b,a", *["1,2,3"] * 3), drop=["a.1"]).columns == ("a", "b")


def test_a_column_without_a_name_is_called_by_its_place(tmp_path):
    frame = read(tmp_path, hourly("a,, ,d", *["1.5,2.5,3.5,4.5"] * 3))
    assert (frame.columns, frame.values[0].tolist()) == (("a", "column 3", "column 4", "d"), [1.5, 2.5, 3.5, 4.5])
    assert read(tmp_path, hourly("a,,d", *["1,2,3"] * 3), columns=["column 3"]).values[0].tolist() == [2]


def test_rows_of_nothing_but_separators_are_no_rows(tmp_path):
    plain = hourly("a,b", "1,2", "3,4", "5,6")
    frame = read(tmp_path, plain.replace("\n2016-07-01 01", "\n,,\n , ,\n2016-07-01 01") + ",,\n\n")
    assert (len(frame), frame.values.tolist()) == (3, [[1, 2], [3, 4], [5, 6]])


# rows

CITIES = rows(
    "date,region,type,a",
    *(f"{day},{city},{kind},{i}{j}{k}"
      for k, day in enumerate(("2016-07-01", "2016-07-02", "2016-07-03"))
      for i, city in enumerate(("Albany", "Boston"), start=1)
      for j, kind in enumerate(("organic", "7"))),
)  # fmt: skip


def test_one_series_of_several_is_chosen_by_what_its_cells_say(tmp_path):
    frame = read(tmp_path, CITIES, where={"region": "Boston", "type": "organic"})
    assert (frame.columns, frame.values[:, 0].tolist()) == (("a",), [200, 201, 202])


def test_a_number_is_found_by_its_value_and_a_text_by_its_letters(tmp_path):
    text = rows(
        "date,id,a", *(f"{day},{i},{i}" for day in ("2016-07-01", "2016-07-02", "2016-07-03") for i in ("1.0", "2.0"))
    )
    assert read(tmp_path, text, where={"id": 1}).values[:, 0].tolist() == [1, 1, 1]
    assert read(tmp_path, text, where={"id": "2.0"}).values[:, 0].tolist() == [2, 2, 2]
    refused(tmp_path, text, r"no row has '2' in the column 'id' .* It holds 1\.0, 2\.0\.", where={"id": "2"})


def test_conditions_that_no_row_meets_are_refused(tmp_path):
    match = r"no row has 'Albani' in the column 'region' .* It holds Albany, Boston\. Did you mean 'Albany'\?"
    refused(tmp_path, CITIES, match, where={"region": "Albani"})
    match = r"no column 'regions' \(data\.where\).*Did you mean 'region'\?"
    refused(tmp_path, CITIES, match, where={"regions": "Albany"})
    text = rows("date,r,t,a", "2016-07-01,x,1,1", "2016-07-02,y,2,2", "2016-07-03,x,1,3")
    match = r"no row has '2' in the column 't' and what else is asked for\. .* Choose cells that stand in one row\."
    refused(tmp_path, text, match, where={"r": "x", "t": 2})


TWICE = rows("date,a", "2016-07-01,1", "2016-07-02,2", "2016-07-02,6", "2016-07-03,3")


@pytest.mark.parametrize(("how", "value"), [("first", 2), ("last", 6), ("mean", 4), ("sum", 8)])
def test_repeated_rows_become_one_as_asked_and_that_is_said(tmp_path, caplog, how, value):
    caplog.set_level(logging.INFO)
    assert read(tmp_path, TWICE, duplicates=how).values[:, 0].tolist() == [1, value, 3]
    assert f"data.duplicates={how} made 3 rows of 4, by their {how}." in caplog.text


def test_repeated_rows_are_an_error_unless_something_is_asked(tmp_path):
    refused(tmp_path, TWICE, r"line 4.*2016-07-02")


IRREGULAR = rows("date,a", "2016-07-01 00:10,1", "2016-07-01 00:50,3", "2016-07-01 01:20,5", "2016-07-01 02:59,7")


@pytest.mark.parametrize(("how", "values"), [("mean", [2, 5, 7]), ("sum", [4, 5, 7]), ("last", [3, 5, 7])])
def test_irregular_rows_are_brought_to_a_frequency(tmp_path, caplog, how, values):
    caplog.set_level(logging.INFO)
    frame = read(tmp_path, IRREGULAR, resample="h", aggregate=how)
    assert (frame.freq, str(frame.timestamps[0]), frame.values[:, 0].tolist()) == ("h", "2016-07-01 00:00:00", values)
    assert f"data.resample=h made 3 rows of 4, by their {how}." in caplog.text


def test_a_frequency_that_is_none_or_too_coarse_is_refused(tmp_path):
    refused(tmp_path, IRREGULAR, r"data\.resample=often is no frequency", resample="often", aggregate="mean")
    refused(tmp_path, IRREGULAR, r"data\.resample=D leaves 1 row of 4.*finer frequency", resample="D", aggregate="mean")


# what does not go together


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"time_column": None}, r"data\.time_column=null data\.freq=null data\.start=null do not go together"),
        ({"time_column": None, "freq": "h"}, r"data\.freq=h data\.start=null .* data\.freq=h data\.start=2016-07-01"),
        (
            {"time_column": None, "freq": "steps", "start": "2016-07-01"},
            r"or data\.time_column=null data\.freq=steps for",
        ),
        ({"freq": "h"}, r"data\.time_column=date data\.freq=h data\.start=null .* Name the time column alone"),
        ({"start": "2016-07-01"}, r"Name the time column alone"),
        ({"resample": "W"}, r"data\.resample=W data\.aggregate=null: both are needed, or none\. Set"),
        ({"aggregate": "sum"}, r"data\.resample=null data\.aggregate=sum: both are needed"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, options, match):
    refused(tmp_path, hourly("a,b", *["1,2"] * 3), match, **options)


NUMBERS = st.one_of(
    st.floats(-1e38, 1e38).map(repr),
    st.integers(-(10**18), 10**18).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9).map(
        lambda d: f"{d:f}"
    ),
    st.sampled_from(["+1", " 2.5 ", "1e5", "1E-5", ".5", "5.", "-0", "007"]),
)


@settings(max_examples=60, deadline=None)
@given(cells=st.lists(NUMBERS, min_size=3, max_size=11), word=st.booleans())
def test_numbers_are_read_to_the_last_bit_also_where_a_word_stands_among_them(tmp_path_factory, cells, word):
    path = write(tmp_path_factory.mktemp("plain"), hourly("a", *cells, *["M"] * word, "1"))
    values = read_frame(path, Layout(gaps="interpolate", missing=["M"])).values[:, 0]
    assert values[: len(cells)].tolist() == [float(cell) for cell in cells]


def test_a_column_that_a_model_was_trained_on_is_to_be_in_the_file(tmp_path):
    (tmp_path / "new.csv").write_text("date,tmep,load\n" + "".join(f"2021-01-0{day},1,2\n" for day in range(1, 8)))
    with pytest.raises(UserError, match=r"no column 'temp' among tmep, load\. Did you mean 'tmep'\? .* of that name\."):
        read_frame(tmp_path / "new.csv", columns=("temp", "load"), freq="D")
