"""scripts/benchmark.py: what it measures, and how it says so."""

import functools
import json
import subprocess
import sys

import pytest
from benchmark.fake_peer import write_peer, write_series
from script import SCRIPTS, call_script

from benchmarks import attention, command_line, timing

# Every part in a few seconds.
TINY = ["--d_model", "6", "--n_heads", "2", "--d_ff", "7", "--rounds", "2"]
LENGTHS = ["--seq_len", "13", "--label_len", "5", "--pred_len", "3", "--batch", "32"]


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    return write_series(tmp_path_factory.mktemp("benchmark") / "series.csv")


def measure_here(monkeypatch):
    """What has processes of its own runs in this one, and as shortly as can be."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "0")
    monkeypatch.setattr(timing, "machine_rates", functools.partial(timing.machine_rates, side=64))
    monkeypatch.setattr(timing, "LEAST_SECONDS", 0.0)

    def here(function, setting, *, as_train=False, **arguments):
        return json.loads(json.dumps(function(setting, **json.loads(json.dumps(arguments)))))

    monkeypatch.setattr(timing, "in_own_process", here)


@pytest.fixture
def call(tmp_path, monkeypatch, capsys, series):
    """Runs a part in this process, with what has processes of its own, beside a peer of that scale.

    The result: exit status, what was printed, errors. The peer's packages are taken out again.
    """

    def of_the_peer():
        return [name for name in sys.modules if name.split(".")[0] in ("models", "data")]

    for name in of_the_peer():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [*sys.path])
    measure_here(monkeypatch)

    def run(part, *arguments, scale=1.0):
        peer = write_peer(tmp_path / "peer", scale=scale)
        options = ["--csv", series, "--json", tmp_path / "figures.json", "--peer", f"informer2020={peer}"]
        return call_script(capsys, "benchmark", part, *options, "--threads", 1, *arguments)

    yield run
    for name in of_the_peer():
        del sys.modules[name]


@pytest.fixture
def measured(tmp_path, call):
    """The content of the file that a part writes, and what it prints."""

    def of(part, *arguments):
        status, printed, error = call(part, *arguments)
        assert status == 0, error
        return json.loads((tmp_path / "figures.json").read_text()), printed

    return of


def test_growth_is_the_exponent_of_the_lengths_from_1024_on():
    lengths = (96, 1024, 2048, 8192)
    assert attention.growth({n: 1e-9 * n**1.25 for n in lengths[1:]} | {96: 1.0}) == pytest.approx(1.25)
    assert attention.growth({96: 1.0, 1024: 2.0}) is None


@pytest.mark.slow
def test_the_table_and_the_file_hold_each_attention_and_length(measured, monkeypatch):
    for name, value in {"HEADS": 2, "WIDTH": 5, "DUEL_LENGTHS": (17, 19), "DUEL_MEMORY_LENGTHS": (17,)}.items():
        monkeypatch.setattr(attention, name, value)
    content, printed = measured("attention", "--only", "full", "single_head", "--lengths", 16, 24, "--rounds", 2)
    sweep, duel = content["parts"]["attention"], content["parts"]["duel"]
    lengths = {name: [row["L"] for row in series["rows"]] for name, series in sweep.items()}
    assert lengths == {"full": [16, 24], "single_head": [16, 24]}
    passes = [row["forward+backward"] for series in sweep.values() for row in series["rows"]]
    assert all(figures["seconds"] > 0 and figures["megabytes"] is not None for figures in passes)
    assert printed.count("  forward+backward ") == 2 * 2
    assert "| attention | L 16 | L 24 | time grows as |" in printed
    assert [(row["L"], row["causal"], list(row["contenders"])) for row in duel] == [
        (length, causal, ["ours full", "informer2020"]) for causal in (False, True) for length in (17, 19)
    ]
    with_memory = [row["L"] for row in duel for figures in row["contenders"].values() if "megabytes" in figures]
    assert with_memory == [17] * 4
    assert duel[0]["contenders"]["ours full"]["ratios"]["informer2020"]["median"] > 0


@pytest.mark.slow
def test_a_step_is_timed_for_both_recipes_both_precisions_and_the_peer(measured):
    content, printed = measured("step", *TINY, *LENGTHS)
    (row,) = content["parts"]["step"]
    models = ("ours informer2020", "ours prob", "informer2020")
    assert list(row["contenders"]) == [f"{name} {kind}" for name in models for kind in ("fp32", "bf16-mixed")]
    for precision, rate in {"fp32": "fp32", "bf16-mixed": "bf16"}.items():
        ours = row["contenders"][f"ours informer2020 {precision}"]
        assert ours["share"] == pytest.approx(row["gflop"] / ours["seconds"] / row["rates"][rate], rel=1e-4)
        assert ours["ratios"].keys() == {"informer2020 fp32", "informer2020 bf16-mixed"}
    assert all(figures["megabytes"] is not None for figures in row["contenders"].values())
    assert content["machine"]["rates"]["step"]["before"].keys() == {"fp32", "bf16"}
    assert printed.count("Matrix products before and after, GFLOP/s: ") == 1


def test_data_reads_the_windows_of_a_training_on_both_sides(measured):
    content, printed = measured("data", *LENGTHS, "--rounds", 1)
    theirs, ours = (content["parts"]["data"]["contenders"][name] for name in ("informer2020", "ours"))
    windows = 12 * 30 * 24 - 13 - 3 + 1
    assert ours["windows"] == windows
    assert theirs["windows"] == windows - windows % 32
    assert ours["ratios"]["informer2020"]["median"] == pytest.approx(
        ours["windows_per_second"] / theirs["windows_per_second"], rel=1e-4
    )
    assert "windows/s" in printed


@pytest.mark.slow
def test_an_epoch_is_trained_and_validated_on_both_sides(measured):
    content, _ = measured("epoch", *TINY, *LENGTHS, "--fraction", "0.02", "--budget", "0")
    contenders = content["parts"]["epoch"]["contenders"]
    assert list(contenders) == ["ours informer2020 fp32", "ours informer2020 bf16-mixed", "informer2020 fp32"]
    assert all(figures["seconds"] > 0 and figures["val_mse"] > 0 for figures in contenders.values())
    assert {figures["rounds"] for figures in contenders.values()} == {1}


@pytest.mark.slow
def test_evaluation_by_the_same_weights_gives_the_same_error(measured):
    content, printed = measured("evaluation", *TINY, *LENGTHS, "--batch", "256", "--rounds", "1")
    ours, theirs = (content["parts"]["evaluation"]["contenders"][name]["mse"] for name in ("ours", "informer2020"))
    assert theirs == pytest.approx(ours, rel=0.02)
    assert f"MSE of informer2020: {theirs:.4f}" in printed


@pytest.mark.slow
def test_a_peer_that_computes_something_else_is_no_peer(call):
    status, _, error = call("evaluation", *TINY, *LENGTHS, "--batch", "256", "--rounds", "1", scale=3.0)
    assert status == 1
    assert "more than 2% apart: the two do not compute the same" in error


@pytest.mark.slow
@pytest.mark.parametrize(("part", "shortened"), [(part, short) for part, (_, short) in command_line.PARTS.items()])
def test_the_shortened_form_of_every_part_is_a_valid_command_line(part, shortened):
    assert command_line.make_parser().parse_args([part, *shortened.split(), "--threads", "2"]).threads == 2


@pytest.mark.parametrize("name", ["benchmark", pytest.param("performance", marks=pytest.mark.slow)])
def test_the_script_is_found_from_any_folder(name, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = [sys.executable, SCRIPTS / f"{name}.py", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
