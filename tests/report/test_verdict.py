"""What is printed of a run: the tables of errors, and the verdict's sentences."""

import io
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from forecast.report.tables import columns_table, offsets_table, steps_table, table_lines
from forecast.report.verdict import TRIAL, print_report, verdict
from forecast.text.terminal import harmless


def scores(mse, mae, mase=2.25):
    return {"scaled": {"mse": mse, "mae": mae}, "mase": mase}


def make(mse=0.44, mae=0.4, *, test=(), baselines=(), **changes):
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
        "test": {"windows": 2857, **scores(mse, mae, 3.125), "skill": 0.451, "flat": [], **dict(test)},
        "val": {"windows": 2833, **scores(0.41, 0.39)},
        "baselines": {
            "last_value": scores(1.0, 0.7),
            "seasonal_naive": {"period": 24, **scores(0.8, 0.6)},
            "closed_form_nlinear": scores(0.5, 0.5),
            **dict(baselines),
        },
    }
    return {**metrics, **changes}


def seasonal(mse, mae, period=24):
    return {"seasonal_naive": {"period": period, **scores(mse, mae)}}


NO_PERIOD = seasonal(1.0, 0.7, period=None)
BOUND = {"best_reachable": {"scaled": {"mse": 0.4}}}


def printed(*tables):
    return "\n".join(map(table_lines, tables))


def render(metrics, split="test"):
    with redirect_stdout(io.StringIO()) as text:
        print_report(metrics, split)
    return text.getvalue()


def row(text, name):
    """The four cells of the one line that begins with that name."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return line.split()[-4:]


def test_the_table_shows_each_forecaster_with_its_numbers():
    text = render(make())
    assert row(text, "informer (this run)") == ["0.4400", "0.4000", "3.1250", "0.451"]
    assert row(text, "last value") == ["1.0000", "0.7000", "2.2500", "-0.250"]
    assert row(text, "seasonal naive (24 steps)") == ["0.8000", "0.6000", "2.2500", "0.000"]
    assert row(text, "closed-form NLinear (look-back 96 = seq_len)") == ["0.5000", "0.5000", "2.2500", "0.375"]
    assert "best reachable" not in text and "MASE:" not in text
    assert row(render(make(baselines=BOUND)), "best reachable") == ["0.4000", "-", "-", "0.500"]


def test_the_table_says_by_what_the_errors_are_scaled():
    text = render(make(mase_scale={"period": 336, "rows": "train", "columns_without": []}))
    assert "MASE: MAE / MAE over the train rows of the value 336 steps before" in text


def test_a_baseline_that_no_code_names_stands_there_by_its_own_name_and_look_back():
    metrics = make(0.44, baselines={"ridge": {"look_back": 512, **scores(0.4, 0.5)}, "theta": scores(0.6, 0.6)})
    text = render(metrics)
    assert row(text, "ridge (look-back 512)") == ["0.4000", "0.5000", "2.2500", "0.500"]
    assert row(text, "theta") == ["0.6000", "0.6000", "2.2500", "0.250"]
    assert verdict(metrics, "test")[0] == "The model loses to ridge: its MSE is 10 % above that of ridge."


def by_column(mae, mase=0.5):
    original = {"mse": 9.0, "mae": mae, "rmse": 3.0, "bias": -1.5}
    return {"scaled": {"mse": 0.4, "mae": 0.3}, "original": original, "mase": mase, "rmsse": 0.75, "smape": 12.5}


def test_few_columns_have_a_table_with_the_best_baselines_mase_beside_the_models():
    best = {
        "closed_form_nlinear": scores(0.5, 0.5) | {"columns": {"OT": by_column(2.0, 0.625), "\x1b[2J": by_column(1.0)}}
    }
    columns = {"OT": by_column(2.5), "\x1b[2J": by_column(1.5, None)}
    text = render(make(test={"columns": columns}, baselines=best))
    assert row(text, "OT") == ["12.5000", "0.7500", "0.5000", "0.6250"]
    assert next(line for line in text.splitlines() if line.strip().startswith("OT")).split()[1:4] == [
        *("2.5000", "3.0000", "-1.5000")
    ]
    assert row(text, r"\x1b[2J") == ["12.5000", "0.7500", "-", "0.5000"]
    assert "at the right the MASE of closed-form NLinear" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("number", [0, 9])
def test_many_columns_have_none(number):
    assert columns_table(make(test={"columns": {str(i): by_column(1.0) for i in range(number)}}), "test") is None


FIRST = "model informer, attention prob, data ETTh1, features M"
SECOND = "seq_len 96, label_len 48, pred_len 24, seed 3"


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        ({}, FIRST, SECOND),
        (
            {"attention_slots": {"encoder": "prob", "decoder": "prob", "cross": "full"}},
            FIRST.replace("prob", "prob (cross full)"),
            SECOND,
        ),
        (
            {"evaluated_file": "other.csv"},
            "model informer, attention prob, evaluated on other.csv, trained on ETTh1, features M",
            SECOND,
        ),
        (
            {"attention": None, "label_len": None},
            FIRST.replace("attention prob, ", ""),
            "seq_len 96, pred_len 24, seed 3",
        ),
    ],
)
def test_the_title_says_what_was_evaluated(changes, first, second):
    lines = render(make(**changes)).splitlines()[:3]
    assert [line.strip() for line in lines] == [first, second, "2857 windows of test, protocol all_windows"]


def test_a_skill_without_reference_is_a_dash():
    text = render(make(test={"skill": None}, baselines=seasonal(0.0, 0.6)))
    assert row(text, "informer")[-1] == row(text, "last value")[-1] == "-"


class Terminal(io.StringIO):
    def isatty(self):
        return True


LONG = make(1234567.0, model="m" * 60, test={"flat": ["a_long_name_of_a_column"] * 20}, baselines=NO_PERIOD)


def test_a_pipe_gets_whole_names_all_columns_and_each_sentence_in_one_line():
    text = render(LONG)
    assert "…" not in text and len(row(text, "m" * 60)) == 4
    assert "a_long_name_of_a_column and 12 more are nearly flat: they vary" in text


@pytest.mark.parametrize(
    ("columns", "headings"), [(80, "MSE MAE MASE skill"), (79, "MSE MASE skill"), (30, "MSE skill")]
)
def test_on_a_narrow_terminal_columns_give_way_and_names_do_not(monkeypatch, columns, headings):
    monkeypatch.setenv("COLUMNS", str(columns))
    with redirect_stdout(Terminal()) as stream:
        print_report(make(), "test")
    text = stream.getvalue()
    assert next(line.split() for line in text.splitlines() if "MSE" in line) == headings.split()
    assert "closed-form NLinear (look-back 96 = seq_len)  " in text and "…" not in text
    assert max(map(len, text.splitlines())) <= max(columns, 63)


def test_names_that_look_like_markup_are_printed_as_they_are():
    text = render(make(data="[bold]x[/bold]", model="[red]", test={"flat": ["[b]", ":dog:"]}))
    for name in ("data [bold]x[/bold]", "[red] (this run)", "Forecasts of [b], :dog: are"):
        assert name in text


def test_the_validation_scores_are_not_compared_with_baselines_of_other_windows():
    text = render(make(), "val")
    assert row(text, "informer") == ["0.4100", "0.3900", "2.2500", "-"]
    assert "last value" not in text
    assert verdict(make(), "val") == [
        "No baseline was evaluated on these windows, so nothing here says how good the model is."
    ]


def test_the_block_of_another_split_is_enough():
    metrics = make()
    metrics["tail"] = metrics.pop("test")
    del metrics["val"]
    assert "2857 windows of tail" in render(metrics, "tail")
    assert verdict(metrics, "tail")[0].startswith("The model beats all baselines")


def test_the_table_by_step_shows_the_first_the_last_and_three_between():
    names = ("mse_scaled", "mae_scaled", "last_value_mse_scaled", "best_reachable_mse_scaled")
    text = printed(steps_table(dict.fromkeys(names, tuple(map(float, range(1, 25))))))
    assert [word for word in text.split() if word.isdigit()] == ["1", "6", "12", "18", "24"]
    for name in ("the model", "last value", "best reachable"):
        assert row(text, name) == ["6.0000", "12.0000", "18.0000", "24.0000"]
    assert "mae" not in text.lower()
    assert len(steps_table({"mse_scaled": [0.5]}).columns) == 2  # one step is shown once


def at_offset(windows, own, last, season):
    return {
        "windows": windows,
        **scores(own, 9.0),
        "baselines": {"last_value": scores(last, 9.0), **seasonal(season, 9.0)},
    }


def test_the_table_of_offsets_has_a_line_for_each_and_begins_with_none():
    offsets = {"12": at_offset(124, 1.0, 2.0, 3.0), "168": None, "24": at_offset(112, 1e-5, 1e6, 0.0)}
    lines = [line.split() for line in printed(offsets_table(make(offsets=offsets), "test")).splitlines()]
    assert lines[0] == ["MSE", "at", "offset,", "scaled"]
    assert ["offset", "windows", "informer", "last", "value", "seasonal", "naive"] in lines
    assert [line for line in lines if line and line[0].isdigit()] == [
        ["0", "2857", "0.4400", "1.0000", "0.8000"],
        ["12", "124", "1.0000", "2.0000", "3.0000"],
        ["168", "-", "-", "-", "-"],
        ["24", "112", "1.000e-05", "1.000e+06", "0.0000"],
    ]


NLINEAR, NAIVE, LAST = "closed-form NLinear", "seasonal naive", "last value"
BEATS = "The model beats all baselines: its MSE is 12 % below the best of them, closed-form NLinear."
ITSELF = (
    "The model is the baseline {} itself, and beats all others: its MSE is 38 % below the best of them, seasonal naive."
)
MAE_SAYS = "MAE says otherwise: by MAE it {}."
NO_VALIDATION = "No validation ran, so last.ckpt was evaluated, not the best one."
FLAT = "Forecasts of {} are nearly flat: they vary less than a tenth as much as the truth."
REACHABLE = "No forecaster can expect an MSE below 0.4000 on this data; the model's is {}."


UNTOLD = {
    "closed_form_nlinear": scores(0.5, 0.5) | {"difference": {"mse": -0.06, "low": -0.13, "high": 0.01, "blocks": 9}}
}


def lost(names, gaps, best=NLINEAR, verb="loses to"):
    return [f"The model {verb} {names}: its MSE is {gaps}.", f"A practitioner should use {best} instead."]


def difference(low, high, blocks=9):
    return {"difference": {"mse": -0.06, "low": low, "high": high, "blocks": blocks}}


BELOW = "The MSE of the model is 12 % below that of the best baseline, closed-form NLinear."
UNSURE = "Whether the model errs less or more than closed-form NLinear is not sure: the {}."
TO_TWO = lost(f"{NLINEAR} and {NAIVE}", f"80 % above that of {NLINEAR} and 12 % above that of {NAIVE}")
TO_THREE = f"300 % above that of {NLINEAR}, 150 % above that of {NAIVE} and 100 % above that of {LAST}"
TO_NO_PERIOD = f"300 % above that of {NLINEAR} and 100 % above that of {LAST}"
MANY_TIMES = f"36 times that of {NLINEAR}, 22 times that of {NAIVE} and 18 times that of {LAST}"
VERDICTS = {
    "a winner is compared with the best baseline": (make(0.44), [BEATS]),
    "a loser with each that beats it, best first": (make(0.9, 0.65), TO_TWO),
    "three names are joined with commas": (make(2.0, 0.9), lost(f"{NLINEAR}, {NAIVE} and {LAST}", TO_THREE)),
    "the best decides what to use instead": (
        make(0.44, 0.5, baselines=seasonal(0.4, 0.5)),
        lost(NAIVE, f"10 % above that of {NAIVE}", NAIVE),
    ),
    "a tie is not a win": (make(0.5, 0.5), lost(NLINEAR, f"equal to that of {NLINEAR}", verb="does not beat")),
    "a small gain is not called zero": (make(0.499), [BEATS.replace("12 %", "less than 1 %")]),
    "nor a small loss": (make(0.501, 0.5), lost(NLINEAR, f"less than 1 % above that of {NLINEAR}")),
    "ten times as much and more are not told in percent": (
        make(17.75, 0.9),
        lost(f"{NLINEAR}, {NAIVE} and {LAST}", MANY_TIMES),
    ),
    "a model is no rival of itself": (
        make(0.5, 0.5, model="ridge"),
        [ITSELF.format("closed-form NLinear")],
    ),
    "nor is a mean that is one of them alone": (
        make(0.5, 0.5, model="weighted_ensemble", members=[{"model": "ridge", "run": "r", "weights": [1.0]}]),
        [ITSELF.format("closed-form NLinear")],
    ),
    "nor where the windows do not tell it from another": (
        make(0.44, model="ridge", baselines={"ridge": scores(0.44, 0.44), **UNTOLD}),
        [
            "The MSE of the model is 12 % below that of the best other baseline, closed-form NLinear.",
            UNSURE.format("95 % interval of the difference in MSE is -0.1300 to +0.0100"),
        ],
    ),
    "but another one of its kind is a rival": (
        make(0.44, model="ridge", baselines={"ridge": scores(0.4, 0.4)}),
        lost("the ridge baseline", "10 % above that of the ridge baseline", "the ridge baseline"),
    ),
    "a win that the windows do not tell is none": (
        make(0.44, baselines={"closed_form_nlinear": scores(0.5, 0.5) | difference(-0.13, 0.01)}),
        [BELOW, UNSURE.format("95 % interval of the difference in MSE is -0.1300 to +0.0100")],
    ),
    "nor one of too few of them": (
        make(0.44, baselines={"closed_form_nlinear": scores(0.5, 0.5) | difference(None, None, blocks=3)}),
        [BELOW, UNSURE.format("too few windows without overlap, 3").replace("the too", "too")],
    ),
    "nor is such a loss one": (
        make(0.9, 0.65, baselines={"seasonal_naive": {"period": 24, **scores(0.8, 0.6), **difference(-0.1, 0.3)}}),
        [
            TO_TWO[0].replace("loses to", "does not beat"),
            "Whether the model errs less or more than seasonal naive is not sure: the 95 % interval of the difference "
            "in MSE is -0.1000 to +0.3000.",
            TO_TWO[1],
        ],
    ),
    "of an equal one nobody asks which it is": (
        make(0.5, 0.5, baselines={"closed_form_nlinear": scores(0.5, 0.5) | difference(0.0, 0.0)}),
        [
            f"The model does not beat {NLINEAR}: its MSE is equal to that of {NLINEAR}.",
            f"Take {NLINEAR} instead, which errs no more here and is simpler.",
        ],
    ),
    "a win that they tell is one": (
        make(0.44, baselines={"closed_form_nlinear": scores(0.5, 0.5) | difference(-0.11, -0.01)}),
        [BEATS],
    ),
    "a baseline without error needs no percentage": (
        make(0.4, baselines=seasonal(0.0, 0.0)),
        lost(NAIVE, f"above that of {NAIVE}, which is zero", NAIVE),
    ),
    "a baseline without a number is no rival": (
        make(0.6, baselines={"closed_form_nlinear": scores(None, 0.5)}),
        ["The model beats all baselines: its MSE is 25 % below the best of them, seasonal naive."],
    ),
    "last value counts once when the period is unknown": (
        make(2.0, 0.9, baselines=NO_PERIOD),
        lost(f"{NLINEAR} and {LAST}", TO_NO_PERIOD),
    ),
    "an MAE that disagrees with a lost MSE": (make(0.9, 0.55), [*TO_TWO, MAE_SAYS.format(f"wins against {NAIVE}")]),
    "and with a won one": (make(0.44, 0.65), [BEATS, MAE_SAYS.format(f"loses to {NLINEAR} and {NAIVE}")]),
    "flat columns are named": (make(test={"flat": ["LUFL", "OT"]}), [BEATS, FLAT.format("LUFL, OT")]),
    "many flat columns are counted": (
        make(test={"flat": [f"c{i}" for i in range(11)]}),
        [BEATS, FLAT.format("c0, c1, c2, c3, c4, c5, c6, c7 and 3 more")],
    ),
    "without validation": (make(best_epoch=None), [BEATS, NO_VALIDATION]),
    "an imported model has no validation of ours": (make(best_epoch=None, imported={}), [BEATS]),
    "how near the best is": (make(baselines=BOUND), [BEATS, REACHABLE.format("10 % above it")]),
    "below the best": (
        make(0.399, baselines=BOUND),
        [BEATS.replace("12 %", "20 %"), REACHABLE.format("not above it, so nothing is left to gain")],
    ),
}


SAME_DATA = ["data=csv", "data.path='my file.csv'", "seq_len=96", "pred_len=24"]


@pytest.mark.parametrize(
    ("best", "model"),
    [
        (
            "closed_form_nlinear",
            "ridge model.look_back=96 model.naive=last model.strength=0.001 model.columns=shared model.tolerance=0 "
            "model.intercept=1",
        ),
        ("ridge", "ridge model.columns=shared"),
        ("seasonal_naive", "seasonal_naive"),
        ("theta", "theta"),
    ],
)
def test_a_lost_run_ends_with_the_command_of_what_is_better(best, model):
    metrics = make(0.44, baselines={best: {"period": 24, **scores(0.1, 0.1)}}, same_data=SAME_DATA)
    name = best.replace("_", " ") if best != "closed_form_nlinear" else NLINEAR
    command = f"forecast train model={model} data=csv data.path='my file.csv' seq_len=96 pred_len=24"
    assert verdict(metrics, "test")[1] == f"A practitioner should use {name} instead: {command}"
    assert f"instead: {command}\n" in render(metrics)  # in one line, to be copied


def test_a_run_that_wins_or_is_that_model_gets_no_command():
    assert not any("forecast train" in text for text in verdict(make(same_data=SAME_DATA), "test"))
    itself = make(0.5, 0.5, model="ridge", same_data=SAME_DATA)  # as closed-form NLinear
    assert not any("forecast train" in text for text in verdict(itself, "test"))


def test_the_command_has_the_protocol_where_that_is_another_one():
    said = verdict(make(0.9, same_data=SAME_DATA, protocol="apart"), "test")
    assert any(sentence.endswith(" pred_len=24 protocol=apart") for sentence in said)


def test_of_a_trial_nothing_is_said_of_how_good_it_is():
    assert verdict(make(0.9, trial=True), "test") == verdict(make(0.1, trial=True), "test") == [TRIAL]


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict_says_how_good_the_model_is(case):
    metrics, sentences = VERDICTS[case]
    assert verdict(metrics, "test") == sentences


def test_neither_the_report_nor_the_figures_import_the_heavy_packages():
    heavy = "{'torch', 'lightning', 'hydra'}"
    code = f"import sys, forecast.report.verdict, forecast.report.figures; print({heavy} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


def test_foreign_names_in_the_tables_and_the_verdict_are_seen_and_not_obeyed():
    names = {key: f"{key}\x1b[2J\ny [bold]" for key in ("model", "attention", "data", "features", "protocol")}
    metrics = make(test={"flat": ["OT\x1b[2J", "a\nb", "n" * 600]}, **names, evaluated_file="f\x07.csv")
    text = render(metrics)
    assert harmless(text) == text
    words = (r"data\x1b[2J\ny [bold]", r"f\x07.csv", r"Forecasts of OT\x1b[2J, a\nb, nnn", "... (600 characters) are")
    assert all(word.replace(" ", "") in text.replace("\n", "").replace(" ", "") for word in words)


def test_of_a_panel_mase_may_name_another_winner_than_mse():
    metrics = make(0.44)
    metrics["test"]["mase"], metrics["baselines"]["closed_form_nlinear"]["mase"] = 1.0, 0.9
    assert not any("MASE says" in sentence for sentence in verdict(metrics, "test"))
    metrics["test"]["series"] = {"count": 3}
    assert any(sentence.startswith("MASE says otherwise: by MASE it loses to") for sentence in verdict(metrics, "test"))


def of_columns(**errors):
    """The errors of targets: name=(MAE in the file's units, MASE)."""
    return {name: {"original": {"mae": mae}, "mase": mase} for name, (mae, mase) in errors.items()}


def test_the_first_sentence_names_the_targets_in_the_units_of_the_file():
    metrics = make(test={"columns": of_columns(price=(12.5, 0.5))})
    said = "Forecasts of price are off by 12.5 on average, in the units of the file (MAE)."
    assert verdict(metrics, "test")[0] == said
    first, *_ = verdict(make(test={"columns": of_columns(load=(1.0, 0.5), price=(12.5, 0.5))}, target="price"), "test")
    assert first.startswith("Forecasts of price are off by 12.5, of load by 1 on average")  # the target of the card
    metrics = make(test={"columns": of_columns(price=(12.5, 0.5), sold=(3.0, 0.5))})
    said = "Forecasts of price are off by 12.5, of sold by 3 on average, in the units of the file (MAE)."
    assert verdict(metrics, "test")[0] == said
    metrics = make(test={"columns": of_columns(**dict.fromkeys("abcdef", (1.0, 0.5)))})
    assert ", of c by 1, of d by 1 and of 2 more columns on average, in" in verdict(metrics, "test")[0]


def test_the_targets_that_a_baseline_forecasts_better_are_named():
    ours, theirs = of_columns(flow=(1.0, 1.1), heat=(1.0, 0.6)), of_columns(flow=(0.9, 1.0), heat=(1.2, 0.7))
    best = {"seasonal_naive": scores(0.5, 0.5) | {"period": 24, "columns": theirs}}
    sentences = verdict(make(test={"columns": ours}, baselines=best), "test")
    assert "Of flow alone seasonal naive errs less, by MASE." in sentences
    worse = make(test={"columns": ours}, baselines={"seasonal_naive": best["seasonal_naive"] | scores(0.1, 0.1)})
    assert not any("alone" in one for one in verdict(worse, "test"))
