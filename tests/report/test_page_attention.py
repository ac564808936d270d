"""The maps of attention.npz on a page: what stands in its data, how few cells it has, what it says."""

import base64

import numpy as np
import pytest
from report.pages import HOSTILE, made_attention, made_page

from forecast.report.page.attention import LEVELS, MOST_CELLS, attention_piece


def cells(spec, layer, head):
    """The weights of a panel, as the page's script reads them; head None is the mean."""
    place = spec["picks"][0]["names"].index(layer)
    width = len(spec["picks"][1]["names"])
    panel, axes = spec["panels"][place * width + (0 if head is None else 1 + head)], spec["layers"][place]
    shape = [len(spec["axes"][axes[part]]["names"]) for part in ("queries", "keys")]
    levels = np.frombuffer(base64.b64decode(panel["cells"]), np.uint8).reshape(shape)
    return panel, panel["most"] * (levels / LEVELS) ** 2


def test_each_head_and_their_mean_is_there_to_be_chosen_and_cross_attention_first():
    arrays = made_attention(columns=2)
    spec = attention_piece(arrays).drawn
    assert spec["picks"][0] == {"label": "Layer", "names": ["encoder/0", "cross/0"], "first": 1}
    assert spec["picks"][1]["names"] == ["mean of the heads", "head 0", "head 1", "head 2"]
    weights = arrays["encoder/0"].mean(0)
    for head, expected in ((None, weights.mean(0)), (2, weights[2])):
        panel, drawn = cells(spec, "encoder/0", head)
        np.testing.assert_allclose(drawn, expected, atol=0.005 * expected.max())
        assert panel["most"] == pytest.approx(expected.max(), rel=1e-3)


def test_axes_have_times_and_spans_where_a_key_is_several_steps():
    spec = attention_piece(made_attention(queries=3, keys=2)).drawn
    assert spec["layers"] == [{"queries": 0, "keys": 1}] * 2  # written once
    assert spec["axes"][0] == {"names": [f"2020-01-30 {hour}:00" for hour in (18, 19, 20)], "until": None}
    first, last = ["2020-01-30 18:00", "2020-01-30 20:00"], ["2020-01-30 19:00", "2020-01-30 21:00"]
    assert spec["axes"][1] == {"names": first, "until": last}


def test_without_times_steps_are_counted_and_days_have_no_clock():
    arrays = made_attention(queries=3, keys=2)
    for place in ("encoder/0", "cross/0"):
        del arrays[f"{place}/queries"]
        arrays[f"{place}/keys"] = np.array([["2020-01-30"] * 2, ["2020-01-31"] * 2], dtype="datetime64[ns]")
    axes = attention_piece(arrays).drawn["axes"]
    assert axes[0] == {"names": ["0", "1", "2"], "until": None}
    assert axes[1] == {"names": ["2020-01-30", "2020-01-31"], "until": None}


def test_of_probsparse_the_active_queries_and_their_measures_stand_beside_the_rows():
    piece = attention_piece(made_attention(queries=4))
    panel, _ = cells(piece.drawn, "cross/0", 1)
    assert panel["active"] == [1.0, 1.0, 0.0, 0.0] and panel["measures"] == [None, 0.25, 0.5, 0.75]
    assert "the queries that ProbSparse chose by their measure M" in piece.words
    piece = attention_piece(made_attention(prob=False))
    assert "active" not in cells(piece.drawn, "cross/0", 1)[0] and "ProbSparse" not in piece.words


def test_long_windows_and_many_layers_are_joined_to_few_cells_that_keep_the_shares():
    places = [f"members.{i}.{slot}/0" for i in range(5) for slot in ("encoder", "cross")]
    piece = attention_piece(made_attention(places, heads=8, queries=500, keys=331))
    drawn = [cells(piece.drawn, place, None)[1] for place in places]
    assert drawn[0].shape[0] <= 64 and 90 * sum(map(np.size, drawn)) / len(places) <= MOST_CELLS
    np.testing.assert_allclose(drawn[0].sum(1), 1, atol=0.03)
    assert "To keep the page small, up to " in piece.words
    assert "To keep" not in attention_piece(made_attention()).words


def test_a_layer_with_fewer_heads_has_no_panel_for_the_others():
    arrays = made_attention() | {"cross/0": made_attention(heads=1)["cross/0"]}
    arrays |= {f"cross/0/{part}": arrays[f"cross/0/{part}"][:, :1] for part in ("active", "measures")}
    panels = attention_piece(arrays).drawn["panels"]
    assert [panel is None for panel in panels] == [*[False] * 4, False, False, True, True]


def test_the_page_has_the_section_where_there_are_maps_alone():
    assert 'id="attention"' in made_page(attention=made_attention())
    assert 'id="attention"' not in made_page()


@pytest.mark.parametrize("word", HOSTILE)
def test_words_of_others_are_escaped(word):
    page = made_page(attention=made_attention(word=word))
    assert page.count("<script") == made_page().count("<script") and "Window 5 of " in page
