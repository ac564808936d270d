"""What nobody but the writer of a file can choose is refused by a check, with the keys that choose."""

import shlex

import numpy as np
import pandas as pd
import pytest
from data.checked_files import ROWS, checked, layout_in, lines_of, of_table, only, rows_by, table, texts

from forecast.apps.common.tables import typed_settings
from forecast.data.describe.check import check_file, known_keys
from forecast.data.describe.guess import NEW_FILE


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.csv"


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


def by_days(periods, written, count=24):
    """Rows of days in one column and the parts of each in another, the last day of one part more."""
    days = table(rows=(periods + 1) * count, freq=pd.Timedelta("1D") / count).assign(
        part=lambda data: data.index % count + 1
    )
    days.loc[periods * count, ["date", "part"]] = days["date"].iloc[periods * count - 1], count + 1
    return days[: periods * count + 1].assign(
        date=lambda data: data["date"].dt.date, part=lambda data: [written(part) for part in data["part"]]
    )


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
        "no cell of the column says which",
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
    "a calendar that no format reads": (
        lambda: table(rows=96).assign(date=[f"{1 + quarter % 4}Q{quarter // 4 + 70}" for quarter in range(96)]),
        "Column 'date' looks like a calendar's, as '1Q70', but no data.time_format reads it",
        [],
    ),
    "prices with their sign": (
        lambda: table().assign(load=lambda data: [f"€ {load:.2f}" for load in data["load"].abs()]),
        "Column 'load' may hold numbers, as '€ ",
        ["data.units=\"['€']\"", 'data.drop="[load]"'],
    ),
    "numbers of several units": (
        lambda: table().assign(load=[f"{i % 90}.5 {'cm' if i % 7 else 'm'}" for i in range(ROWS)]),
        "Column 'load' may hold numbers, as '0.5 m': correct it, or leave it out",
        ['data.drop="[load]"'],
    ),
    "orders": (
        lambda: pd.DataFrame({"date": table()["date"].repeat(3), "order": [f"C{i}" for i in range(3 * ROWS)], "n": 1}),
        "1226 of 1839 rows repeat a timestamp with other values.",
        ["data.duplicates=sum"],
    ),
    "days exchanged in whole years": (
        lambda: table(rows=8760, start="2023-01-01").assign(
            date=lambda data: [
                stamp.replace(month=stamp.day, day=stamp.month) if stamp.day < 13 else stamp for stamp in data["date"]
            ]
        ),
        "Day and month may be exchanged",
        ["data.time_column=null data.freq=h data.start=\"'2023-01-01 00:00:00'\""],
    ),
    "three days a week": (
        lambda: table(rows=900, freq="D")[lambda data: data["date"].dt.day_of_week.isin([0, 2, 4])],
        "No row is of a Tuesday, a Thursday, a Saturday, a Sunday.",
        ["data.gaps=zero", 'data.time_column=null data.freq=steps data.drop="[date]"'],
    ),
    "hours from and to": (
        lambda: table(rows=1440).assign(
            part=[f"{hour % 24:02}:00-{(hour + 1) % 24:02}:00" for hour in range(1440)],
            date=lambda data: data["date"].dt.date,
        ),
        "or, if it counts the parts of a day",
        ['data.time_column=null data.freq=h data.start=2021-01-05 data.drop="[date, part]"'],
    ),
    "local midnights as numbers": (
        lambda: table(rows=500, freq="D").assign(
            date=lambda data: data["date"].dt.tz_localize("Europe/Berlin").astype("int64") // 10**6
        ),
        "data.time_zone=Europe/Berlin",
        ["data.time_zone=Europe/Berlin"],
    ),
    "thousands at a point": (
        lambda: table().assign(
            temp=[f"{1 + i // 300}.{i % 300 + 100}" if i > 290 else f"{i}" for i in range(ROWS)], load=range(ROWS)
        ),
        "'1.391' is 1.391 with",
        ["data.decimal=\"'.'\"", "data.decimal=\"','\" data.thousands=\"'.'\""],
    ),
    "a day and a month of an office": (
        lambda: table(rows=264, start="2023-01-01").assign(
            date=lambda data: data["date"].dt.strftime("%d.%m.%Y %H:%M Uhr")
        ),
        "Column 'date' looks like a calendar's, as '01.01.2023 00:00 Uhr'",
        ["data.time_column=date data.time_format=\"'%d.%m.%Y %H:%M Uhr'\""],
    ),
    "half hours of days": (
        lambda: by_days(40, int, 48),
        "49 series stand below one another",
        ["data.id_column=part", 'data.time_column=null data.freq=30min data.start=2021-01-05 data.drop="[date, part]"'],
    ),
    "hours of days by name": (
        lambda: by_days(60, "HE{:02}".format),
        "or, if it counts the parts of a day",
        ['data.time_column=null data.freq=h data.start=2021-01-05 data.drop="[date, part]"'],
    ),
    "hours of days in hundreds": (
        lambda: by_days(60, lambda part: part * 100),
        "or, if it counts the parts of a day",
        ['data.time_column=null data.freq=h data.start=2021-01-05 data.drop="[date, part]"'],
    ),
    "a 25th hour": (
        lambda: by_days(100, int),
        "or, if it counts the parts of a day",
        ['data.time_column=null data.freq=h data.start=2021-01-05 data.drop="[date, part]"'],
    ),
    "a special Sunday": (
        lambda: table(rows=365, freq="D")[lambda data: (data["date"].dt.day_name() != "Sunday") | (data.index > 360)],
        "Hardly a row is of a Sunday.",
        ["data.gaps=zero", "data.gaps=interpolate"],
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


def test_equal_rows_count_once_and_that_is_said(path):
    check = of_table(path, pd.concat([table(), table()[100:140]]))
    assert "40 of 653 rows repeat a timestamp with equal values, and count once" in "".join(texts(check, "note"))


def printed_file(check, folder, monkeypatch):
    """The file that the command in a refusal writes."""
    monkeypatch.chdir(folder)
    words = shlex.split(only(check, "error").partition(": python ")[2])
    exec(words[1])  # python -c
    return str(folder / NEW_FILE)


UNITS = {
    "units": (lambda lines: [lines[0], "(UTC),MW,degC", *lines[1:]], "Line 2 holds no time and no number, but words"),
    "a logger": (
        lambda lines: ["TOA5,CR1,CR1,12,Std,a.CR1,34", lines[0], "TS,MW,degC", ",Avg,Smp", *lines[1:]],
        "Line 3, 4 holds no time and no number, but words, as 'degC'",
    ),
    "remarks, and types": (
        lambda lines: [
            "# by the survey",
            "#",
            *(line.replace(",", "\t") for line in [lines[0], "20d,14n,14n", *lines[1:]]),
        ],
        "Line 4 holds no time and no number, but words, as '20d'",
    ),
}


@pytest.mark.parametrize("kind", UNITS)
def test_lines_of_units_are_named_with_the_command_that_leaves_them_out(path, tmp_path, monkeypatch, kind):
    make, seen = UNITS[kind]
    check = checked(path, make(lines_of(table())))
    assert seen in only(check, "error")
    assert rows_by(check_file(printed_file(check, tmp_path, monkeypatch))).lengths.tolist() == [ROWS]


STORES = {
    "all": (lambda data: data["date"].dt.day_name() != "Sunday", "No row of some series is of a Sunday."),
    "some": (lambda data: (data["date"].dt.day_name() != "Sunday") | (data["store"] == "a"), "No row of some series"),
    "dekads": (lambda data: data["date"].dt.day.isin([1, 11, 21]), "Rows with values are 10 days, 0:00:00 apart"),
}


@pytest.mark.parametrize("kind", STORES)
def test_the_days_that_series_of_a_panel_lack_are_asked_for(path, kind):
    kept, seen = STORES[kind]
    data = pd.concat([table(rows=365, freq="D").assign(store=store) for store in "abc"])
    assert seen in only(of_table(path, data[kept], id_column="store"), "error")


def test_months_in_the_header_are_named_with_the_command_that_stacks_them(path, tmp_path, monkeypatch):
    names = ["year", *pd.date_range("2021", periods=12, freq="MS").strftime("%b")]
    wide = pd.DataFrame([[year, *range(year % 9, 12 + year % 9)] for year in range(1950, 2000)], columns=names)
    told = check_file(printed_file(of_table(path, wide), tmp_path, monkeypatch))
    assert (told.freq, told.table.values[:13, 0].tolist()) == ("MS", [*range(6, 18), 7])


@pytest.mark.parametrize("behind", ["", " [YR2021]"])
def test_dates_in_the_header_are_named_with_the_command_that_turns_them(path, tmp_path, monkeypatch, behind):
    wide = series(3, place="abc".__getitem__).pivot(index="place", columns="date", values="load")
    check = of_table(path, wide.rename(columns=lambda stamp: f"{stamp}{behind}").reset_index())
    assert f"The names of 97 columns are times, the first '2021-01-05 00:00:00{behind}'" in only(check, "error")
    told = check_file(printed_file(check, tmp_path, monkeypatch), {"id_column": "place"})
    assert rows_by(told).lengths.tolist() == [97, 97, 97]


def test_the_fewest_columns_that_tell_series_apart_are_named(path):
    data = series(6, kind=lambda i: "ab"[i % 2], region=lambda i: "xyz"[i // 2], size=lambda i: i % 2)
    check = of_table(path, data)
    assert 'data.id_column="[kind, region]"' in only(check, "error") and check.ids == ("kind", "region")
    panel = check_file(str(path), {"id_column": ["kind", "region"]})
    assert "data.id_column=[kind, region]" in panel.command
    assert len(rows_by(panel)) == 6 and layout_in(panel)["data.drop"] == "[size]"
    some = check_file(str(path), {"where": {"region": "y"}})
    assert 'data.id_column=kind, or choose one, as data.where="{region: y, kind: a}"' in only(some, "error")
