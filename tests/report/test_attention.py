"""A picture of attention maps: where each panel stands."""

import numpy as np
import pytest

from forecast.report.figures import Panel, maps_figure, save


def panel(name):
    return Panel(name, np.full((2, 3), 1 / 3), None, ["1:00", "2:00", "3:00"])


@pytest.mark.parametrize("count, rows, columns", [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 2), (5, 2, 3), (15, 5, 3)])
def test_panels_stand_in_a_grid_of_at_most_three_columns(count, rows, columns):
    names = [f"encoder/{i}" for i in range(count)]
    figure = maps_figure([panel(name) for name in names], title="")
    drawn = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in drawn] == names
    places = [axes.get_subplotspec() for axes in drawn]
    assert {place.get_gridspec().get_geometry() for place in places} == {(rows, columns)}
    assert [place.num1 for place in places] == [*range(count)]  # row by row
    assert figure.get_figwidth() == pytest.approx(6.4 * columns) and figure.get_figheight() == pytest.approx(5.6 * rows)


def test_a_heat_map_holds_the_weights_beside_steps_or_times(tmp_path):
    weights = np.random.default_rng(2).random((13, 11))
    figure = maps_figure([Panel("cross/0", weights, None, [f"{i}:00" for i in range(11)])], title="")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0:00", "2:00", "4:00", "6:00", "8:00", "10:00"]
    save(figure, tmp_path / "x.png")
