"""scripts/record.py masks what is of the moment, and sees everything else."""

import json

import numpy as np
import pytest
import torch
import yaml
from script import SCRIPTS

from scripts.recorder.comparing import Difference, differences, mask, moved, read_case


def fields(tmp_path, side, files):
    """What is read of a case that left these files: name -> text, arrays or state dict."""
    folder = tmp_path / side / "cases" / "ridge"
    folder.mkdir(parents=True)
    for name, content in files.items():
        if name.endswith(".ckpt"):
            torch.save(content, folder / name)
        elif name.endswith(".npz"):
            np.savez(folder / name, **content)
        else:
            (folder / name).write_text(content)
    return read_case(folder, str(tmp_path / side))


def compared(tmp_path, base, head):
    return differences(fields(tmp_path, "base", base), fields(tmp_path, "head", head))


def metrics(mse, seconds=1.5):
    return json.dumps({"test": {"scaled": {"mse": mse}}, "cost": {"train_seconds": seconds}})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Fitted in 0.4 s; chosen: look_back=216", "Fitted in SIZE s; chosen: look_back=216"),
        ("[2026-11-25 02:29:49,871][train] - run", "[WHEN][train] - run"),
        ("Everything is in /tmp/x/base/cases/a/run", "Everything is in PLACE/cases/a/run"),
        ("Speed: 9635 samples/s, 66 % of what", ""),
        ("    18 s  refit ridge, 2.5 s", ""),
        ("  ridge  0.3946   37 %       2.6   chosen", "  ridge  0.3946   37 % SIZE   chosen"),
        ("outputs/2026-11-25/03-19-08/run.json", "outputs/WHEN/run.json"),
        ("code ccb00cb1e36e, commit 1d5b43d-dirty", "code HASH, commit HASH"),
        ("test 0.0636 at 2024-03-24 08:00:00, 1008 rows", "test 0.0636 at 2024-03-24 08:00:00, 1008 rows"),
    ],
)
def test_a_text_loses_what_is_of_the_moment_and_nothing_else(text, masked):
    assert mask(text, "/tmp/x/base") == masked


def test_what_differs_in_times_and_places_alone_is_equal(tmp_path):
    def run(side, seconds):
        return {"metrics.json": metrics(0.1, seconds), "1-train.out.txt": f"In {tmp_path / side}/run, {seconds} s"}

    assert compared(tmp_path, run("base", 1.5), run("head", 20)) == []


def test_the_last_digit_of_a_figure_is_seen(tmp_path):
    (one,) = compared(tmp_path, {"metrics.json": metrics(0.123456)}, {"metrics.json": metrics(0.123457)})
    assert (one.field, one.base, one.head) == ("ridge/metrics.json:test.scaled.mse", "0.123456", "0.123457")
    assert one.relative == pytest.approx(1e-6 / 0.123457)


def test_a_cell_of_a_forecast_is_seen_with_its_row(tmp_path):
    (one,) = compared(tmp_path, {"forecast.csv": "date,y\na,1.0\nb,2.0\n"}, {"forecast.csv": "date,y\na,1.0\nb,2.1\n"})
    assert one[:3] == ("ridge/forecast.csv:y[1], 1 of 2 differ", "2.0", "2.1")


def test_one_bit_of_a_weight_is_seen(tmp_path):
    weight = torch.ones(3)
    base, head = ({"best.ckpt": {"state_dict": {"w": w}}} for w in (weight, torch.nextafter(weight, weight + 1)))
    (one,) = compared(tmp_path, base, head)
    assert one.field == "ridge/best.ckpt:weights.w"


def test_a_saved_config_is_compared_whole_whatever_the_order_of_its_keys(tmp_path):
    def checkpoint(config):
        return {"best.ckpt": {"state_dict": {}, "forecast": {"config": config, "levels": [80.0]}}}

    base = checkpoint({"seed": 1, "model": {"d_model": 8, "lr": 1}, "max_seconds": 5})
    head = checkpoint({"max_seconds": 6, "model": {"lr": 1.0, "d_model": 8}, "seed": 1})
    found = [one.field for one in compared(tmp_path, base, head)]
    assert found == ["ridge/best.ckpt:record.config.max_seconds", "ridge/best.ckpt:record.config.model.lr"]


def test_arrays_are_equal_with_nan_and_differ_by_a_sign(tmp_path):
    base = {"forecasts.npz": {"past": np.array([np.nan, 1.0, 2.0]), "levels": np.array([80.0])}}
    head = {"forecasts.npz": {"past": np.array([np.nan, 1.0, -2.0]), "levels": np.array([80.0])}}
    (one,) = compared(tmp_path, base, head)
    assert one[:3] == ("ridge/forecasts.npz:past[2], 1 of 3 differ", "2.0", "-2.0")


def test_a_sentence_that_changes_is_seen_alone(tmp_path):
    base, head = ({"1-check-data.out.txt": f"file a\n{word} row is missing\nend\n"} for word in ("One", "A"))
    (one,) = compared(tmp_path, base, head)
    assert one[:3] == ("ridge/1-check-data.out.txt:text[1]", "One row is missing", "A row is missing")


def test_the_data_of_a_page_are_compared_and_its_words_are_not(tmp_path):
    page = '<h1>{}</h1><script type="application/json" id="page-data">{{"charts": [{{"y": [1, {}]}}]}}</script>'
    (one,) = compared(tmp_path, {"report.html": page.format("a", 2)}, {"report.html": page.format("b", 3)})
    assert one[:3] == ("ridge/report.html:data.charts[0].y[1], 1 of 2 differ", "2", "3")


def test_a_file_that_is_not_there_is_one_difference(tmp_path):
    (one,) = compared(tmp_path, {"metrics.json": metrics(0.1)}, {})
    assert one[:3] == ("ridge/metrics.json", "there", "absent")


def test_a_file_that_cannot_be_read_on_one_side_is_a_difference(tmp_path):
    found = compared(tmp_path, {"metrics.json": metrics(0.1)}, {"metrics.json": "{"})
    assert "ridge/metrics.json:unreadable" in [one.field for one in found]


def test_tables_of_a_report_are_compared_but_for_seconds(tmp_path):
    table = "| | MSE | seconds |\n| --- | ---: | ---: |\n| dlinear | {} | {} |\n"
    base, head = ({"report.md": table.format(mse, seconds)} for mse, seconds in ((0.1, 1), (0.2, 2)))
    (one,) = compared(tmp_path, base, head)
    assert "0.1" in one.base and "0.2" in one.head and "seconds" not in one.base


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({}, True),
        ({"files": "dlinear/*"}, False),
        ({"field": "test"}, False),
        ({"field": "test.*"}, False),
        ({"text": "*row*"}, False),
        ({"within": 1e-5}, True),
        ({"within": 1e-7}, False),
    ],
)
def test_an_entry_moves_the_one_field_that_it_names(entry, named):
    one = Difference("ridge/run/metrics.json:test.folds[2].mse[0, 1], 1 of 9 differ", "0.1", "0.1000001", 1e-6)
    assert moved(one, {"files": "*", "field": "test.folds.mse", **entry}) is named


def test_at_most_twenty_fields_move_on_purpose_and_of_sentences_those_with_a_text():
    entries = yaml.safe_load((SCRIPTS / "recorder" / "moved.yaml").read_text())["moved"]
    assert len(entries) <= 20
    assert [entry for entry in entries if entry["field"] == "text" and "text" not in entry] == []


def test_every_command_has_a_case():
    from forecast.__main__ import COMMANDS

    cases = (SCRIPTS / "recorder" / "cases.yaml").read_text()
    left_out = {"import-informer2020", "reproduce"}  # need the authors' files, and hours
    assert [name for name in COMMANDS if f" {name} " not in cases and name not in left_out] == []
