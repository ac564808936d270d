import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import ConciseDateFormatter, date2num

from forecast.report import figures

W, L, P, T = 3, 61, 7, 5
COLUMNS = ["HUFL", "HULL", "MUFL", "LUFL", "OT"]


def make(windows=W, length=L, pred_len=P, targets=T, **changes):
    draw = np.random.default_rng(1).normal
    start = pd.Timestamp("2018-01-30 05:00")
    given = {
        "past": draw(size=(windows, length, targets)),
        "truth": draw(size=(windows, pred_len, targets)),
        "forecast": draw(size=(windows, pred_len, targets)),
        "baseline": draw(size=(windows, pred_len, targets)),
        "timestamps": [
            pd.date_range(start + pd.Timedelta(days=9 * w), periods=length + pred_len, freq="h") for w in range(windows)
        ],
        "columns": COLUMNS[:targets],
    }
    return {**given, **changes}


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_there_is_one_panel_for_each_window_and_shown_column():
    assert len(figures.forecast_figure(**make(), max_columns=4).axes) == W * 4
    assert len(figures.forecast_figure(**make(), max_columns=9).axes) == W * T
    assert len(figures.forecast_figure(**make(windows=1, targets=1)).axes) == 1


def test_each_line_is_the_given_series_of_its_window_and_column():
    given = make()
    axes = np.array(figures.forecast_figure(**given, max_columns=4).axes).reshape(4, W)
    for column in range(4):
        for window in range(W):
            drawn = lines(axes[column, window])
            times = date2num(given["timestamps"][window].to_numpy())
            for name in ("truth", "forecast", "baseline"):
                np.testing.assert_array_equal(drawn[name].get_ydata(), given[name][window, :, column])
                np.testing.assert_array_equal(date2num(drawn[name].get_xdata()), times[L:])
            end = L - figures.LEAST_PAST
            np.testing.assert_array_equal(drawn["past"].get_ydata(), given["past"][window, end:, column])
            np.testing.assert_array_equal(date2num(drawn["past"].get_xdata()), times[end:L])


@pytest.mark.parametrize(("length", "pred_len", "shown"), [(61, 7, 48), (61, 53, 53), (11, 53, 11)])
def test_the_shown_past_is_as_long_as_the_future_or_longer(length, pred_len, shown):
    given = make(length=length, pred_len=pred_len)
    axes = figures.forecast_figure(**given).axes[0]
    assert len(lines(axes)["past"].get_ydata()) == shown


def test_a_vertical_line_stands_at_the_last_known_step():
    given = make()
    axes = figures.forecast_figure(**given).axes[1]
    (origin,) = [line for line in axes.lines if line.get_label().startswith("_")]
    known = given["timestamps"][1][L - 1]
    assert set(date2num(origin.get_xdata())) == {date2num(known)}
    assert axes.get_title() == f"known until {known:%Y-%m-%d %H:%M}"


def test_there_is_one_legend_and_it_names_the_baseline():
    figure = figures.forecast_figure(**make(), baseline_name="seasonal naive (24 steps)")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == [
        "past",
        "truth",
        "seasonal naive (24 steps)",
        "forecast",
    ]
    assert all(axes.get_legend() is None for axes in figure.axes)


def test_a_future_without_truth_or_baseline_has_two_lines_and_the_origin():
    figure = figures.forecast_figure(**make(windows=1, truth=None, baseline=None))
    assert [text.get_text() for text in figure.legends[0].texts] == ["past", "forecast"]
    assert len(figure.axes[0].lines) == 3


def test_series_that_overlap_differ_in_colour_and_dashes():
    axes = figures.forecast_figure(**make()).axes[0]
    drawn = [lines(axes)[name] for name in ("truth", "forecast", "baseline")]
    assert len({line.get_color() for line in drawn}) == 3
    assert len({str(line._dash_pattern) for line in drawn}) == 3


def test_the_columns_left_out_are_counted_in_the_title():
    figure = figures.forecast_figure(**make(), title="informer", max_columns=2)
    assert figure.get_suptitle() == "informer (3 of 5 target columns are not shown)"
    assert figures.forecast_figure(**make(), title="informer", max_columns=5).get_suptitle() == "informer"


def test_the_shown_columns_are_named_with_their_units():
    axes = np.array(figures.forecast_figure(**make(), max_columns=4).axes).reshape(4, W)
    assert [a.get_ylabel() for a in axes[:, 0]] == [f"{name}\noriginal units" for name in COLUMNS[:4]]


def test_the_time_axis_shows_dates():
    figure = figures.forecast_figure(**make())
    assert isinstance(figure.axes[-1].xaxis.get_major_formatter(), ConciseDateFormatter)


def test_times_of_a_zone_are_shown_as_its_clocks_show_them():
    index = pd.date_range("2018-01-30", periods=L + P, freq="h", tz="Asia/Shanghai")
    axes = figures.forecast_figure(**make(windows=1, timestamps=[index])).axes[0]
    assert lines(axes)["forecast"].get_xdata()[0] == index[L].tz_localize(None)


def test_a_single_future_step_is_visible():
    axes = figures.forecast_figure(**make(pred_len=1)).axes[0]
    markers = [lines(axes)[name].get_marker() for name in ("truth", "forecast", "baseline")]
    assert len(set(markers)) == 3
    assert "" not in markers


@pytest.mark.parametrize(("windows", "targets", "pred_len"), [(1, 1, 7), (3, 4, 7), (1, 1, 1), (2, 5, 53)])
def test_every_layout_is_drawn_without_a_warning(tmp_path, windows, targets, pred_len):
    figure = figures.forecast_figure(
        **make(windows=windows, targets=targets, pred_len=pred_len), title="a long title " * 20
    )
    figures.save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_dollars_in_names_are_no_formula(tmp_path):
    given = make(windows=1, targets=1, columns=["$a_{$"])
    figures.save(figures.forecast_figure(**given, title="$\\x{$"), tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 0


def test_timestamps_of_another_length_are_refused():
    given = make()
    given["timestamps"][2] = given["timestamps"][2][:-1]
    with pytest.raises(ValueError, match=r"expected 3 timestamps of length 68 .* got lengths \[68, 68, 67\]"):
        figures.forecast_figure(**given)


def test_too_few_column_names_are_refused():
    with pytest.raises(ValueError, match="expected 5 column names, got 2: HUFL, HULL"):
        figures.forecast_figure(**make(columns=COLUMNS[:2]))


def test_the_heat_map_holds_the_weights_and_marks_the_active_rows():
    weights = np.random.default_rng(2).random((13, 11))
    figure = figures.attention_figure(weights, np.array([2, 7, 5]), "encoder layer 1")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key step", "query step")
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2, 7, 5])
    assert min(axes.lines[0].get_xdata()) > 1.0  # in shares of the width: beside the map, so not to be clipped
    assert not axes.lines[0].get_clip_on()
    assert figure.legends[0].texts[0].get_text() == "active rows (3 of 13)"
    assert axes.get_ylim() == (12.5, -0.5)  # the marks outside must not stretch the map


def test_a_heat_map_without_active_rows_has_no_marks(tmp_path):
    figure = figures.attention_figure(np.full((1, 3), 1 / 3), None, "full")
    assert not figure.axes[0].lines
    assert not figure.legends
    figures.save(figure, tmp_path / "x.png")


def test_the_bars_are_the_shares():
    shares = np.array([0.0, 0.25, 1.0])
    figure = figures.active_rows_figure(shares, "decoder")
    assert [bar.get_height() for bar in figure.axes[0].patches] == [0.0, 0.25, 1.0]
    assert figure.get_suptitle() == "decoder"


def test_counts_are_refused_where_shares_are_wanted():
    with pytest.raises(ValueError, match="between 0 and 1, got 0 to 12; divide the counts"):
        figures.active_rows_figure(np.array([0.0, 12.0]), "decoder")


def test_the_picture_has_the_stated_resolution(tmp_path):
    figure = figures.forecast_figure(**make(windows=1, targets=1))
    figures.save(figure, tmp_path / "x.png")
    header = (tmp_path / "x.png").read_bytes()[16:20]
    assert int.from_bytes(header, "big") == round(figure.get_figwidth() * figures.DPI)


@pytest.mark.parametrize("freq", ["100ms", "7s", "min", "7min", "h", "5h", "D", "W-SUN", "MS", "YS"])
@pytest.mark.parametrize("length", [3, 24, 120])
def test_any_span_of_time_gets_an_axis_without_a_warning(freq: str, length: int) -> None:
    times = pd.date_range("1901-01-01", periods=length, freq=freq)
    past, forecast = np.zeros((1, length - 1, 1)), np.zeros((1, 1, 1))
    figure = figures.forecast_figure(past=past, truth=None, forecast=forecast, timestamps=[times], columns=["a"])
    figure.draw_without_rendering()  # pytest makes a warning an error
