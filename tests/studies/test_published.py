"""The printed figures that rows are set beside."""

import pytest

from forecast.config.run_config import composed
from forecast.text.overrides import hydra_value
from studies.published.panels import panel_rows
from studies.published.published import find, read_published

PRINTED = read_published()


def at(*place):
    source, model, *values, offset = (*place, 0)[:7]
    values = dict(zip(("data", "features", "seq_len", "pred_len"), values, strict=True))
    match = find(PRINTED, source=source, model=model, values=values, offset=offset)
    return (match.mse, match.mae) if match else None


@pytest.mark.parametrize(
    ("place", "errors"),
    [
        # the main tables name no look-back
        (("informer-aaai2021", "Informer", "ETTh1", "M", 48, 24), (0.577, 0.549)),
        (("informer-aaai2021", "Informer†", "ETTm1", "S", 384, 672), (0.519, 0.665)),
        # the ablations differ in it
        (("informer-aaai2021-table3-probsparse", "Informer", "ETTh1", "S", 720, 336), (0.225, 0.384)),
        (("informer-aaai2021-table3-probsparse", "Informer", "ETTh1", "S", 1440, 336), (0.216, 0.376)),
        (("informer-aaai2021-table5-distilling", "Informer†", "ETTh1", "S", 1200, 480), (0.174, 0.362)),
        (("informer-aaai2021-table6-decoder", "Informer‡ generative", "ETTh1", "S", 720, 336, 48), (0.211, 0.393)),
        (("dlinear-aaai2023", "DLinear", "ETTh2", "M", 336, 720), (0.605, 0.551)),
        (("patchtst-iclr2023", "PatchTST/64", "ETTh1", "M", 512, 96), (0.370, 0.400)),
        # out of memory there
        (("informer-aaai2021-table3-probsparse", "Informer†", "ETTh1", "S", 1440, 336), None),
        (("informer-aaai2021", "Informer", "ETTh1", "M", 48, 25), None),
    ],
)
def test_a_row_is_found_by_what_the_source_prints(place, errors):
    assert at(*place) == errors


@pytest.mark.parametrize("row", panel_rows())
def test_each_panel_trains_the_models_that_it_names(row):
    every = panel_rows()[row]["every"]
    for name, own in panel_rows()[row]["models"].items():
        words = {**every, **own, "data.path": "panel.csv"}
        composed([f"{key}={hydra_value(value)}" for key, value in words.items()])
        assert own.get("model", "informer").replace("_", " ") in name.replace("_", " ")


def test_offsets_are_read_from_the_note():
    offsets = {p.offset for p in PRINTED if p.source.endswith("decoder") and p.pred_len == 480}
    assert offsets == {0, 48, 96, 144, 168}
    assert {p.offset for p in PRINTED if not p.source.endswith("decoder")} == {0}


def test_our_closed_form_is_the_one_measured_with_numpy():
    """Two sources of the same facts: NLinear's closed form is within 0.006 of the printed NLinear on ETTh1."""
    for features in "MS":
        for pred_len in (96, 192, 336, 720):
            measured = at("measured-all-windows", "closed_form_nlinear", "ETTh1", features, 336, pred_len)
            printed = at("dlinear-aaai2023", "NLinear", "ETTh1", features, 336, pred_len)
            assert measured == pytest.approx(printed, abs=0.0065)
