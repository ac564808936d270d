import copy
import io
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from forecast.report import verdict as report


def scores(mse, mae, original_mse=7.5, original_mae=2.25) -> dict[str, Any]:
    return {
        "scaled": {"mse": mse, "mae": mae},
        "original": {"mse": original_mse, "mae": original_mae},
    }


def make(mse=0.44, mae=0.4, **changes) -> dict[str, Any]:
    """Baselines: last value 1.0, seasonal naive 0.8, closed-form NLinear 0.5 by MSE; 0.7, 0.6, 0.5 by MAE."""
    metrics = {
        "model": "informer",
        "attention": "prob",
        "data": "ETTh1",
        "features": "M",
        "protocol": "all_windows",
        "seed": 3,
        "seq_len": 96,
        "label_len": 48,
        "pred_len": 24,
        "best_epoch": 2,
        "test": {"windows": 2857, **scores(mse, mae, 12.5, 3.125), "skill": 0.451, "flat": []},
        "val": {"windows": 2833, **scores(0.41, 0.39)},
        "baselines": {
            "last_value": scores(1.0, 0.7),
            "seasonal_naive": {"period": 24, **scores(0.8, 0.6)},
            "closed_form_nlinear": scores(0.5, 0.5),
        },
    }
    return {**metrics, **changes}


def render(metrics, split="test") -> str:
    stream = io.StringIO()
    report.print_report(metrics, split, console=Console(width=100, file=stream))
    return stream.getvalue()


def row(text: str, name: str) -> list[str]:
    """The five numbers of the one line that begins with that name."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return line.split()[-5:]


# the table


def test_the_table_shows_each_forecaster_with_its_numbers():
    text = render(make())
    assert row(text, "informer (this run)") == ["0.4400", "0.4000", "12.5000", "3.1250", "0.451"]
    assert row(text, "last value") == ["1.0000", "0.7000", "7.5000", "2.2500", "-0.250"]
    assert row(text, "seasonal naive (24 steps)") == ["0.8000", "0.6000", "7.5000", "2.2500", "0.000"]
    nlinear = row(text, "closed-form NLinear (look-back 96 = seq_len)")
    assert nlinear == ["0.5000", "0.5000", "7.5000", "2.2500", "0.375"]
    assert "best reachable" not in text


def test_the_title_says_what_was_evaluated():
    first, second, third = render(make()).splitlines()[:3]
    assert first.strip() == "model informer, attention prob, data ETTh1, features M"
    assert second.strip() == "seq_len 96, label_len 48, pred_len 24, seed 3"
    assert third.strip() == "2857 windows of test, protocol all_windows"


def test_the_title_of_another_file_says_what_was_evaluated_and_what_trained_on():
    first, second, *_ = render(make(evaluated_file="other.csv")).splitlines()
    assert first.strip() == "model informer, attention prob, evaluated on other.csv, trained on ETTh1, features M"
    assert second.strip().startswith("seq_len 96")


def test_the_title_leaves_out_what_a_model_does_not_have():
    metrics = make(attention=None)
    del metrics["label_len"]
    text = render(metrics)
    assert "model informer, data ETTh1" in text
    assert "seq_len 96, pred_len 24" in text


def test_the_demo_data_have_a_row_for_the_best_reachable():
    metrics = make()
    metrics["baselines"]["best_reachable"] = {"scaled": {"mse": 0.4}}
    assert row(render(metrics), "best reachable") == ["0.4000", "-", "-", "-", "0.500"]


def test_an_unknown_period_is_said_in_the_row():
    metrics = make()
    metrics["baselines"]["seasonal_naive"]["period"] = None
    words = " ".join(line[:48].strip() for line in render(metrics).splitlines() if line.startswith("  "))
    assert "seasonal naive (last value: period unknown or longer than seq_len)" in words


def test_a_skill_without_reference_is_a_dash():
    metrics = make()
    metrics["test"]["skill"] = None
    metrics["baselines"]["seasonal_naive"]["scaled"]["mse"] = 0.0
    text = render(metrics)
    assert row(text, "informer")[-1] == "-"
    assert row(text, "last value")[-1] == "-"


def test_very_large_and_small_errors_keep_their_digits():
    metrics = make()
    metrics["test"]["original"] = {"mse": 1234567.0, "mae": 0.000012345}
    assert row(render(metrics), "informer")[2:4] == ["1.235e+06", "1.234e-05"]


def test_nothing_is_wider_than_100_columns_and_nothing_is_cut():
    metrics = make(mse=1234567.0, model="m" * 60)
    metrics["baselines"]["seasonal_naive"]["period"] = None
    metrics["test"]["flat"] = ["a_long_name_of_a_column"] * 20
    text = render(metrics)
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text


def test_names_that_look_like_markup_are_printed_as_they_are():
    metrics = make(data="[bold]x[/bold]", model="[red]")
    metrics["test"]["flat"] = ["[b]", ":dog:"]
    text = render(metrics)
    assert "data [bold]x[/bold]" in text
    assert "[red] (this run)" in text
    assert "Forecasts of [b], :dog: are" in text


def test_the_validation_scores_are_not_compared_with_baselines_of_other_windows():
    text = render(make(), "val")
    assert row(text, "informer") == ["0.4100", "0.3900", "7.5000", "2.2500", "-"]
    assert "last value" not in text
    assert "No baseline was evaluated on these windows" in text


@pytest.mark.parametrize("function", [report.table, report.verdict])
def test_a_split_that_was_not_evaluated_is_refused(function):
    with pytest.raises(ValueError, match="no split 'tail'; they have test, val"):
        function(make(), "tail")


def test_the_block_of_another_split_is_enough():
    metrics = make()
    metrics["tail"] = metrics.pop("test")
    del metrics["val"]
    assert "2857 windows of tail" in render(metrics, "tail")
    assert report.verdict(metrics, "tail")[0].startswith("The model beats all baselines")


def test_a_log_gets_100_columns(capsys):
    report.print_report(make(), "test")
    rule = next(line for line in capsys.readouterr().out.splitlines() if line.startswith((" ─", "+-")))
    assert 80 < len(rule) <= 100


# the verdict


def test_a_winner_is_compared_with_the_best_baseline():
    assert report.verdict(make(mse=0.44), "test") == [
        "The model beats all baselines: its MSE is 12 % below the best of them, closed-form NLinear."
    ]


def test_a_loser_names_each_baseline_that_beats_it_best_first():
    assert report.verdict(make(mse=0.9, mae=0.65), "test") == [
        "The model loses to closed-form NLinear and seasonal naive: its MSE is 80 % above that of "
        "closed-form NLinear and 12 % above that of seasonal naive.",
        "A practitioner should use closed-form NLinear instead, or try a longer seq_len, more epochs "
        "(trainer.max_epochs) or a smaller optim.lr.",
    ]


def test_three_names_are_joined_with_commas():
    (first, *_) = report.verdict(make(mse=2.0, mae=0.9), "test")
    assert first.startswith("The model loses to closed-form NLinear, seasonal naive and last value: its MSE is 300 %")


def test_the_best_baseline_decides_what_to_use_instead():
    metrics = make(mse=0.44, mae=0.6)
    metrics["baselines"]["seasonal_naive"]["scaled"]["mse"] = 0.4
    first, second, *_ = report.verdict(metrics, "test")
    assert first == "The model loses to seasonal naive: its MSE is 10 % above that of seasonal naive."
    assert second.startswith("A practitioner should use seasonal naive instead, or try ")


def test_a_tie_is_not_a_win():
    first = report.verdict(make(mse=0.5), "test")[0]
    assert first == "The model does not beat closed-form NLinear: its MSE is equal to that of closed-form NLinear."


def test_a_small_difference_is_not_called_zero():
    assert "less than 1 % below the best" in report.verdict(make(mse=0.499), "test")[0]
    assert "less than 1 % above that of" in report.verdict(make(mse=0.501), "test")[0]


def test_a_baseline_without_error_needs_no_percentage():
    metrics = make(mse=0.4)
    metrics["baselines"]["seasonal_naive"]["scaled"] = {"mse": 0.0, "mae": 0.0}
    first = report.verdict(metrics, "test")[0]
    assert first == "The model loses to seasonal naive: its MSE is above that of seasonal naive, which is zero."


def test_a_baseline_without_a_number_is_no_rival():
    metrics = make(mse=0.6)
    metrics["baselines"]["closed_form_nlinear"]["scaled"]["mse"] = None
    assert "best of them, seasonal naive." in report.verdict(metrics, "test")[0]


def test_last_value_is_not_counted_twice_when_the_period_is_unknown():
    metrics = make(mse=2.0)
    metrics["baselines"]["seasonal_naive"] = {"period": None, **scores(1.0, 0.7)}
    assert report.verdict(metrics, "test")[0].startswith("The model loses to closed-form NLinear and last value:")


def test_an_mae_that_disagrees_with_the_mse_is_said():
    lost_by_mse = report.verdict(make(mse=0.9, mae=0.55), "test")
    assert lost_by_mse[2:] == ["MAE says otherwise: by MAE it wins against seasonal naive."]
    won_by_mse = report.verdict(make(mse=0.44, mae=0.65), "test")
    assert won_by_mse[1:] == ["MAE says otherwise: by MAE it loses to closed-form NLinear and seasonal naive."]


def test_flat_columns_are_named():
    metrics = make()
    metrics["test"]["flat"] = ["LUFL", "OT"]
    assert report.verdict(metrics, "test")[1:] == [
        "Forecasts of LUFL, OT are nearly flat: they vary less than a tenth as much as the truth."
    ]


def test_many_flat_columns_are_counted():
    metrics = make()
    metrics["test"]["flat"] = [f"c{i}" for i in range(11)]
    assert "Forecasts of c0, c1, c2, c3, c4, c5, c6, c7 and 3 more are" in report.verdict(metrics, "test")[1]


def test_a_run_without_validation_says_which_checkpoint_was_evaluated():
    sentence = "No validation ran, so last.ckpt was evaluated, not the best one."
    assert sentence in report.verdict(make(best_epoch=None), "test")
    assert sentence not in report.verdict(make(best_epoch=1), "test")


@pytest.mark.parametrize(
    ("mse", "end"),
    [
        (0.44, "the model's is 10 % above it."),
        (0.399, "the model's is not above it, so nothing is left to gain."),
    ],
)
def test_the_demo_verdict_says_how_near_the_best_is(mse, end):
    metrics = make(mse=mse)
    metrics["baselines"]["best_reachable"] = {"scaled": {"mse": 0.4}}
    last = report.verdict(metrics, "test")[-1]
    assert last == f"No forecaster can expect an MSE below 0.4000 on this data; {end}"


def test_the_report_changes_nothing_in_its_input():
    metrics = make()
    before = copy.deepcopy(metrics)
    render(metrics)
    assert metrics == before


def test_neither_the_report_nor_the_figures_import_the_heavy_packages():
    heavy = "{'torch', 'lightning', 'hydra'}"
    code = f"import sys, forecast.report.verdict, forecast.report.figures; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
