"""scripts/benchmark.py: what it measures, and how it says so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark.fake_peer import write_peer, write_series
from script import SCRIPTS

from benchmarks import attention, fresh, machine
from benchmarks.setting import Setting

SETTING = Setting(device="cpu", threads=1, peers=(), rounds=2, budget=1.0, memory=8.0)
# Every part in a few seconds.
TINY = ["--d_model", "6", "--n_heads", "2", "--d_ff", "7", "--rounds", "2", "--threads", "1"]
LENGTHS = ["--seq_len", "13", "--label_len", "5", "--pred_len", "3", "--batch", "32"]


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPTS / "benchmark.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What a part found, and what it printed, beside a peer that computes what ours does."""
    folder = tmp_path_factory.mktemp("benchmark")
    peer, csv = write_peer(folder / "peer"), write_series(folder / "series.csv")

    def of(part, *arguments):
        file = folder / f"{part}.json"
        with_csv = ["--csv", csv] if part not in ("attention", "step", "decoding") else []
        done = run(part, "--peer", f"informer2020={peer}", "--json", file, *with_csv, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text()), done.stdout

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
    monkeypatch.setattr(machine.time, "perf_counter", lambda: float(next(ticks)))
    assert machine.rates(SETTING, side=50) == {"fp32": 2 * 50**3 / 1e9, "bf16": 2 * 50**3 / 1e9}


@pytest.mark.slow
def test_the_table_and_the_file_hold_each_attention_and_length(measured):
    sizes = ["--lengths", "16", "24", "--duel_lengths", "17", "--heads", "2", "--width", "5", "--duel_batch", "3"]
    found, printed = measured("attention", "--only", "full", "single_head", *sizes, "--rounds", "2")
    sweep = found["parts"]["attention"]
    assert {name: [row["L"] for row in each["rows"]] for name, each in sweep.items()} == {
        "full": [16, 24],
        "single_head": [16, 24],
    }
    passes = [row[which] for each in sweep.values() for row in each["rows"] for which in attention.PASSES]
    assert all(each["seconds"] > 0 and each["megabytes"] is not None for each in passes)
    assert printed.count("MB  |") == 2 * 2
    duel = found["parts"]["duel"]
    assert [(row["L"], row["causal"], list(row["contenders"])) for row in duel] == [
        (17, causal, ["ours full", "informer2020"]) for causal in (False, True)
    ]
    assert all("megabytes" in figures for row in duel for figures in row["contenders"].values())
    assert duel[0]["contenders"]["ours full"]["ratios"]["informer2020"]["median"] > 0


@pytest.mark.slow
def test_a_length_that_needs_too_much_memory_is_named_and_ends_only_its_own_row():
    done = run("attention", "--tables", "sweep", "--only", "topk", "--lengths", "16", "4096", "--memory", "0.8")
    assert done.returncode == 0
    assert "topk               L   4096  forward not measured" in done.stdout
    assert "topk               L     16" in done.stdout


@pytest.mark.slow
def test_a_step_is_timed_for_both_recipes_both_precisions_and_the_peer(measured):
    found, printed = measured("step", *TINY, *LENGTHS)
    (row,) = found["parts"]["step"]
    assert list(row["contenders"]) == [
        "ours informer2020 fp32",
        "ours informer2020 bf16-mixed",
        "ours prob fp32",
        "ours prob bf16-mixed",
        "informer2020 fp32",
        "informer2020 bf16-mixed",
    ]
    ours = row["contenders"]["ours informer2020 fp32"]
    assert ours["share"] == pytest.approx(row["gflop"] / ours["seconds"] / row["rates"]["fp32"], rel=1e-4)
    assert ours["ratios"].keys() == {"informer2020 fp32", "informer2020 bf16-mixed"}
    assert all(figures["megabytes"] > 0 for figures in row["contenders"].values())
    assert found["machine"]["rates"]["step"]["before"].keys() == {"fp32", "bf16"}
    assert printed.count("Matrix products before") == printed.count("Matrix products after") == 1


@pytest.mark.slow
def test_data_reads_the_windows_of_a_training_on_both_sides(measured):
    found, printed = measured("data", *LENGTHS, "--fraction", "0.05", "--rounds", "2")
    theirs, ours = (found["parts"]["data"]["contenders"][name] for name in ("informer2020", "ours"))
    windows = 12 * 30 * 24 - 13 - 3 + 1
    assert ours["windows"] == theirs["windows"] == 32 * int(0.05 * windows / 32)
    assert "windows/s" in printed


@pytest.mark.slow
def test_an_epoch_is_trained_and_validated_on_both_sides(measured):
    found, _ = measured("epoch", *TINY, *LENGTHS, "--fraction", "0.02", "--budget", "0")
    contenders = found["parts"]["epoch"]["contenders"]
    assert list(contenders) == ["ours informer2020 fp32", "ours informer2020 bf16-mixed", "informer2020 fp32"]
    for figures in contenders.values():
        assert 0 < figures["until_first_step"] < figures["seconds"]
        assert figures["val_mse"] > 0


@pytest.mark.slow
def test_evaluation_by_the_same_weights_gives_the_same_error(measured):
    found, _ = measured("evaluation", *TINY, *LENGTHS, "--rounds", "1")
    ours, theirs = (found["parts"]["evaluation"]["contenders"][name]["mse"] for name in ("ours", "informer2020"))
    assert theirs == pytest.approx(ours, rel=0.02)


@pytest.mark.slow
def test_a_peer_that_computes_something_else_is_no_peer(tmp_path):
    peer, csv = write_peer(tmp_path / "peer", scale=3.0), write_series(tmp_path / "series.csv")
    done = run("evaluation", "--peer", f"informer2020={peer}", "--csv", csv, *TINY, *LENGTHS, "--rounds", "1")
    assert done.returncode == 1
    assert "more than 2% apart: the two do not compute the same" in done.stderr


@pytest.mark.slow
def test_predict_and_startup_run_the_programs_themselves(measured):
    found, _ = measured("predict", *TINY, *LENGTHS)
    assert found["parts"]["predict"]["steps"] == 3
    found, _ = measured("startup", *TINY, *LENGTHS)
    seconds = {name: each["seconds"] for name, each in found["parts"]["startup"]["contenders"].items()}
    assert 0 < seconds["import forecast"] < seconds["import torch"] < seconds["train.py to its first step"]
    assert {"train.py --help", "train.py --cfg job"} < seconds.keys()


@pytest.mark.slow
def test_rows_grow_by_one_a_step_with_the_cache_and_by_all_so_far_without(measured):
    found, _ = measured("decoding", "--seq_len", "11", "--pred_lens", "3", "7", "--batch", "2")
    rows = {row["pred_len"]: row for row in found["parts"]["decoding"]}
    assert {p: row["cached"]["rows"] for p, row in rows.items()} == {3: 11 + 2, 7: 11 + 6}
    assert {p: row["uncached"]["rows"] for p, row in rows.items()} == {p: sum(range(11, 11 + p)) for p in (3, 7)}


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
def test_what_could_only_fail_later_is_refused_before_anything_is_measured(case):
    import torch

    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is one")
    arguments, says = REFUSED[case]
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_folder_that_is_no_checkout_ends_all_before_its_first_part(tmp_path):
    done = run("all", "--peer", f"informer2020={tmp_path}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"--peer informer2020={tmp_path}: the folder has no models/attn.py")
    assert done.stdout == ""


def test_the_shortened_form_of_every_part_is_a_valid_command_line(capsys):
    from importlib.util import module_from_spec, spec_from_file_location

    from benchmarks.running import PARTS

    spec = spec_from_file_location("script_benchmark", Path(SCRIPTS) / "benchmark.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert list(module.HELP) == list(module.SHORT) == list(PARTS)
    for part, words in module.SHORT.items():
        assert module.make_parser().parse_args([part, *words, "--threads", "2"]).threads == 2
