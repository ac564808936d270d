"""A check reads any file, finds all that is wrong at once, and suggests what the strict reader then takes."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame

from forecast.config.build import build, parameters
from forecast.config.compose import compose_config
from forecast.config.run_config import composed
from forecast.config.settings import typed_settings
from forecast.data.assembling.read import read_panel
from forecast.data.guessing.advice import find_outliers
from forecast.data.guessing.check import check_file
from forecast.data.reading.layout import Layout

ROWS = 613


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.csv"


def table(rows=ROWS, freq="h", start="2021-01-05", seed=0):
    """A daily season of 24 rows, and noise."""
    noise = np.random.default_rng(seed).normal(size=(rows, 2)) / 10
    values = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None] * [1, 3] + noise + [0, 50]
    data = pd.DataFrame(values.round(4), columns=["load", "temp"])
    data.insert(0, "date", pd.date_range(start, periods=rows, freq=freq))
    return data


def lines_of(data):
    return data.to_csv(index=False).splitlines()


def checked(path, lines, **options):
    path.write_text("\n".join(lines) + "\n")
    return check_file(str(path), options)


def texts(check, severity):
    return check.findings.texts(severity)


def only(check, severity):
    (text,) = texts(check, severity)
    return text


def with_cells(line, cells):
    """A line with other cells after its timestamp."""
    return f"{line.split(',')[0]},{cells}"


# a file that is well


def test_a_healthy_file_has_no_findings_and_the_command_names_nothing_but_its_lengths(path):
    check = checked(path, lines_of(table()))
    assert check.findings == []
    assert (check.freq, check.rows_missing, check.layout.time_column) == ("h", 0, "date")
    assert check.season[:2] == (24, "a day") and check.season.autocorrelation > 0.9
    assert check.windows == {"train": 429 - 119, "val": 62 - 23, "test": 122 - 23}
    assert check.command == f"forecast train model=ridge data=csv data.path={path} seq_len=96 pred_len=24"
    sizes = "model.d_model=32 model.n_heads=4 model.d_ff=64 model.instance_norm=true data.batch_size=8 optim.lr=0.001"
    assert check.informer_command == (
        f"forecast train model=informer data=csv data.path={path} seq_len=96 label_len=48 pred_len=24 {sizes} "
        "schedule=cosine trainer.max_epochs=25 callbacks.early_stopping.patience=5"
    )


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), ("\t", "."), ("|", ","), (";", ".")])
def test_separator_decimal_and_time_column_are_guessed_and_named_in_the_command(path, separator, decimal):
    data = table().rename(columns={"date": "when"})[["load", "when", "temp"]]
    data.to_csv(path, index=False, sep=separator, decimal=decimal)
    check = check_file(str(path))
    assert check.findings == []
    overrides = dict(word.split("=", 1) for word in shlex.split(check.command)[4:])
    layout = {key: value for key, value in overrides.items() if key.startswith("data.") and key != "data.path"}
    expected = {"data.separator": r"'\t'" if separator == "\t" else f"'{separator}'", "data.time_column": "when"}
    assert layout == {**expected, **({"data.decimal": "','"} if decimal == "," else {})}


# gaps


def test_missing_rows_and_values_are_counted_with_the_first_runs_and_the_longest(path):
    lines = lines_of(table())
    for line, cell in ((400, "NA"), (402, ""), (403, "")):
        lines[line] = f"{lines[line].rsplit(',', 1)[0]},{cell}"
    for first, last in ((500, 503), (300, 301), (200, 211), (100, 102)):
        del lines[first:last]
    check = checked(path, lines)
    rows, values = texts(check, "mend")
    assert check.rows_missing == 17
    assert "17 of 613 rows are missing (2.77%) in 4 gaps: 2 rows from 2021-01-09 03:00:00, 11 rows from " in rows
    assert "1 row from 2021-01-17 11:00:00, ...; the longest has 11 rows, from 2021-01-13 07:00:00." in rows
    assert values == ("Column 'temp': 3 values of 596 missing, the first in line 387 ('NA'), at most 2 in succession.")
    assert texts(check, "error") == []


@pytest.mark.parametrize(
    ("cut", "emptied", "policy"),
    [
        (range(300, 303), [], "interpolate"),
        (range(200, 240), [], "mask"),  # longer than half of the forecast: a line over it says nothing
        ([], [613], "refuse"),  # an end, which is left out: nothing is to be filled
        ([], [1], "refuse"),
    ],
)
def test_the_rule_for_gaps_is_one_that_the_strict_reader_takes(path, cut, emptied, policy):
    lines = lines_of(table())
    for line in emptied:
        lines[line] = lines[line].rsplit(",", 1)[0] + ","
    check = checked(path, [line for i, line in enumerate(lines) if i not in cut])
    assert (check.gaps, texts(check, "error")) == (policy, [])
    assert ("data.gaps=" in check.command) == (policy != "refuse")
    assert policy == "refuse" or f"data.gaps={policy}" in check.command
    frame = read_frame(path, gaps=policy)
    assert len(frame) == 613 - len(emptied)
    assert (0 if frame.missing is None else np.count_nonzero(frame.missing.any(axis=1))) == len(cut)


@pytest.mark.parametrize(
    ("least", "share", "rule"), [(1, 0.4, "zero"), (0, 0.4, "interpolate"), (1, 0.02, "interpolate")]
)
def test_counts_without_a_zero_lack_the_rows_of_nothing(path, least, share, rule):
    """A shop that writes no row on a day without a sale; days with a 0 among the rows say that all days are written."""
    draws = np.random.default_rng(0)
    sold = pd.DataFrame({"date": pd.date_range("2021-01-05", periods=ROWS), "sold": draws.poisson(2, ROWS) + least})
    kept = draws.random(ROWS) > share
    kept[[0, -1]] = True
    check = checked(path, lines_of(sold[kept]))
    assert f"data.gaps={rule}" in check.command
    noted = any("above 0" in text and f"{(~kept).sum()} rows are missing" in text for text in texts(check, "note"))
    assert noted == (rule == "zero")


def test_more_than_half_of_the_rows_missing_is_no_gap(path):
    lines = lines_of(table())
    check = checked(path, [*lines[:100], *lines[400:]])
    assert texts(check, "error") == []
    check = checked(path, [*lines[:100], *lines[600:]])
    assert "the frequency 'h' has 613 rows, of which 500 are missing. That is no gap to fill" in only(check, "error")
    assert check.command is None


# time


def test_hours_that_a_clock_repeats_are_their_mean_and_those_that_it_skips_are_filled(path):
    local = pd.date_range("2018-12-31 23:00", "2020-12-31", freq="h", tz="UTC").tz_convert("Europe/Berlin")
    check = checked(path, ["date,a", *(f"{t},{i % 24}" for i, t in enumerate(local.tz_localize(None)))])
    assert (check.layout.duplicates, check.gaps, check.rows_missing) == ("mean", "interpolate", 2)
    assert "data.duplicates=mean" in check.command


def test_everything_is_found_at_once(path):
    lines = lines_of(table())
    lines.insert(8, lines[7])
    lines[20] = with_cells(lines[20], "x,NA")
    lines[30] = with_cells(lines[30], "inf,-8000")
    del lines[100:103]
    check = checked(path, lines)
    severities = [finding.severity for finding in check.findings]
    assert sorted(severities) == ["error", "mend", "mend", "note", "note"]
    assert check.reasons == ["data.duplicates=mean: 1 of 611 rows repeats a timestamp"]
    errors = " ".join(texts(check, "error"))
    assert "Line 21, column 'load': 'x' is no number; 2 such cells of 611. Correct it" in errors
    assert "Line 31, column 'load': 'inf' is not a finite number" not in errors, "the first of a column is enough"


@pytest.mark.parametrize(("rows", "model"), [(2330, "ridge"), (2430, "boosted_trees")])
def test_trees_are_advised_where_the_val_rows_can_say_whether_they_help(path, rows, model):
    """Ten forecasts without overlap: of 24 steps in a tenth of the rows."""
    check = checked(path, lines_of(table(rows=rows)))
    words = shlex.split(check.command)[2:]
    assert words[0] == f"model={model}" and ("model.error=absolute" in words) == (model == "boosted_trees")
    assert composed(words).config.model.target.lower().endswith(model.replace("_", ""))


def test_an_open_quote_is_refused_alone(path):
    lines = lines_of(table(rows=9_000))  # longer than a cell may be for csv
    lines[10], lines[500] = lines[10].replace(",", ',"', 1), with_cells(lines[500], "high,1")
    assert "Look for an unclosed quotation mark" in only(checked(path, lines), "error")
    lines[600] += '"'
    assert "Line 11, column 'load':" in (text := only(checked(path, lines), "error"))
    assert text.endswith("Look for an unclosed quotation mark.")


def test_series_below_each_other_are_recognised_and_not_taken_for_disorder(path):
    parts = [table(rows=97, seed=i).assign(place="abc"[i]) for i in range(3)]
    check = checked(path, lines_of(pd.concat(parts)))
    assert only(check, "error") == (
        "3 series stand below one another: 194 of 291 rows repeat a timestamp, and 'place' tells them apart. "
        'Choose one with "data.where={place: a}", or read all as a panel with data.id_column=place.'
    )
    assert [one.reading for one in check.choices] == ["all series, as a panel", "a", "b", "c"]
    assert 'data.where="{place: b}"' in check.choices[2].command
    panel = check.choices[0].command
    assert "data.id_column=place" in panel and "data.where" not in panel and "data.gaps=interpolate" in panel


def test_a_file_without_timestamps_is_described(path):
    check = checked(path, ["a,b", *(f"{i % 24},{i % 7}" for i in range(ROWS))])
    assert only(check, "error").startswith("No column of 'a', 'b' holds timestamps")
    steps, hours = (one.command for one in check.choices)
    assert "data.time_column=null data.freq=steps data.floor=0 seq_len" in steps
    assert "data.time_column=null data.freq=h data.start=2016-07-01 data.floor=0 seq_len" in hours


# columns


def test_outliers_are_far_from_all_others_or_jump_there_and_back():
    values = np.random.default_rng(0).normal(size=997)
    assert find_outliers(values).tolist() == []
    values[313] = 50.0
    values[400:500] = np.nan
    assert find_outliers(values).tolist() == [313]
    slow = 100 * np.sin(np.arange(997) / 100) + values.clip(-3, 3) / 10
    slow[701] += 30.0  # well inside the range of the column
    assert find_outliers(slow).tolist() == [701]
    step = np.r_[np.zeros(500), np.full(497, 50.0)] + values.clip(-3, 3)
    assert find_outliers(step).tolist() == []
    step[40:80] = -999.0  # a code for "no value"
    assert find_outliers(np.where(step > 25, np.nan, step)).tolist() == list(range(40, 80))
    assert find_outliers(np.r_[np.zeros(90), 1.0, np.zeros(9)]).tolist() == []  # a column that hardly moves


def test_the_farthest_outlier_is_named_with_its_line_and_a_constant_column_with_its_value(path):
    data = table().assign(flat=7.5)
    data.loc[[17, 230], "temp"] = [-8000.0, 500.0]
    outlier, constant = texts(checked(path, lines_of(data), columns=["load", "temp", "flat"]), "note")
    assert "Column 'temp': 2 outliers; the farthest, -8000 in line 19, " in outlier
    assert " robust standard deviations from the median (5" in outlier
    assert constant == "Column 'flat' is always 7.5. It says nothing: better drop it."


def test_an_outlier_near_the_median_is_called_a_jump(path):
    data = table(rows=ROWS)
    data["temp"] = (100 * np.sin(np.arange(ROWS) / 100) + np.random.default_rng(0).uniform(-0.3, 0.3, ROWS)).round(4)
    data.loc[315, "temp"] += 80.0  # where the column falls through its median
    outlier = only(checked(path, lines_of(data)), "note")
    assert ", a jump away from both of its neighbours and back. Faults" in outlier and "deviations" not in outlier


def test_a_drifting_level_is_seen_and_the_informer_normalises_its_windows(path):
    data = table(rows=7001)
    data["temp"] += np.arange(7001) / 500
    data["load"] = 3.0
    path.write_text(data.to_csv(index=False))
    moved, still = check_file(str(path)), check_file(str(path), target="load")
    assert moved.drift.column == "temp" and moved.drift.deviations > 1
    assert "model.instance_norm=true" in moved.informer_command and "instance_norm" not in moved.command
    assert still.drift is None and "instance_norm" not in still.informer_command


# layouts


def command_of(check):
    """The data part of a command, read by shell and Hydra, as a layout."""
    return layout_in(check.command)


def layout_in(command):
    words = shlex.split(command)
    assert words[:2] == ["forecast", "train"] and words[3] == "data=csv"
    assert words[2] in ("model=ridge", "model=boosted_trees")
    known = {key: parameter.annotation for key, parameter in parameters(Layout).items()}
    data = [
        word
        for word in words
        if word.startswith("data.")
        and not word.startswith(("data.path=", "data.target=", "data.features=", "data.floor=", "data.split."))
    ]
    settings = typed_settings(data, "data", known)
    return settings | ({"separator": "\t"} if settings.get("separator") == "\\t" else {})


def assert_reads(check):
    """The printed command reads the file as the check did."""
    frame = read_frame(check.path, **command_of(check))
    assert frame.columns == check.table.columns
    return frame


def test_parts_of_the_time_row_numbers_and_marks_are_found(path):
    data = table(rows=ROWS)
    stamps = data.pop("date").dt
    parts = {name: getattr(stamps, name) for name in ("year", "month", "day", "hour")}
    data = data.astype(object)
    data.loc[[11, 17, 19], "temp"] = "M"
    data = pd.DataFrame(parts).join(data)
    data.insert(0, "No", range(1, ROWS + 1))
    check = checked(path, lines_of(data))
    time, missing = check.reasons
    assert time == "time: columns year, month, day, hour"
    assert missing == "data.missing=['M']: column 'temp': 'M' stands in 3 of 613 cells, numbers in 610"
    assert "Left out, as they hold no numbers of the series: No (row numbers)." in texts(check, "note")
    assert assert_reads(check).columns == ("load", "temp")


def test_date_and_time_of_day_in_two_columns_are_one_time(path):
    data = table()
    stamps = data.pop("date").dt
    data.insert(0, "Time", stamps.strftime("%H:%M:%S"))
    data.insert(0, "Date", stamps.strftime("%m/%d/%Y"))
    check = checked(path, lines_of(data))
    assert check.reasons == ["time: columns Date, Time"]
    assert assert_reads(check).timestamps[0] == pd.Timestamp("2021-01-05")


def test_of_two_equal_time_columns_the_first_is_taken(path):
    data = table()
    data.insert(1, "again", data["date"])
    check = checked(path, lines_of(data))
    assert check.reasons == ["time: column 'date': 'again' says the same as 'date' in every row"]
    assert_reads(check)


def test_of_a_day_and_an_hour_the_one_with_a_timestamp_for_each_row_is_taken(path):
    data = table()
    data.insert(1, "ts", data["date"])
    data["date"] = data["date"].dt.normalize()
    check = checked(path, lines_of(data))
    assert check.reasons == ["time: column 'ts': by it nearly every row has a timestamp of its own, by 'date' not"]
    assert command_of(check) == {"time_column": "ts"}


def test_two_times_that_differ_are_refused_with_a_command_for_each(path):
    data = table()
    data.insert(1, "end", data["date"] + pd.Timedelta("1h"))
    check = checked(path, lines_of(data))
    assert check.command is None
    assert only(check, "error") == (
        "The columns 'date' and 'end' look like time and differ. Choose one with data.time_column=NAME."
    )
    assert [one.reading for one in check.choices] == ["time from date", "time from end"]
    starts = [read_frame(path, **layout_in(one.command)).timestamps[0] for one in check.choices]
    assert starts == [pd.Timestamp("2021-01-05 00:00"), pd.Timestamp("2021-01-05 01:00")]


def test_an_ambiguous_date_is_refused_with_a_command_for_each_format_that_leaves_windows(path):
    data = table(rows=120, freq="MS")
    data["date"] = data["date"].dt.strftime("%d/%m/%Y")
    check = checked(path, lines_of(data.drop(index=57)))
    assert check.command is None
    assert "is 2021-02-01 00:00:00 with data.time_format='%d/%m/%Y'" in only(check, "error").replace('"', "")
    (one,) = check.choices  # month first almost every row of a year is missing
    assert one.reading == "times as %d/%m/%Y"
    assert read_frame(path, **layout_in(one.command)).freq == "MS"


def test_an_ambiguous_comma_is_refused_with_a_command_for_each_value(path):
    data = table()
    data["load"] = [f"{1 + i % 9},{i:03}" for i in range(ROWS)]
    data["temp"] = range(100, 100 + ROWS)
    path.write_text(data.to_csv(index=False, sep=";"))
    check = check_file(str(path))
    assert check.command is None and "no cell of the file says which" in only(check, "error")
    first = {read_frame(path, **layout_in(one.command)).values[0, 0] for one in check.choices}
    assert first == {1.0, 1000.0} and len(check.choices) == 2


def test_where_commas_separate_the_cells_a_quoted_comma_is_no_decimal_one(path):
    data = table()
    data["load"] = [f"{1 + i % 9},{i:03}" for i in range(ROWS)]
    data["temp"] = range(100, 100 + ROWS)
    path.write_text(data.to_csv(index=False))
    check = check_file(str(path))
    assert "data.thousands=',': '1,000' in column 'load'" in check.reasons
    assert read_frame(path, **command_of(check)).values[:2, 0].tolist() == [1000.0, 2001.0]


def test_thousands_are_found_by_the_whole_column(path):
    data = table()
    data["load"] = [f"{900 + i:,}" for i in range(ROWS)]
    data["temp"] = [f"{i}.5" for i in range(ROWS)]
    check = checked(path, data.to_csv(index=False, sep=";").splitlines())
    assert check.layout.thousands == "," and "data.thousands=','" in check.reasons[-1]
    assert assert_reads(check).values[[0, 100], 0].tolist() == [900, 1000]


@pytest.mark.parametrize("values", [(-200,) * 40, (-200,) * 2, (-37,) * 40])
def test_a_number_stands_for_no_value_only_where_it_can_mean_nothing_else(path, values):
    data = table()
    data.loc[range(100, 100 + len(values)), "temp"] = values
    check = checked(path, lines_of(data))
    assert check.layout.missing == ((-200,) if values == (-200,) * 40 else ())
    if check.layout.missing:
        assert check.reasons[0].startswith("data.missing=[-200]: column 'temp': -200 stands in 40 of 613 cells, all ")
        assert np.isfinite(assert_reads(check).values).all()


def test_a_code_of_one_column_that_is_a_value_of_another_is_left_alone(path):
    data = table().assign(level=np.linspace(-400, 400, ROWS).round(1))
    data.loc[range(100, 140), "temp"] = -200
    data.loc[153, "level"] = -200
    assert checked(path, lines_of(data)).layout.missing == ()


def test_repeated_rows_of_one_series_become_their_mean(path):
    lines = lines_of(table())
    lines[20:20] = [with_cells(lines[i], "1,2") for i in range(20, 27)]
    check = checked(path, lines)
    assert check.reasons == ["data.duplicates=mean: 7 of 620 rows repeat a timestamp"]
    assert len(assert_reads(check)) == ROWS


def test_irregular_rows_are_brought_to_their_usual_step(path):
    data = table(rows=1999, freq="30min")
    data["date"] += pd.to_timedelta(np.random.default_rng(0).integers(0, 600, 1999), unit="s")
    check = checked(path, lines_of(data))
    assert (check.layout.resample, check.layout.aggregate, check.freq) == ("30min", "mean", "30min")
    assert check.reasons[0].startswith("data.resample=30min data.aggregate=mean: rows with values are ")
    assert " minutes" in check.reasons[0] and "days" not in check.reasons[0]
    assert_reads(check)


def test_a_column_of_which_most_is_missing_is_dropped(path):
    data = table().assign(rare=np.where(np.arange(ROWS) % 10, np.nan, 1.5))
    check = checked(path, lines_of(data))
    assert check.reasons == ["data.drop=[rare]: 'rare' lacks 90% of its values"]
    assert assert_reads(check).columns == ("load", "temp")
    check = checked(path, lines_of(data), columns=["rare", "temp"])
    assert "Column 'rare' has no value in 551 of 613 rows" in only(check, "error")


def test_columns_that_say_nothing_are_dropped_by_the_command(path):
    data = table().assign(site=3567500, again=lambda data: data["load"], row=range(1, ROWS + 1))
    data.loc[7, ["load", "again"]] = np.nan
    data.loc[9, "site"] = np.nan
    check = checked(path, lines_of(data))
    assert check.reasons == [
        "data.drop=[site, again, row]: 'site' is always 3.5675e+06, 'again' is 'load' once more, 'row' counts the rows"
    ]
    assert assert_reads(check).columns == ("load", "temp")
    assert check_file(str(path), target="again").layout.drop == ("load", "site", "row")
    assert check_file(str(path), target="site").layout.drop == ("again", "row")
    assert check_file(str(path), kept=["row"]).layout.drop == ("site", "again")
    for given, use in (({"columns": ["load", "site"]}, {}), ({}, {"features": "MS"})):
        check = check_file(str(path), given, **use)
        assert check.layout.drop == () and "Column 'site' is always 3.5675e+06." in texts(check, "note")[0]


def test_a_column_that_differs_in_one_cell_is_no_copy_and_one_that_skips_a_row_counts_none(path):
    data = table().assign(again=lambda data: data["load"], row=range(ROWS))
    data.loc[7, "again"] = np.nan
    data.loc[ROWS - 1, "row"] += 1
    assert checked(path, lines_of(data)).layout.drop == ()


def test_what_is_the_same_in_one_series_stays_for_the_panel(path):
    parts = [table(rows=297, seed=i).assign(region="xyz"[i], size=i) for i in range(3)]
    check = checked(path, lines_of(pd.concat(parts)))
    assert check.choices and not any("data.drop" in choice.command for choice in check.choices)


@pytest.mark.parametrize("code", [-9999, -999, -99.9, -9999.0])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_usual_code_far_outside_stands_for_no_value_however_seldom(path, code, times):
    data = table()
    data.loc[100 : 99 + times, "temp"] = code
    check = checked(path, lines_of(data))
    assert check.layout.missing == (code,)
    assert f"data.missing=[{code:g}]: column 'temp': {code:g} stands in {times} of 613 cells, all " in check.reasons[0]
    assert f"the first in line 102 ('{data.loc[100, 'temp']}'" in texts(check, "mend")[0]
    assert np.isfinite(assert_reads(check).values).all()


def test_a_usual_code_near_the_other_values_is_one_of_them(path):
    data = table().assign(level=np.linspace(-400, 400, ROWS).round(1))
    data.loc[100, "level"] = -999
    assert checked(path, lines_of(data)).layout.missing == ()


def test_the_fewest_columns_that_tell_series_apart_are_named(path):
    parts = [table(rows=97, seed=i).assign(kind="ab"[i % 2], region="xyz"[i // 2], size=i % 2) for i in range(6)]
    check = checked(path, lines_of(pd.concat(parts)))
    assert only(check, "error").startswith("6 series stand below one another: 485 of 582 rows repeat a timestamp, and ")
    panel, *choices = check.choices
    assert len(choices) == 3 and 'data.id_column="[kind, region]"' in panel.command
    for one in choices:
        layout = layout_in(one.command)
        assert list(layout["where"]) == ["kind", "region"]
        assert len(read_frame(path, **layout)) == 97


def test_a_series_is_chosen_among_those_that_were_asked_for(path):
    parts = [table(rows=97, seed=i).assign(kind="ab"[i % 2], region="xyz"[i // 2]) for i in range(6)]
    check = checked(path, lines_of(pd.concat(parts)), where={"region": "y"})
    assert 'Choose one with "data.where={region: y, kind: a}"' in only(check, "error")
    assert [one.reading for one in check.choices] == ["all series, as a panel", "a", "b"]
    panel, *layouts = check.choices[0].command, *(layout_in(one.command) for one in check.choices[1:])
    assert [one["where"] for one in layouts] == [{"region": "y", "kind": "a"}, {"region": "y", "kind": "b"}]
    assert all(len(read_frame(path, **one)) == 97 for one in layouts)
    assert 'data.where="{region: y}"' in panel and "data.id_column=kind" in panel


def test_series_with_numbers_for_names_are_told_apart(path):
    parts = [table(rows=97, seed=i).assign(store=i + 3) for i in range(3)]
    check = checked(path, lines_of(pd.concat(parts)))
    panel, *choices = check.choices
    assert "data.id_column=store" in panel.command
    assert [layout_in(one.command)["where"] for one in choices] == [{"store": 3}, {"store": 4}, {"store": 5}]


def test_what_stands_in_the_way_of_every_series_is_said(path):
    parts = [table(rows=97, seed=i).assign(place="abc"[i]) for i in range(3)]
    path.write_text("\n".join(lines_of(pd.concat(parts))) + "\n")
    below, other = texts(check_file(str(path), target="laod"), "error")
    assert below.startswith("3 series stand below one another") and "no column 'laod'" in other and "'load'?" in other


def test_series_at_times_of_their_own_are_told_apart_by_their_blocks(path):
    parts = [table(rows=97, start=f"2021-01-05 00:0{i}", seed=i).assign(place="abc"[i]) for i in range(3)]
    check = checked(path, lines_of(pd.concat(parts)))
    assert only(check, "error").startswith("3 series stand below one another")


def test_rows_of_one_time_that_nothing_tells_apart_have_two_readings(path):
    check = checked(path, lines_of(pd.concat([table(rows=97, seed=i) for i in range(3)])))
    assert [layout_in(one.command)["duplicates"] for one in check.choices] == ["mean", "sum"]


def test_what_is_told_is_kept(path):
    lines = lines_of(table())
    lines.insert(8, with_cells(lines[7], "1,2"))
    check = checked(path, lines, duplicates="last", columns=["temp"], gaps="mask")
    assert check.reasons == []
    assert command_of(check) == {"duplicates": "last", "columns": ["temp"], "gaps": "mask"}
    assert "stands already in line 8" in only(checked(path, lines, duplicates="error"), "error")


def test_the_season_is_that_of_the_target_with_the_next_best(path):
    data = table(rows=2003)
    week = np.sin(2 * np.pi * np.arange(2003) / 168)
    data["temp"] = (10 * week + np.random.default_rng(0).normal(size=2003)).round(3)
    path.write_text(data.to_csv(index=False))
    load, temp = (check_file(str(path), target=name) for name in ("load", "temp"))
    assert (load.season.period, load.runner_up.period) == (24, 168)
    assert (temp.season.period, temp.runner_up.period) == (168, 24)
    assert " data.features=S data.target=temp " in temp.command
    assert " data.features=MS data.target=temp " in check_file(str(path), target="temp", features="MS").command
    assert check_file(str(path)).season.period == check_file(str(path), features="M").season.period == 168
    assert check_file(str(path), features="S").season.period == 168  # of the last column
    missing = check_file(str(path), target="tmep")
    assert "There is no column 'tmep' (data.target) among load, temp. Did you mean 'temp'?" in only(missing, "error")


WILD = Path(__file__).parents[3] / "shared" / "data" / "wild"


@pytest.mark.skipif(not WILD.is_dir(), reason="the files are not here")
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (file.stat().st_size > 600_000))
        for file in sorted(WILD.glob("*.csv"))
    ],
)
def test_every_printed_command_of_a_real_file_reads_it(file):
    check = check_file(str(file))
    commands = [check.command] if check.command else [one.command for one in check.choices]
    assert commands
    for command in commands:
        if "data.id_column=" in command:
            panel = read_panel(build(compose_config("train", shlex.split(command)[2:]).data))
            assert len(panel.ids) > 1 and np.isfinite(panel.values).all()
            continue
        frame = read_frame(file, **layout_in(command))
        assert np.isfinite(frame.values).all() and len(frame) > 50


@pytest.mark.parametrize(("names", "months"), [("%b", True), ("%B", True), ("m%m", False)])
def test_columns_that_are_months_are_told_to_be_one_series(path, names, months):
    columns = [stamp.strftime(names) for stamp in pd.date_range("2001-01-01", periods=12, freq="MS")]
    noise = np.random.default_rng(0).normal(size=(60, 12)).round(3)
    data = pd.DataFrame(noise, columns=columns)
    data.insert(0, "year", range(1950, 2010))
    data.insert(13, "mean", noise.mean(axis=1).round(3))
    check = checked(path, lines_of(data))
    notes = [text for text in check.findings.texts("note") if text.startswith("Twelve columns are named as months")]
    assert len(notes) == months
    for note in notes:
        command = note.partition("\n")[2]
        subprocess.run(command.replace("python", sys.executable, 1), shell=True, check=True)
        again = check_file(f"{path}.months.csv")
        assert again.freq == "MS" and again.command and again.table.columns == ("value",)
        assert read_frame(f"{path}.months.csv").values[:, 0].tolist() == noise.ravel().tolist()
