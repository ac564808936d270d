"""Times with a zone: they come back in it, and the night in which the clock is set back has all of its hours."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame
from program import call

from forecast import Forecaster
from forecast.data.prepare import frame_calendar
from forecast.data.split import DateSplit, panel_cuts

ZONE = "Europe/Berlin"
BACK = pd.Timestamp("2023-10-29 01:00", tz=ZONE)  # an hour later the clock is set back by an hour
RIDGE = ["trainer.accelerator=cpu", "callbacks.figures=null", "calibration=none", "logger=none", "checks.leakage=false"]


def series(stamps, period):
    noise = np.random.default_rng(8).normal(size=len(stamps))
    return pd.DataFrame(
        {"y": (10 * np.sin(np.arange(len(stamps)) * 2 * np.pi / period) + noise).round(3)}, index=stamps
    )


KINDS = {
    "hours": series(pd.date_range(end=BACK, periods=500, freq="h", name="when"), 24),
    "days": series(pd.date_range(end=BACK.normalize(), periods=400, freq="D", name="when"), 7),
    "hours of a fixed offset": series(pd.date_range("2023-01-01", periods=300, freq="h", tz="+05:30", name="when"), 24),
    "hours in UTC": series(pd.date_range("2023-01-01", periods=300, freq="h", tz="UTC", name="when"), 24),
}


def after(table):
    """The six steps after a table, in its zone."""
    step = pd.Timedelta(hours=1) if table.index.freqstr == "h" else pd.DateOffset(days=1)
    return [table.index[-1] + n * step for n in range(1, 7)]


def fit(table, folder, *overrides):
    return Forecaster("ridge", seq_len=24, pred_len=6, overrides=[*RIDGE, f"hydra.run.dir={folder}", *overrides]).fit(
        table
    )


@pytest.fixture(scope="module", params=KINDS)
def fitted(request, tmp_path_factory):
    table = KINDS[request.param]
    return table, fit(table, tmp_path_factory.mktemp("zone") / "run")


def test_a_time_zone_comes_back_as_it_went_in(fitted):
    table, forecaster = fitted
    for given in (None, table, table.reset_index()):
        found = forecaster.predict(given)
        times = pd.DatetimeIndex(found.get("when", found.index))
        assert str(times.tz) == str(table.index.tz) and list(times) == after(table) and times.name == "when"


def test_a_backtest_has_it_too(fitted):
    table, forecaster = fitted
    found = forecaster.backtest(table, folds=2)
    assert str(found["time"].dt.tz) == str(table.index.tz)
    assert found["time"].isin(table.index).all() and found["cutoff"].isin(table.index).all()


def test_times_without_a_zone_have_none(tmp_path):
    table = KINDS["hours in UTC"].tz_localize(None)
    assert fit(table, tmp_path / "run").predict().index.tz is None


@pytest.mark.parametrize(
    ("kind", "ending"),
    [*((kind, "csv") for kind in KINDS), ("hours", "parquet"), ("hours of a fixed offset", "parquet")],
)
def test_a_file_is_continued_in_its_zone(tmp_path, kind, ending):
    table = KINDS[kind]
    path = tmp_path / f"series.{ending}"
    if ending == "csv":
        table.to_csv(path)
    else:
        table.reset_index().to_parquet(path, index=False)
    data = ["data=csv", f"data.path={path}", "data.time_column=when", "seq_len=24", "pred_len=6"]
    if kind == "days":  # midnights there, and no hour that is the same every day in UTC
        data.append("data.time_zone=Europe/Berlin")
    call("train", "model=ridge", *data, *RIDGE, f"hydra.run.dir={tmp_path}/run")
    output = tmp_path / "forecast.csv"
    call("predict", f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt", f"output={output}")
    written = pd.read_csv(output)["when"]
    assert list(pd.to_datetime(written, utc=True)) == [stamp.tz_convert("UTC") for stamp in after(table)]
    offsets = [pd.Timestamp(cell).utcoffset() for cell in written]
    # Of rows in summer no offset tells the zone: they go on with it.
    expected = [table.index[0]] * 6 if kind == "hours" else after(table)
    assert offsets == [stamp.utcoffset() for stamp in expected]


def test_one_row_that_is_known_in_advance_is_read_as_the_others(tmp_path):
    table = KINDS["days"].assign(promo=np.arange(400) % 5)
    overrides = ["data.target=[y]", "data.known=[promo]", "pred_len=1"]
    forecaster = Forecaster("ridge", seq_len=24, overrides=[*RIDGE, *overrides, f"hydra.run.dir={tmp_path}/run"])
    forecaster.fit(table)
    (step, *_) = after(table)
    future = pd.DataFrame({"promo": [3]}, index=pd.DatetimeIndex([step], name="when"))
    assert list(forecaster.predict(future=future).index) == [step]


CLOCK = pd.date_range("2022-10-01", "2023-03-26 12:00", freq="h", tz=ZONE)  # set back in October, on in March
DAILY = series(CLOCK, 24).rename_axis("when")


def file_until(path, end):
    """The hours up to a time in the zone, each with its offset."""
    DAILY[: pd.Timestamp(end, tz=ZONE)].to_csv(path)
    return path


@pytest.fixture(scope="module")
def of_hours(tmp_path_factory):
    """A training on hours in a zone, up to the hour before the clock is set on."""
    folder = tmp_path_factory.mktemp("clock")
    data = ["data=csv", f"data.path={file_until(folder / 'winter.csv', '2023-03-26 01:00')}", "data.time_column=when"]
    words = [f"data.time_zone={ZONE}", "seq_len=48", "pred_len=6", *RIDGE, f"hydra.run.dir={folder}/run"]
    call("train", "model=ridge", *data, *words)
    return folder


@pytest.mark.parametrize(
    ("end", "offsets"), [("2022-10-30 01:00", [2, 1, 1, 1, 1, 1]), ("2023-03-26 01:00", [2] * 6)], ids=["back", "on"]
)
def test_a_forecast_over_a_change_of_the_clock_has_each_instant_once(of_hours, tmp_path, end, offsets):
    path, output = file_until(tmp_path / "history.csv", end), tmp_path / "forecast.csv"
    call("predict", f"ckpt_path={of_hours}/run/checkpoints/best.ckpt", f"data.path={path}", f"output={output}")
    stamps = [pd.Timestamp(cell) for cell in pd.read_csv(output)["when"]]
    assert stamps == [pd.Timestamp(end, tz=ZONE) + n * pd.Timedelta(hours=1) for n in range(1, 7)]
    assert [stamp.utcoffset().seconds // 3600 for stamp in stamps] == offsets
    path.write_text(path.read_text() + "".join(output.read_text().splitlines(keepends=True)[1:]))
    whole = read_frame(path, time_column="when", time_zone=ZONE)
    assert whole.freq == "h" and len(whole.values) == len(DAILY[: stamps[-1]]) and whole.time_zone == ZONE


def test_an_update_goes_on_over_a_change_of_the_clock(of_hours, tmp_path):
    words = [f"ckpt_path={of_hours}/run/checkpoints/best.ckpt", f"hydra.run.dir={tmp_path}/kept"]
    for end in ("2023-03-26 01:00", "2023-03-26 09:00"):
        call("update", *words, f"data.path={file_until(tmp_path / 'history.csv', end)}")
    log = pd.read_csv(tmp_path / "kept/log.csv")
    assert log["time"].tolist() == ["2023-03-26 01:00:00", "2023-03-26 09:00:00"]
    assert pd.read_csv(tmp_path / "kept/latest.csv")["when"].tolist()[0] == "2023-03-26 10:00:00+02:00"


def test_calendar_dates_and_splits_are_those_of_the_clock(tmp_path):
    path = file_until(tmp_path / "all.csv", "2023-03-26 12:00")
    frame = read_frame(path, time_column="when", time_zone=ZONE, since="2022-10-29")
    local = DAILY[pd.Timestamp("2022-10-29", tz=ZONE) :].index.tz_localize(None)
    assert (frame.timestamps == local).all()
    hours = frame_calendar(frame.panel, "fixed").numpy()[:, 3]
    assert (hours == local.hour).all()
    cuts = panel_cuts(DateSplit(val_start="2023-03-01", test_start="2023-03-26"), frame.panel, pred_len=6)
    starts = [str(local[int(cuts[name].first[0])]) for name in ("val", "test")]
    assert starts == ["2023-03-01 00:00:00", "2023-03-26 00:00:00"]
    days = read_frame(path, time_column="when", time_zone=ZONE, resample="D", aggregate="mean")
    assert days.timestamps[0] == pd.Timestamp("2022-10-01") and days.freq == "D"


def test_hours_by_a_clock_cannot_be_exported(of_hours, tmp_path, capsys):
    with pytest.raises(SystemExit):
        call("export", f"{of_hours}/run/checkpoints/best.ckpt", tmp_path / "out")
    assert f"the clock of data.time_zone={ZONE}, which no exported file follows" in capsys.readouterr().err
