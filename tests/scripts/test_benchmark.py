"""scripts/benchmark.py: what it measures, and how it says so."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark.py"


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_growth_is_the_exponent_of_the_lengths_from_1024_on(benchmark):
    lengths = (96, 1024, 2048, 8192)
    assert benchmark.growth({n: 1e-9 * n**1.25 for n in lengths[1:]} | {96: 1.0}) == pytest.approx(1.25)
    assert benchmark.growth({96: 1.0, 1024: 2.0}) is None


def test_every_attention_of_the_config_is_benchmarked(benchmark):
    from forecast.config.values import options

    assert benchmark.attentions() == options("attention", but="inherit")


def test_a_peak_of_memory_is_that_of_the_call(benchmark):
    import torch

    figures = benchmark.measured(lambda: torch.zeros(25_000_000).add_(1.0), "cpu")
    assert 90 < figures["megabytes"] < 130
    assert figures["seconds"] > 0


@pytest.mark.slow
def test_the_table_and_the_file_hold_each_attention_and_length(tmp_path):
    file = tmp_path / "figures.json"
    done = run(
        "attention", "--only", "full", "single_head", "--lengths", "16", "24", "--heads", "2", "--json", str(file)
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())["attention"]
    assert {name: [row["L"] for row in rows] for name, rows in figures.items()} == {
        "full": [16, 24],
        "single_head": [16, 24],
    }
    assert all(row[each]["seconds"] > 0 for rows in figures.values() for row in rows for each in row if each != "L")
    assert done.stdout.count(" ms ") == 2 * 2 * 2


@pytest.mark.slow
def test_a_length_that_needs_too_much_memory_is_named_and_ends_only_its_own_row():
    done = run("attention", "--only", "topk", "--lengths", "16", "4096", "--memory", "0.8")
    assert done.returncode == 0
    assert "topk               L   4096  forward not measured" in done.stdout
    assert "topk               L     16" in done.stdout


def test_an_unknown_attention_is_refused_with_the_list():
    done = run("attention", "--only", "ful")
    assert done.returncode == 1
    assert "--only ful: there is no such attention. It is one of fixed, full," in done.stderr


@pytest.mark.slow
def test_rows_grow_by_one_a_step_with_the_cache_and_by_all_so_far_without(tmp_path):
    file = tmp_path / "figures.json"
    sizes = ["--seq_len", "11", "--pred_lens", "3", "7", "--batch", "2"]
    done = run("decoding", *sizes, "--json", str(file))
    assert done.returncode == 0, done.stderr
    found = {row["pred_len"]: row for row in json.loads(file.read_text())["decoding"]}
    assert {p: row["cached"]["rows"] for p, row in found.items()} == {3: 11 + 2, 7: 11 + 6}
    assert {p: row["uncached"]["rows"] for p, row in found.items()} == {p: sum(range(11, 11 + p)) for p in (3, 7)}


REFUSED = {
    "a size below 1": (["attention", "--lengths", "16", "0"], "--lengths 0: must be at least 1"),
    "no such folder": (["attention", "--json", "no/where.json"], "--json no/where.json: there is no folder"),
    "no GPU": (["decoding", "--device", "cuda"], "--device cuda: torch sees no GPU here. Use --device cpu"),
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
