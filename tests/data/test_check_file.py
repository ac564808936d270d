"""A check reads any file, finds all that is wrong at once, and suggests what the strict reader then takes."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.checked_files import ROWS, checked, layout_in, lines_of, of_table, only, rows_by, table, texts, with_cells
from data.csv_files import read_frame

from forecast.apps.common.tables import typed_settings
from forecast.config.run_config import composed
from forecast.data.describe.check import check_file, known_keys


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my.csv"


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


@pytest.mark.parametrize("given", [{}, {"id_column": "shop"}])
@pytest.mark.parametrize(
    ("least", "share", "rule"), [(1, 0.4, "zero"), (0, 0.4, "interpolate"), (1, 0.02, "interpolate")]
)
def test_counts_without_a_zero_lack_the_rows_of_nothing(path, least, share, rule, given):
    """A shop that writes no row on a day without a sale; days with a 0 among the rows say that all days are written."""
    draws = np.random.default_rng(0)
    sold = pd.DataFrame({"date": pd.date_range("2021-01-05", periods=ROWS), "sold": draws.poisson(2, ROWS) + least})
    kept = draws.random(ROWS) > share
    kept[[0, -1]] = True
    check = of_table(path, pd.concat([sold[kept].assign(shop=shop) for shop in ("ab" if given else "a")]), **given)
    assert f"data.gaps={rule}" in check.command
    noted = any(
        "above 0" in text and f"{(~kept).sum() * (1 + len(given))} rows are missing" in text for text in check.reasons
    )
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
    hours = np.arange(ROWS)
    told = hours // 24 % 7, np.sin(hours * np.pi / 12).round(3)  # by the day of the week, by the hour
    for ramp in (hours + (hours > 99), (hours / 12).round(2), hours % 50, *told):
        assert "data.drop=[ramp]: 'ramp' is " in of_table(path, table().assign(ramp=ramp)).reasons[0]
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
