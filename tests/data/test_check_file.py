"""A check reads any file, finds all that is wrong at once, and suggests what the strict reader then takes."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame

from forecast.apps.common.tables import typed_settings
from forecast.config.run_config import composed
from forecast.data.assembling.read import source_rows
from forecast.data.describe.check import check_file, known_keys
from forecast.data.describe.guess import NEW_FILE
from forecast.data.sources import Source

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


def checked(path, lines, **given):
    path.write_text("\n".join(lines) + "\n")
    return check_file(str(path), given)


def of_table(path, data, **given):
    return checked(path, lines_of(data), **given)


def texts(check, severity):
    return check.findings.texts(severity)


def only(check, severity):
    (text,) = texts(check, severity)
    return text


def with_cells(line, cells):
    """A line with other cells after its timestamp."""
    return f"{line.split(',')[0]},{cells}"


def rows_by(check):
    """What the printed command reads."""
    return source_rows(composed(check.command[2:]).config.data.build(Source))


def layout_in(check):
    """The words of the command that say how the file is read."""
    words = dict(word.split("=", 1) for word in check.command if word.startswith("data."))
    return {key: value for key, value in words.items() if key != "data.path" and not key.startswith("data.split")}


# a file that is well


LENGTHS = ["seq_len=96", "pred_len=24"]


def test_a_healthy_file_has_no_findings_and_the_command_names_nothing_but_its_lengths(path):
    check = checked(path, lines_of(table()))
    assert check.findings == []
    assert (check.freq, check.layout.time_column) == ("h", "date")
    season = check.suggestion.seasons[0]
    assert season[:2] == (24, "a day") and season.autocorrelation > 0.9
    assert check.windows == {"train": 429 - 119, "val": 62 - 23, "test": 122 - 23}
    assert check.command == ["forecast", "train", "model=ridge", "data=csv", f"data.path={path}", *LENGTHS]
    sizes = "model.d_model=32 model.n_heads=4 model.d_ff=64 model.instance_norm=true data.batch_size=8 optim.lr=0.001"
    words = f"seq_len=96 label_len=48 pred_len=24 {sizes} schedule=cosine trainer.max_epochs=25"
    assert check.informer_command[5:] == [*words.split(), "callbacks.early_stopping.patience=5"]


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), ("\t", "."), ("|", ","), (";", ".")])
def test_separator_decimal_and_time_column_are_guessed_and_named_in_the_command(path, separator, decimal):
    data = table().rename(columns={"date": "when"})[["load", "when", "temp"]]
    data.to_csv(path, index=False, sep=separator, decimal=decimal)
    check = check_file(str(path))
    assert check.findings == []
    expected = {"data.separator": r"'\t'" if separator == "\t" else f"'{separator}'", "data.time_column": "when"}
    assert layout_in(check) == {**expected, **({"data.decimal": "','"} if decimal == "," else {})}


# gaps


def test_missing_rows_and_values_are_counted_with_the_first_and_the_longest(path):
    lines = lines_of(table())
    for line, cell in ((400, "NA"), (402, ""), (403, "")):
        lines[line] = f"{lines[line].rsplit(',', 1)[0]},{cell}"
    for first, last in ((500, 503), (300, 301), (200, 211), (100, 102)):
        del lines[first:last]
    check = checked(path, lines)
    first, all_of_them = texts(check, "mend")
    assert "Line 101: before it 2 rows of 'h' are missing, from 2021-01-09 03:00:00 on." in first
    assert all_of_them == "17 rows and 3 cells are missing, at most 11 in succession."
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
    assert (check.layout.gaps, texts(check, "error")) == (policy, [])
    assert layout_in(check) == ({} if policy == "refuse" else {"data.gaps": policy})
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
    noted = any("above 0" in text and f"{(~kept).sum()} rows are missing" in text for text in check.reasons)
    assert noted == (rule == "zero")


# columns


@pytest.mark.parametrize(("rows", "model"), [(2330, "ridge"), (2430, "boosted_trees")])
def test_trees_are_advised_where_the_val_rows_can_say_whether_they_help(path, rows, model):
    """Ten forecasts without overlap: of 24 steps in a tenth of the rows."""
    words = of_table(path, table(rows=rows)).command[2:]
    assert words[0] == f"model={model}" and ("model.error=absolute" in words) == (model == "boosted_trees")
    assert composed(words).config.model.target.lower().endswith(model.replace("_", ""))


def test_a_drifting_level_is_seen_and_the_informer_normalises_its_windows(path):
    data = table(rows=7001)
    data["temp"] += np.arange(7001) / 500
    data["load"] = 3.0
    path.write_text(data.to_csv(index=False))
    moved, still = check_file(str(path)), check_file(str(path), {"target": "load"})
    assert moved.drift[0] == "temp" and moved.drift[1] > 1
    assert "model.instance_norm=true" in moved.informer_command
    assert still.drift is None and "model.instance_norm=true" not in still.informer_command


def test_columns_that_say_nothing_are_no_targets(path):
    data = table().assign(site=3567500, fahrenheit=lambda data: 32 - 1.8 * data["load"], countdown=range(900, 287, -1))
    data["nearly"] = data["load"].where(data.index != 9)
    data.loc[7, ["load", "fahrenheit"]] = np.nan
    check = of_table(path, data)
    assert check.reasons == [
        "data.drop=[site, countdown, fahrenheit]: 'site' is always the same, 'countdown' is an even ramp, 'fahrenheit' "
        "is 'load' once more, or a line of it"
    ]
    assert rows_by(check).columns == ("load", "temp", "nearly")
    for given, drop in (
        ({"target": "fahrenheit"}, {"site", "countdown", "load"}),
        ({"target": "site"}, {"countdown", "fahrenheit"}),
        ({"known": ["countdown"], "target": "temp"}, {"site", "fahrenheit"}),
        ({"columns": ["load", "site"]}, set()),
        ({"features": "MS"}, set()),
    ):
        assert set(check_file(str(path), given).layout.drop) == drop


PLANNED = {
    "promo": np.arange(ROWS) % 7 == 0,
    "state": np.arange(ROWS) // 50 % 3,
    "price": 1.5 + np.arange(ROWS) // 30,
    "open": np.where(np.arange(ROWS) % 6 == 0, "yes", "no"),
}


def test_planned_columns_are_no_targets_and_the_words_that_tell_of_them_can_be_typed(path):
    data = table()[["date", "load"]].assign(**{name: values * 1 for name, values in PLANNED.items() if name != "open"})
    check = of_table(path, data.assign(open=PLANNED["open"]))
    assert rows_by(check).columns == ("load",)
    (note,) = [text for text in texts(check, "note") if text.startswith("Not used: ")]
    assert note == (
        "Not used: promo, state, price, open. Known in advance? data.target=load "
        'data.known="[promo,state,price,open]" future=FILE, data.holidays=DE'
    )
    words = [word for word in shlex.split(note) if word.startswith("data.") and "holidays" not in word]
    typed = typed_settings([word.rstrip(",") for word in words], "data", known_keys())
    told = check_file(str(path), typed)
    assert not [text for text in texts(told, "note") if text.startswith("Not used: ")] and not texts(told, "error")
    assert {"data.known=[promo, state, price, open]", "data.target=load"} <= set(told.command)
    assert "promo" in rows_by(told).columns
    assert check_file(str(path), {"target": "promo"}).layout.drop == ()
    assert "data.target=load" in check_file(str(path), {"known": ["promo"]}).command


def test_rows_without_targets_at_the_end_are_named_as_the_future(path):
    data = table()[["date", "load"]].assign(promo=PLANNED["promo"] * 1)
    data.loc[ROWS - 24 :, "load"] = np.nan
    words = "24 rows at the end lack load: with data.known they are the future, and no future=FILE is needed."
    assert words in texts(of_table(path, data), "note")
    assert words in texts(check_file(str(path), {"target": "load", "known": ["promo"]}), "note")


def test_where_all_columns_look_planned_all_are_targets(path):
    data = table()[["date"]].assign(a=np.arange(ROWS) % 2, b=np.arange(ROWS) % 3)
    assert rows_by(of_table(path, data)).columns == ("a", "b")


def test_a_column_of_which_most_is_missing_is_dropped(path):
    data = table().assign(rare=np.where(np.arange(ROWS) % 10, np.nan, 1.5))
    check = of_table(path, data)
    assert check.reasons == ["data.drop=[rare]: 'rare' lacks 90% of its values"]
    assert rows_by(check).columns == ("load", "temp")
    check = of_table(path, data, columns=["rare", "temp"])
    assert "Column 'rare' has no value in 549 of 611 rows" in only(check, "error")


def test_a_target_is_alone_unless_features_are_typed(path):
    path.write_text("\n".join(lines_of(table())))
    assert "data.features=S" in check_file(str(path), {"target": "temp"}).command
    assert "data.features=MS" in check_file(str(path), {"target": "temp", "features": "MS"}).command
    missing = check_file(str(path), {"target": "tmep"})
    assert "There is no column 'tmep' among load, temp. Did you mean 'temp'?" in only(missing, "error")


# how it is written


def in_parts(data):
    stamps = data["date"].dt
    parts = {name: getattr(stamps, name) for name in ("year", "month", "day", "hour")}
    return pd.DataFrame(parts).join(data.drop(columns="date"))


def with_hours(data):
    days, hours = data["date"].dt.normalize(), data["date"].dt.hour + 1
    return pd.concat([days, hours.rename("OPR")], axis=1).join(data.drop(columns="date"))


WRITTEN = {  # a file, the words that are found, and why
    "parts of the time": (in_parts, "[year, month, day, hour]", "time: columns year, month, day, hour"),
    "a clock": (
        lambda d: d.assign(Date=d["date"].dt.strftime("%m/%d/%Y"), Time=d["date"].dt.strftime("%H:%M:%S")).drop(
            columns="date"
        ),
        "[Date, Time]",
        "time: columns Date, Time",
    ),
    "hours by their values": (with_hours, "[date, OPR]", "time: columns date, OPR"),
    "the same twice": (
        lambda d: d.rename(columns={"date": "a"}).assign(b=d["date"]),
        "a",
        "time: column 'a'",
    ),
    "a day beside it": (
        lambda d: d.assign(ts=d["date"], date=d["date"].dt.normalize()),
        "ts",
        "time: column 'ts'",
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_columns_of_the_time_are_found_and_said(path, kind):
    write, column, reason = WRITTEN[kind]
    check = of_table(path, write(table()))
    assert check.reasons == [reason] and layout_in(check) == {"data.time_column": column}
    assert rows_by(check).columns == ("load", "temp")


def test_row_numbers_and_marks_are_found(path):
    data = table().astype({"temp": object})
    data.loc[[11, 17, 19], "temp"] = "M"
    data.insert(0, "No", range(1, ROWS + 1))
    check = of_table(path, data)
    assert check.reasons == ["data.missing=['M']: column 'temp': 'M' stands in 3 of 613 cells, numbers in 610"]
    assert "Left out, as they hold no numbers of the series: No (row numbers)." in texts(check, "note")
    assert rows_by(check).columns == ("load", "temp")


def test_thousands_are_found(path):
    data = table().assign(load=[f"{900 + i + i % 2:,}" for i in range(ROWS)], temp=[f"{i % 50}.5" for i in range(ROWS)])
    check = checked(path, data.to_csv(index=False, sep=";").splitlines())
    assert check.layout.thousands == "," and "data.thousands=\"','\"" in check.reasons[-1]
    assert rows_by(check).values[[0, 100], 0].tolist() == [900, 1000]


@pytest.mark.parametrize("values", [(-200,) * 40, (-37,) * 40])
def test_a_number_stands_for_no_value_only_where_it_can_mean_nothing_else(path, values):
    data = table()
    data.loc[range(100, 100 + len(values)), "temp"] = values
    check = of_table(path, data)
    assert check.layout.missing == ((-200,) if values == (-200,) * 40 else ())
    if check.layout.missing:
        assert check.reasons[0].startswith("data.missing=[-200]: column 'temp': -200 stands in 40 of 613 cells, all ")


def test_a_code_of_one_column_that_is_a_value_of_another_is_left_alone(path):
    data = table().assign(level=np.linspace(-400, 400, ROWS).round(1) + np.arange(ROWS) % 3)
    data.loc[range(100, 140), "temp"] = -200
    data.loc[153, "level"] = -200
    assert of_table(path, data).layout.missing == ()


@pytest.mark.parametrize("code", [-9999, -99.9])
@pytest.mark.parametrize("times", [1, 5])
def test_a_usual_code_far_outside_stands_for_no_value_however_seldom(path, code, times):
    data = table()
    data.loc[100 : 99 + times, "temp"] = code
    check = of_table(path, data)
    assert check.layout.missing == (code,)
    assert f"data.missing=[{code:g}]: column 'temp': {code:g} stands in {times} of 613 cells, all " in check.reasons[0]
    assert "missing (no value of temp)" in texts(check, "mend")[0]


# what nobody but the writer of a file can choose


def series(count, **columns):
    """Series below one another; columns: what each cell of a series is, by its number."""
    parts = [
        table(rows=97, seed=i).assign(**{name: cell(i) for name, cell in columns.items()})[["date", "load", *columns]]
        for i in range(count)
    ]
    return pd.concat(parts)


def exchanged(stamp):
    """The day for the month from June on, where it can be one."""
    return stamp.replace(month=stamp.day, day=stamp.month) if stamp.month > 5 and stamp.day <= 12 else stamp


def ambiguous_comma(data):
    return data.assign(load=[f"{1 + i % 9},{i:03}" for i in range(len(data))], temp=range(100, 100 + len(data)))


COINS = np.random.default_rng(0).random(ROWS) < 0.5
CHOICES = {  # a file, what is seen, and the keys that choose
    "two times": (
        lambda: table().assign(end=lambda data: data["date"] + pd.Timedelta("1h")),
        "2 times stand in the columns, and differ.",
        ["data.time_column=date", "data.time_column=end"],
    ),
    "month or day": (
        lambda: (
            table(rows=120, freq="MS").drop(index=57).assign(date=lambda data: data["date"].dt.strftime("%d/%m/%Y"))
        ),
        "is 2021-02-01 00:00:00 with",
        ["data.time_format=\"'%d/%m/%Y'\""],
    ),
    "a comma": (
        lambda: ambiguous_comma(table()),
        "no cell of the file says which",
        ["data.decimal=\"','\"", "data.thousands=\"','\""],
    ),
    "no time": (
        lambda: table().drop(columns="date"),
        "No column of 'load', 'temp' holds timestamps.",
        ["data.time_column=null data.freq=steps", "data.time_column=null data.freq=h data.start=2016-07-01"],
    ),
    "series": (
        lambda: series(3, place="abc".__getitem__),
        "3 series stand below one another: 194 of 291 rows repeat a timestamp, and 'place' tells them apart.",
        ["data.id_column=place", 'data.where="{place: a}"'],
    ),
    "series by numbers": (
        lambda: series(3, store=lambda i: i + 3),
        "and 'store' tells them apart.",
        ["data.id_column=store", 'data.where="{store: 3}"'],
    ),
    "ids like numbers": (
        lambda: series(4, sku=["1E05", "100000", "0010", "10"].__getitem__),
        "4 series stand below one another",
        ["data.id_column=sku", "data.where=\"{sku: '1E05'}\""],
    ),
    "one after another": (
        lambda: table().assign(sensor=["old"] * 300 + ["new"] * 313),
        "2 series stand below one another, it seems: 'sensor' tells them apart.",
        ["data.id_column=sensor", 'data.where="{sensor: new}"', 'data.drop="[sensor]"'],
    ),
    "levels": (
        lambda: table().assign(meter=np.where(COINS, "a", "b"), load=lambda data: data["load"] + 40 * COINS),
        "'meter' tells them apart",
        ['data.drop="[meter]"'],
    ),
    "steps of a panel": (
        lambda: series(3, unique_id="abc".__getitem__).assign(t=np.tile(np.arange(97), 3)).drop(columns="date"),
        "and 'unique_id' tells them apart.",
        ["data.id_column=unique_id"],
    ),
    "nothing tells apart": (
        lambda: series(3),
        "194 of 291 rows repeat a timestamp with other values.",
        ["data.duplicates=last", "data.duplicates=mean", "data.duplicates=sum"],
    ),
    "days exchanged": (
        lambda: table(rows=365, freq="D", start="2023-01-01").assign(
            date=lambda data: [exchanged(stamp) for stamp in data["date"]]
        ),
        "data.time_format where day and month may be exchanged",
        [],
    ),
    "revised rows": (
        lambda: pd.concat([table(), table(seed=1)[100:140]]),
        "40 of 653 rows repeat a timestamp with other values.",
        ["data.duplicates=last"],
    ),
    "six days a week": (
        lambda: table(rows=365, freq="D")[lambda data: data["date"].dt.day_name() != "Sunday"],
        "No row is of a Sunday.",
        ["data.gaps=zero", "data.gaps=interpolate", 'data.time_column=null data.freq=steps data.drop="[date]"'],
    ),
    "hours of business": (
        lambda: table(rows=2500)[lambda data: data["date"].dt.hour.between(9, 17)],
        "No row is of 0:00, 1:00, ",
        ["data.gaps=zero", 'data.time_column=null data.freq=steps data.drop="[date]"'],
    ),
    "a month of an office": (
        lambda: table(rows=120, freq="MS").assign(date=lambda data: data["date"].dt.strftime("%YM%m")),
        "Column 'date' looks like a calendar's, as '2021M02': set data.time_column=date",
        ["data.time_column=date data.time_format=\"'%YM%m'\""],
    ),
    "a zone in brackets": (
        lambda: table().assign(when=lambda data: data["date"].dt.strftime("%Y-%m-%dT%H:%M:%S+01:00[Europe/Paris]"))[
            ["when", "load"]
        ],
        "Column 'when' looks like a calendar's",
        ["data.time_column=when data.time_format=\"'%Y-%m-%dT%H:%M:%S%z[Europe/Paris]'\""],
    ),
    "uneven minutes": (
        lambda: table(rows=1999, freq="30min").assign(
            date=lambda data: data["date"] + pd.to_timedelta(np.random.default_rng(0).integers(0, 600, 1999), unit="s")
        ),
        "apart as a rule, at uneven times.",
        ["data.resample=30min data.aggregate=mean"],
    ),
    "most rows gone": (
        lambda: table(rows=600, freq="D")[lambda data: data["date"].dt.day.isin([1, 11, 21])],
        "Rows with values are 10 days, 0:00:00 apart as a rule, at uneven times.",
        ["data.resample=MS data.aggregate=mean"],
    ),
}


@pytest.mark.parametrize("kind", CHOICES)
def test_several_readings_are_refused_with_the_keys_that_choose(path, kind):
    make, seen, keys = CHOICES[kind]
    path.write_text(make().to_csv(index=False, sep=";" if kind == "a comma" else ","))
    refused = check_file(str(path))
    assert refused.command is None and seen in only(refused, "error")
    for words in keys:
        assert words.removeprefix("data.") in only(refused, "error") or words.startswith("data.duplicates")
        check = check_file(str(path), typed_settings(shlex.split(words), "data", known_keys()))
        assert not texts(check, "error")
        assert set(shlex.split(words)) <= {*check.command, "data.time_column=date"}
        assert (len(rows_by(check)) > 1) == ("id_column" in words)


def test_a_calendar_that_no_format_reads_is_named(path):
    data = table(rows=96).assign(date=[f"{1 + quarter % 4}Q{quarter // 4 + 70}" for quarter in range(96)])
    seen = "Column 'date' looks like a calendar's, as '1Q70', but no data.time_format reads it"
    assert seen in only(of_table(path, data), "error")


def printed_file(check, folder, monkeypatch):
    """The file that the command in a refusal writes."""
    monkeypatch.chdir(folder)
    words = shlex.split(only(check, "error").partition(": python ")[2])
    exec(words[1])  # python -c
    return str(folder / NEW_FILE)


def test_a_line_of_units_is_named_with_the_command_that_leaves_it_out(path, tmp_path, monkeypatch):
    lines = lines_of(table())
    check = checked(path, [lines[0], "(UTC),MW,degC", *lines[1:]])
    assert "Line 2 holds no time and no number, but words, as '(UTC)'" in only(check, "error")
    assert rows_by(check_file(printed_file(check, tmp_path, monkeypatch))).lengths.tolist() == [ROWS]


def test_dates_in_the_header_are_named_with_the_command_that_turns_them(path, tmp_path, monkeypatch):
    wide = series(3, place="abc".__getitem__).pivot(index="place", columns="date", values="load").reset_index()
    check = of_table(path, wide)
    assert "The names of 97 columns are times, the first '2021-01-05 00:00:00'" in only(check, "error")
    told = check_file(printed_file(check, tmp_path, monkeypatch), {"id_column": "place"})
    assert rows_by(told).lengths.tolist() == [97, 97, 97]


def test_equal_rows_count_once(path):
    lines = lines_of(table())
    lines[20:20] = lines[20:21]
    check = checked(path, lines)
    assert rows_by(check).lengths.tolist() == [ROWS]


def test_the_fewest_columns_that_tell_series_apart_are_named(path):
    data = series(6, kind=lambda i: "ab"[i % 2], region=lambda i: "xyz"[i // 2], size=lambda i: i % 2)
    check = of_table(path, data)
    assert 'data.id_column="[kind, region]"' in only(check, "error") and check.ids == ("kind", "region")
    panel = check_file(str(path), {"id_column": ["kind", "region"]})
    assert "data.id_column=[kind, region]" in panel.command
    assert len(rows_by(panel)) == 6 and layout_in(panel)["data.drop"] == "[size]"
    some = check_file(str(path), {"where": {"region": "y"}})
    assert 'data.id_column=kind, or choose one, as data.where="{region: y, kind: a}"' in only(some, "error")


def test_what_is_told_is_kept(path):
    lines = lines_of(table())
    lines.insert(8, with_cells(lines[7], "1,2"))
    check = checked(path, lines, duplicates="last", columns=["temp"], gaps="mask")
    assert check.reasons == []
    assert layout_in(check) == {"data.duplicates": "last", "data.columns": "[temp]", "data.gaps": "mask"}
    assert "stands already (line 8), with other values" in only(checked(path, lines, duplicates="error"), "error")


WILD = Path(__file__).parents[3] / "shared" / "data" / "wild"


@pytest.mark.skipif(not WILD.is_dir(), reason="the files are not here")
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (file.stat().st_size > 600_000))
        for file in sorted(WILD.glob("*.csv"))
    ],
)
def test_the_printed_command_of_a_real_file_reads_it(file):
    check = check_file(str(file))
    assert check.command or " set data." in only(check, "error").lower() or check.ids
    check = check_file(str(file), {"id_column": list(check.ids)}) if check.ids else check
    if check.command:
        panel = rows_by(check)
        assert len(panel.values) > 50 and np.isfinite(panel.values).all()
