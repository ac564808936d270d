"""scripts/benchmark.py: what it measures, and how it says so."""

import functools
import json
import subprocess
import sys

import pytest
from benchmark.fake_peer import write_peer, write_series
from script import SCRIPTS, call_script

from benchmarks import attention, command_line, fresh, machine, timing
from benchmarks.setting import Setting

SETTING = Setting(device="cpu", threads=1, peers=(), rounds=2, budget=1.0, memory=8.0)
# Every part in a few seconds.
TINY = ["--d_model", "6", "--n_heads", "2", "--d_ff", "7", "--rounds", "2", "--threads", "1"]
LENGTHS = ["--seq_len", "13", "--label_len", "5", "--pred_len", "3", "--batch", "32"]


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    return write_series(tmp_path_factory.mktemp("benchmark") / "series.csv")


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs the script in this process, with what has processes of its own; the peer's packages are taken out again."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("models", "data")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "0")
    monkeypatch.setattr(machine, "rates", functools.partial(machine.rates, side=64))
    monkeypatch.setattr(timing, "LEAST_SECONDS", 0.0)

    def here(function, setting, *, as_train=False, **arguments):
        return json.loads(json.dumps(function(setting, **json.loads(json.dumps(arguments)))))

    monkeypatch.setattr(fresh, "in_own_process", here)
    before = set(sys.modules)
    yield lambda *arguments: call_script(capsys, "benchmark", *arguments)
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("models", "data"):
            del sys.modules[name]


@pytest.fixture
def measured(tmp_path, call, series):
    """What a part found, and what it printed, beside a peer that computes what ours does."""

    def of(part, *arguments):
        peer, file = write_peer(tmp_path / "peer"), tmp_path / "figures.json"
        options = ["--csv", series, "--json", file, "--peer", f"informer2020={peer}", "--threads", 1]
        status, printed, error = call(part, *options, *arguments)
        assert status == 0, error
        return json.loads(file.read_text()), printed

    return of


def test_growth_is_the_exponent_of_the_lengths_from_1024_on():
    lengths = (96, 1024, 2048, 8192)
    assert attention.growth({n: 1e-9 * n**1.25 for n in lengths[1:]} | {96: 1.0}) == pytest.approx(1.25)
    assert attention.growth({96: 1.0, 1024: 2.0}) is None


def test_a_peak_of_memory_is_that_of_the_call():
    import torch

    figures = fresh.measured(lambda: torch.zeros(25_000_000).add_(1.0), SETTING)
    assert 90 < figures["megabytes"] < 130
    assert figures["seconds"] > 0


def test_the_machine_s_rate_counts_two_operations_a_product(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(ticks)))
    assert machine.rates(SETTING, side=50) == {"fp32": 2 * 50**3 / 1e9, "bf16": 2 * 50**3 / 1e9}


@pytest.mark.slow
def test_the_table_and_the_file_hold_each_attention_and_length(measured):
    sizes = ["--lengths", "16", "24", "--duel_lengths", "17", "--heads", "2", "--width", "5", "--duel_batch", "3"]
    content, printed = measured("attention", "--only", "full", "single_head", *sizes, "--rounds", "2")
    sweep = content["parts"]["attention"]
    lengths = {name: [row["L"] for row in series["rows"]] for name, series in sweep.items()}
    assert lengths == {"full": [16, 24], "single_head": [16, 24]}
    passes = [row[name] for series in sweep.values() for row in series["rows"] for name in attention.PASSES]
    assert all(figures["seconds"] > 0 and figures["megabytes"] is not None for figures in passes)
    assert printed.count("MB  |  forward+backward") == 2 * 2
    assert "| attention | L 16 | L 24 | time grows as |" in printed
    duel = content["parts"]["duel"]
    assert [(row["L"], row["causal"], list(row["contenders"])) for row in duel] == [
        (17, causal, ["ours full", "informer2020"]) for causal in (False, True)
    ]
    assert all("megabytes" in figures for row in duel for figures in row["contenders"].values())
    assert duel[0]["contenders"]["ours full"]["ratios"]["informer2020"]["median"] > 0


@pytest.mark.slow
def test_a_length_that_needs_too_much_memory_is_named_and_ends_only_its_own_row(capsys):
    sizes = ["--lengths", "16", "4096", "--memory", "0.8", "--both_only", "--threads", "1"]
    status, printed, _ = call_script(capsys, "benchmark", "attention", "--tables", "sweep", "--only", "topk", *sizes)
    assert status == 0
    assert "topk               L   4096  forward+backward not measured: " in printed
    assert "topk               L     16  forward+backward " in printed


@pytest.mark.slow
def test_a_step_is_timed_for_both_recipes_both_precisions_and_the_peer(measured):
    content, printed = measured("step", *TINY, *LENGTHS)
    (row,) = content["parts"]["step"]
    models = ("ours informer2020", "ours prob", "informer2020")
    assert list(row["contenders"]) == [f"{name} {kind}" for name in models for kind in ("fp32", "bf16-mixed")]
    ours = row["contenders"]["ours informer2020 fp32"]
    assert ours["share"] == pytest.approx(row["gflop"] / ours["seconds"] / row["rates"]["fp32"], rel=1e-4)
    assert ours["ratios"].keys() == {"informer2020 fp32", "informer2020 bf16-mixed"}
    assert all(figures["megabytes"] is not None for figures in row["contenders"].values())
    assert content["machine"]["rates"]["step"]["before"].keys() == {"fp32", "bf16"}
    assert printed.count("Matrix products before and after, GFLOP/s: ") == 1


def test_data_reads_the_windows_of_a_training_on_both_sides(measured):
    content, printed = measured("data", *LENGTHS, "--fraction", "0.05", "--rounds", "2")
    theirs, ours = (content["parts"]["data"]["contenders"][name] for name in ("informer2020", "ours"))
    windows = 12 * 30 * 24 - 13 - 3 + 1
    assert ours["windows"] == theirs["windows"] == 32 * int(0.05 * windows / 32)
    assert "windows/s" in printed


@pytest.mark.slow
def test_an_epoch_is_trained_and_validated_on_both_sides(measured):
    content, _ = measured("epoch", *TINY, *LENGTHS, "--fraction", "0.02", "--budget", "0")
    contenders = content["parts"]["epoch"]["contenders"]
    assert list(contenders) == ["ours informer2020 fp32", "ours informer2020 bf16-mixed", "informer2020 fp32"]
    for figures in contenders.values():
        assert figures["seconds"] > 0
        assert figures["val_mse"] > 0


@pytest.mark.slow
def test_evaluation_by_the_same_weights_gives_the_same_error(measured):
    content, printed = measured("evaluation", *TINY, *LENGTHS, "--batch", "256", "--rounds", "1")
    ours, theirs = (content["parts"]["evaluation"]["contenders"][name]["mse"] for name in ("ours", "informer2020"))
    assert theirs == pytest.approx(ours, rel=0.02)
    assert f"MSE of informer2020: {theirs:.4f}" in printed


@pytest.mark.slow
def test_a_peer_that_computes_something_else_is_no_peer(tmp_path, call, series):
    peer = write_peer(tmp_path / "peer", scale=3.0)
    options = ["--peer", f"informer2020={peer}", "--csv", series]
    status, _, error = call("evaluation", *options, *TINY, *LENGTHS, "--batch", "256", "--rounds", "1")
    assert status == 1
    assert "more than 2% apart: the two do not compute the same" in error


@pytest.mark.slow
def test_predict_runs_the_program_itself(measured):
    content, _ = measured("predict", *TINY, *LENGTHS, "--rounds", "1")
    assert content["parts"]["predict"]["steps"] == 3
    assert content["parts"]["predict"]["contenders"]["predict.py"]["seconds"] > 0


REFUSED = {
    "a size below 1": (["attention", "--lengths", "16", "0"], "--lengths 0: must be at least 1"),
    "a model size below 1": (["step", "--d_ff", "0"], "--d_ff 0: must be at least 1"),
    "heads that do not fit": (["step", "--d_model", "7"], "--d_model 7: must be a multiple of --n_heads 8"),
    "a fraction above 1": (["epoch", "--fraction", "2"], "--fraction 2.0: must be above 0 and at most 1"),
    "an attention that is not there": (["attention", "--only", "ful"], "--only ful: there is no such attention. It is"),
    "no such folder": (["attention", "--json", "no/where.json"], "--json no/where.json: there is no folder"),
    "no such series": (["data", "--csv", "no.csv"], "--csv no.csv: there is no such file"),
    "no GPU": (["all", "--device", "cuda"], "--device cuda: torch sees no GPU here. Use --device cpu"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_only_fail_later_is_refused_before_anything_is_measured(case, capsys):
    import torch

    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is one")
    arguments, says = REFUSED[case]
    status, printed, error = call_script(capsys, "benchmark", *arguments)
    assert status == 2
    assert says in error
    assert printed == ""


def test_a_folder_that_is_no_checkout_ends_all_before_its_first_part(tmp_path, capsys):
    status, printed, error = call_script(capsys, "benchmark", "all", "--peer", f"informer2020={tmp_path}")
    assert status == 1
    assert error.startswith(f"--peer informer2020={tmp_path}: the folder has no models/attn.py")
    assert printed == ""


def test_the_shortened_form_of_every_part_is_a_valid_command_line():
    assert list(command_line.SHORT) == list(command_line.PARTS)
    for part, words in command_line.SHORT.items():
        assert command_line.make_parser().parse_args([part, *words.split(), "--threads", "2"]).threads == 2


@pytest.mark.parametrize("name", ["benchmark", pytest.param("performance", marks=pytest.mark.slow)])
def test_the_script_is_found_from_any_folder(name, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = [sys.executable, SCRIPTS / f"{name}.py", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
