"""The small tables of the report."""

import io

import pytest
from rich.console import Console

from forecast.report.tables import offsets_table, steps_table
from forecast.report.verdict import print_report


def scores(mse):
    return {"scaled": {"mse": mse, "mae": 9.0}, "original": {"mse": 8.0, "mae": 7.0}}


def at(windows, own, last, season):
    baselines = {"last_value": scores(last), "seasonal_naive": {"period": 24, **scores(season)}}
    return {"windows": windows, **scores(own), "baselines": baselines}


def metrics(**offsets):
    main = at(136, 0.25, 0.5, 0.75)
    baselines = {**main.pop("baselines"), "closed_form_nlinear": scores(0.125)}
    return {"model": "informer", "val": main, "baselines": baselines, "offsets": offsets}


def shown(found):
    stream = io.StringIO()
    Console(width=100, file=stream).print(found)
    return stream.getvalue()


def test_the_table_by_step_shows_the_first_the_last_and_three_between() -> None:
    figures = [float(step) for step in range(1, 25)]
    names = ("mse_scaled", "mae_scaled", "last_value_mse_scaled", "best_reachable_mse_scaled")
    stream = io.StringIO()
    Console(width=100, file=stream).print(steps_table(dict.fromkeys(names, figures)))
    text = stream.getvalue()
    assert [word for word in text.split() if word.isdigit()] == ["1", "6", "12", "18", "24"]
    for name in ("the model", "last value", "best reachable"):
        (line,) = (line for line in text.splitlines() if name in line)
        assert line.split()[-5:] == ["1.0000", "6.0000", "12.0000", "18.0000", "24.0000"]
    assert "mae" not in text.lower()


def test_one_step_is_shown_once() -> None:
    assert len(steps_table({"mse_scaled": [0.5]}).columns) == 2


def test_the_table_of_offsets_has_a_line_for_each_and_begins_with_none() -> None:
    found = metrics(**{"12": at(124, 1.0, 2.0, 3.0), "168": None, "24": at(112, 1e-5, 1e6, 0.0)})
    lines = [line.split() for line in shown(offsets_table(found, "val")).splitlines()]
    assert lines[0] == ["MSE", "at", "offset,", "scaled"]
    assert ["offset", "windows", "informer", "last", "value", "seasonal", "naive"] in lines
    assert [line for line in lines if line and line[0].isdigit()] == [
        ["0", "136", "0.2500", "0.5000", "0.7500"],
        ["12", "124", "1.0000", "2.0000", "3.0000"],
        ["168", "-", "-", "-", "-"],
        ["24", "112", "1.000e-05", "1.000e+06", "0.0000"],
    ]


def test_the_table_of_offsets_fits_a_log() -> None:
    found = metrics(**{str(offset): at(10**9, 1e-300, 1e300, 1e300) for offset in range(100, 900, 37)})
    text = shown(offsets_table({**found, "model": "sparse_transformer"}, "val"))
    assert "…" not in text and "sparse_transformer" in text
    assert max(map(len, text.splitlines())) <= 100
    assert len(text.splitlines()) == 1 + 3 + 1 + 22 + 2


@pytest.mark.parametrize("offsets", [{}, {"12": None}])
def test_the_report_has_it_only_where_there_are_offsets(offsets) -> None:
    found = metrics(**offsets)
    if not offsets:
        del found["offsets"]
    stream = io.StringIO()
    print_report(found, "val", console=Console(width=100, file=stream))
    assert ("MSE at offset" in stream.getvalue()) == bool(offsets)
