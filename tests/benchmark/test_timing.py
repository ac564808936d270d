"""Contenders take turns, and a ratio is one of the same round."""

import pytest

from benchmarks import timing
from benchmarks.setting import Setting

CALLS = {"a": [70.0, 3.0], "b": [110.0, 5.0]}


@pytest.fixture
def contenders(monkeypatch):
    """Of CALLS, with the list of their calls: each takes the next of its seconds; time passes only then."""
    now, calls = [0.0], []

    def contender(name):
        def run():
            now[0] += CALLS[name][calls.count(name) % 2]
            calls.append(name)

        return run

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return {name: contender(name) for name in CALLS}, calls


def test_contenders_alternate_and_the_warm_up_is_not_timed(contenders):
    contenders, calls = contenders
    seconds = timing.turns(contenders, Setting(rounds=1, budget=1e9), warm_up=1)
    assert calls == ["a", "b", "a", "b"]
    assert seconds == {"a": [3.0], "b": [5.0]}


@pytest.mark.parametrize(
    ("rounds", "budget", "expected"), [(5, 1e9, 5), (11, 197.0, 4), (11, 0.0, timing.LEAST_ROUNDS), (2, 0.0, 2)]
)
def test_rounds_end_at_their_number_or_with_the_budget_but_a_few_there_are_always(contenders, rounds, budget, expected):
    seconds = timing.turns(contenders[0], Setting(rounds=rounds, budget=budget))
    assert len(seconds["a"]) == len(seconds["b"]) == expected


def test_a_gpu_is_waited_for_before_and_after_each_timed_call(monkeypatch):
    events = []
    monkeypatch.setattr(timing.torch.cuda, "synchronize", lambda: events.append("|"))
    contenders = {"a": lambda: events.append("a"), "b": lambda: events.append("b")}
    timing.turns(contenders, Setting(device="cuda", rounds=1), warm_up=0)
    assert events == ["|", "a", "|", "|", "b", "|"]


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        # ratios 2, 10, 1.5; the ratio of the medians is also 2
        ([2.0, 30.0, 6.0], {"median": 2.0, "low": 1.6, "high": 8.4}),
        # ratios 8, 3, 25; the ratio of the medians is 9 / 3
        ([8.0, 9.0, 100.0], {"median": 8.0, "low": 4.0, "high": 21.6}),
    ],
)
def test_a_ratio_is_the_median_of_the_ratios_of_single_rounds(theirs, expected):
    figures = timing.compared({"theirs": theirs, "ours": [1.0, 3.0, 4.0]}, ["theirs"])
    assert figures["ours"]["ratios"]["theirs"] == pytest.approx(expected)


def test_deciles_lie_between_the_sorted_values_in_proportion():
    assert timing.deciles([13.0, 11.0, 17.0]) == pytest.approx({"median": 13.0, "low": 11.4, "high": 16.2})
    assert timing.deciles([7.0]) == {"median": 7.0, "low": 7.0, "high": 7.0}


def test_figures_refer_to_each_reference_but_not_to_themselves():
    seconds = {"ours": [1.0, 2.0, 3.0], "first": [3.0, 6.0, 9.0], "second": [5.0, 10.0, 15.0]}
    figures = timing.compared(seconds, ["first", "second"])
    assert [list(figures[name]["ratios"]) for name in seconds] == [["first", "second"], ["second"], ["first"]]
    assert figures["ours"]["seconds"] == 2.0 and figures["ours"]["rounds"] == 3
    assert figures["ours"]["ratios"]["second"]["median"] == 5.0


def test_the_machine_s_rate_counts_two_operations_a_product(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(ticks)))
    assert timing.machine_rates(Setting(), side=50) == {"fp32": 2 * 50**3 / 1e9, "bf16": 2 * 50**3 / 1e9}


def test_a_peak_of_memory_is_that_of_the_call():
    assert 90 < timing.peak_above(lambda: timing.torch.zeros(25_000_000).add_(1.0), Setting()) < 130
