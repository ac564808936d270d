"""Contenders take turns, and a ratio is one of the same round."""

import pytest

from benchmarks import step, timing
from benchmarks.setting import Setting
from forecast.errors import UserError


class Clock:
    """Time that passes only when a contender runs."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def contender(self, name, seconds, calls):
        """Takes the next of `seconds` at each call, over and over."""

        def run():
            self.now += seconds[calls.count(name) % len(seconds)]
            calls.append(name)

        return run


def test_contenders_alternate_and_the_warm_up_is_not_timed():
    clock, calls = Clock(), []
    contenders = {"a": clock.contender("a", [70.0, 3.0], calls), "b": clock.contender("b", [110.0, 5.0], calls)}
    seconds = timing.turns(contenders, rounds=1, budget=1e9, warm_up=1, clock=clock)
    assert calls == ["a", "b", "a", "b"]
    assert seconds == {"a": [3.0], "b": [5.0]}


@pytest.mark.parametrize(
    ("rounds", "budget", "done"), [(5, 1e9, 5), (11, 35.0, 4), (11, 0.0, timing.LEAST_ROUNDS), (2, 0.0, 2)]
)
def test_rounds_end_at_their_number_or_with_the_budget_but_a_few_there_are_always(rounds, budget, done):
    clock, calls = Clock(), []
    contenders = {"a": clock.contender("a", [10.0], calls)}
    assert len(timing.turns(contenders, rounds=rounds, budget=budget, clock=clock)["a"]) == done


def test_a_gpu_is_waited_for_before_and_after_each_timed_call():
    events = []
    contenders = {"a": lambda: events.append("a"), "b": lambda: events.append("b")}
    timing.turns(contenders, rounds=1, budget=1.0, warm_up=0, synchronise=lambda: events.append("|"))
    assert events == ["|", "a", "|", "|", "b", "|"]


def ratio(theirs, ours):
    return timing.compared({"theirs": theirs, "ours": ours}, ["theirs"])["ours"]["ratios"]["theirs"]


def test_a_ratio_is_the_median_of_the_ratios_of_single_rounds():
    theirs, ours = [2.0, 30.0, 6.0], [1.0, 3.0, 4.0]  # ratios 2, 10, 1.5; the ratio of the medians is also 2
    assert ratio(theirs, ours) == pytest.approx({"median": 2.0, "low": 1.6, "high": 8.4})
    assert ratio([8.0, 9.0, 100.0], [1.0, 3.0, 4.0])["median"] == 8.0  # not 9 / 3


def test_deciles_lie_between_the_sorted_values_in_proportion():
    assert timing.spread([13.0, 11.0, 17.0]) == pytest.approx({"median": 13.0, "low": 11.4, "high": 16.2})
    assert timing.spread([7.0]) == {"median": 7.0, "low": 7.0, "high": 7.0}


def test_figures_refer_to_each_reference_but_not_to_themselves():
    seconds = {"ours": [1.0, 2.0, 3.0], "first": [3.0, 6.0, 9.0], "second": [5.0, 10.0, 15.0]}
    figures = timing.compared(seconds, ["first", "second"])
    assert [list(figures[name]["ratios"]) for name in seconds] == [["first", "second"], ["second"], ["first"]]
    assert figures["ours"]["seconds"] == 2.0 and figures["ours"]["rounds"] == 3
    assert figures["ours"]["ratios"]["second"]["median"] == 5.0


def test_a_contender_of_another_name_is_refused_with_the_list():
    setting = Setting(device="cpu", threads=1, peers=(), rounds=1, budget=1.0, memory=1.0)
    message = r"--only 'prob fp32': there is no such contender. It is one of ours informer2020"
    with pytest.raises(UserError, match=message):
        step.contenders(setting, ["prob fp32"])
    assert [contender.name for contender in step.contenders(setting, ["ours prob fp32"])] == ["ours prob fp32"]
