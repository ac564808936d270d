"""Pictures of forecasts and of attention: what is drawn where, how it is named, what is refused."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import ConciseDateFormatter, date2num

from forecast.report import figures
from forecast.report.drawn import LEAST_PAST, step_numbers
from forecast.report.figures import forecast_figure

W, L, P, T = 3, 61, 7, 5
COLUMNS = ["HUFL", "HULL", "MUFL", "LUFL", "OT"]
FUTURE = ("truth", "forecast", "baseline")


def make(windows=W, length=L, pred_len=P, targets=T, **changes):
    draw = np.random.default_rng(1).normal
    starts = [pd.Timestamp("2018-01-30 05:00") + pd.Timedelta(days=9 * window) for window in range(windows)]
    arguments = {
        "past": draw(size=(windows, length, targets)),
        **{name: draw(size=(windows, pred_len, targets)) for name in FUTURE},
        "timestamps": [pd.date_range(start, periods=length + pred_len, freq="h") for start in starts],
        "columns": COLUMNS[:targets],
    }
    return {**arguments, **changes}


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def panels(arguments, rows=4):
    """The axes, a row a column of the data, of the given arguments."""
    return np.array(forecast_figure(**arguments, max_columns=rows).axes).reshape(rows, -1)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].texts]


def test_there_is_one_panel_for_each_window_and_shown_column():
    assert len(forecast_figure(**make(), max_columns=4).axes) == W * 4
    assert len(forecast_figure(**make(), max_columns=9).axes) == W * T
    assert len(forecast_figure(**make(windows=1, targets=1)).axes) == 1


def test_each_line_is_the_given_series_of_its_window_and_column():
    arguments = make()
    for (column, window), axes in np.ndenumerate(panels(arguments)):
        drawn, times = lines(axes), date2num(arguments["timestamps"][window].to_numpy())
        end = L - LEAST_PAST
        series = {name: (times[L:], arguments[name][window, :, column]) for name in FUTURE}
        for name, (x, y) in {**series, "past": (times[end:L], arguments["past"][window, end:, column])}.items():
            np.testing.assert_array_equal(drawn[name].get_ydata(), y)
            np.testing.assert_array_equal(date2num(drawn[name].get_xdata()), x)


@pytest.mark.parametrize(("length", "pred_len", "expected"), [(61, 7, 48), (61, 53, 53), (11, 53, 11)])
def test_the_shown_past_is_as_long_as_the_future_or_longer(length, pred_len, expected):
    axes = panels(make(length=length, pred_len=pred_len))[0, 0]
    assert len(lines(axes)["past"].get_ydata()) == expected


def test_a_vertical_line_stands_at_the_last_known_step():
    arguments = make()
    axes = panels(arguments)[0, 1]
    (origin,) = [line for line in axes.lines if line.get_label().startswith("_")]
    last = arguments["timestamps"][1][L - 1]
    assert set(date2num(origin.get_xdata())) == {date2num(last)}
    assert axes.get_title() == f"known until {last:%Y-%m-%d %H:%M}"


def test_there_is_one_legend_and_it_names_the_baseline():
    figure = forecast_figure(**make(), baseline_name="seasonal naive (24 steps)")
    assert len(figure.legends) == 1
    assert legend(figure) == ["past", "truth", "seasonal naive (24 steps)", "forecast"]
    assert all(axes.get_legend() is None for axes in figure.axes)


def test_a_future_without_truth_or_baseline_has_two_lines_and_the_origin():
    figure = forecast_figure(**make(windows=1, truth=None, baseline=None))
    assert legend(figure) == ["past", "forecast"]
    assert len(figure.axes[0].lines) == 3


def test_the_columns_left_out_are_counted_in_the_title():
    figure = forecast_figure(**make(), title="informer", max_columns=2)
    assert figure.get_suptitle() == "informer (3 of 5 target columns are not shown)"
    assert forecast_figure(**make(), title="informer", max_columns=5).get_suptitle() == "informer"


def test_the_target_is_drawn_first_with_its_own_values():
    arguments = make()
    axes = panels(arguments | {"first": COLUMNS[3]})
    assert [a.get_ylabel().split("\n")[0] for a in axes[:, 0]] == [COLUMNS[i] for i in (3, 0, 1, 2)]
    np.testing.assert_array_equal(lines(axes[0, 0])["forecast"].get_ydata(), arguments["forecast"][0, :, 3])
    assert panels(arguments | {"first": "unknown"})[0, 0].get_ylabel().startswith(COLUMNS[0])


def test_the_shown_columns_are_named_with_their_units_and_the_time_axis_shows_dates():
    axes = panels(make())
    assert [a.get_ylabel() for a in axes[:, 0]] == [f"{name}\noriginal units" for name in COLUMNS[:4]]
    assert isinstance(axes[-1, -1].xaxis.get_major_formatter(), ConciseDateFormatter)


def test_times_of_a_zone_are_shown_as_its_clocks_show_them():
    index = pd.date_range("2018-01-30", periods=L + P, freq="h", tz="Asia/Shanghai")
    axes = panels(make(windows=1, timestamps=[index]))[0, 0]
    assert lines(axes)["forecast"].get_xdata()[0] == index[L].tz_localize(None)


def test_rows_that_no_calendar_counts_are_shown_as_steps():
    stamps = pd.date_range("1970-01-01", periods=L + P + 3, freq="ms")[3:]  # as data.freq=steps reads the rows 4 ...
    axes = forecast_figure(**make(windows=1, timestamps=[stamps])).axes
    assert axes[-1].get_xlabel() == "step" and axes[0].get_title() == f"known until step {3 + L}"
    past = lines(axes[0])["past"]
    assert past.get_xdata()[-1] == 3 + L
    assert not isinstance(axes[0].xaxis.get_major_formatter(), ConciseDateFormatter)


@pytest.mark.parametrize("index", [("2021-01-01", "ms"), ("1970-01-01", "h"), ("1970-01-01 00:00:00.0005", "ms")])
def test_times_that_a_clock_has_measured_are_no_steps(index):
    start, freq = index
    assert step_numbers(pd.date_range(start, periods=5, freq=freq)) is None


NAMES_OF_OTHERS = ["$\\frac{", "price in $ and $ more", "a\x1b[2J", "two\nlines", "温度", "n" * 600]


@pytest.mark.parametrize("name", NAMES_OF_OTHERS, ids=ascii)
def test_any_name_of_a_column_is_drawn_on_one_line_without_a_warning(tmp_path, name):
    figure = figures.forecast_figure(**make(windows=1, targets=1, columns=[name]), title=f"forecast of {name}")
    figures.save(figure, tmp_path / "x.png")
    line, units = figure.axes[0].get_ylabel().split("\n")
    assert units == "original units" and line.isprintable()
    assert line == name or name not in line
    assert len(line) <= 25


def test_the_bars_are_the_shares():
    shares = np.array([0.0, 0.25, 1.0])
    figure = figures.active_rows_figure(shares, "decoder")
    assert [bar.get_height() for bar in figure.axes[0].patches] == [0.0, 0.25, 1.0]
    assert figure.get_suptitle() == "decoder"


@pytest.mark.parametrize("freq", ["100ms", "7s", "min", "7min", "h", "5h", "D", "W-SUN", "MS", "YS"])
@pytest.mark.parametrize("length", [3, 24, 120])
def test_any_span_of_time_gets_an_axis_without_a_warning(freq, length):
    times = pd.date_range("1901-01-01", periods=length, freq=freq)
    past, forecast = np.zeros((1, length - 1, 1)), np.zeros((1, 1, 1))
    figure = forecast_figure(past=past, truth=None, forecast=forecast, timestamps=[times], columns=["a"])
    figure.draw_without_rendering()  # pytest makes a warning an error
