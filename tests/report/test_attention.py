"""A picture of an attention map."""

import numpy as np

from forecast.report.figures import map_figure, save


def test_a_heat_map_holds_the_weights_of_queries_and_keys(tmp_path):
    weights = np.random.default_rng(2).random((13, 11))
    figure = map_figure(weights, "encoder")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")
    save(figure, tmp_path / "x.png")
