"""Parts are answered once each, few are under way at a time, and a dead worker costs the part that it was at."""

import random

import pytest

from forecast.errors import UserError
from forecast.jobs import Ended
from forecast.jobs.share_out import MOST_DEATHS, WorkerDied, share_out


class FakePool:
    """Workers in name only. deadly {part: how many workers die at it}; replaced: whether a new worker ever begins."""

    def __init__(self, deadly=(), *, replaced=True, seed=0):
        self.deadly, self.replaced, self.draws = dict(deadly), replaced, random.Random(seed)
        self.asked, self.under_way, self.most, self.started = [], {}, 0, 0

    def start(self):
        self.started += 1
        return f"new {self.started}"

    def ask(self, worker, part):
        question = (worker, part, len(self.asked))
        self.asked.append(part)
        self.under_way[question] = part
        assert [one[0] for one in self.under_way].count(worker) == 1, "a worker has one part at a time"
        self.most = max(self.most, len(self.under_way))
        return question

    def first(self, questions, *, working):
        assert set(questions) == set(self.under_way)
        assert working == any(part is not None for _, part, _ in questions)
        there = [one for one in questions if self.replaced or one[1] is not None]
        if not there:
            raise UserError("no worker is left")
        return self.draws.choice(there)

    def answer(self, question):
        part = self.under_way.pop(question)
        if self.deadly.get(part, 0):
            self.deadly[part] -= 1
            raise WorkerDied("killed")
        return Ended("there" if part is None else part * part)


def shared(pool, parts=range(1, 38), workers=("a", "b", "c")):
    done, died = [], []
    answers = share_out(
        parts, workers, pool, done=lambda part, _: done.append(part), died=lambda part, _: died.append(part)
    )
    assert sorted(done) == sorted(answers) == list(parts)
    return answers, died


@pytest.mark.parametrize("seed", range(5))
def test_each_part_is_answered_once_with_as_many_under_way_as_there_are_workers(seed):
    pool = FakePool(seed=seed)
    answers, died = shared(pool)
    assert answers == {part: Ended(part * part) for part in range(1, 38)}
    assert sorted(pool.asked) == list(range(1, 38)) and pool.most == 3 and not died


def test_no_worker_waits_while_there_are_parts_and_none_is_asked_for_nothing():
    pool = FakePool()
    shared(pool, parts=range(1, 3), workers=("a", "b", "c", "d"))
    assert pool.asked == [1, 2] and pool.most == 2


@pytest.mark.parametrize("seed", range(5))
def test_a_death_costs_its_own_part_and_a_new_worker_takes_its_place(seed):
    pool = FakePool({7: 1, 20: 2}, seed=seed)
    answers, died = shared(pool)
    assert answers == {part: Ended(part * part) for part in range(1, 38)} and sorted(died) == [7, 20, 20]
    assert sorted(part for part in pool.asked if part) == sorted([*range(1, 38), 7, 20, 20])
    assert pool.started == 3 and pool.most == 3


def test_a_part_that_kills_all_its_workers_fails_alone():
    answers, died = shared(FakePool({5: 100}))
    assert died == [5] * MOST_DEATHS
    assert answers.pop(5) == Ended(error="3 workers died at it, the last one so: killed")
    assert answers == {part: Ended(part * part) for part in range(1, 38) if part != 5}


def test_without_new_workers_those_that_are_left_make_all_parts():
    answers, _ = shared(FakePool({3: 1, 11: 1}, replaced=False))
    assert answers == {part: Ended(part * part) for part in range(1, 38)}


def test_where_no_worker_is_left_it_ends():
    with pytest.raises(UserError, match="no worker is left"):
        shared(FakePool({1: 1, 2: 1, 3: 1}, replaced=False))


def test_a_worker_that_is_no_good_gets_no_part():
    class Wary(FakePool):
        def answer(self, question):
            answer = super().answer(question)
            return Ended(error="another torch") if answer.value == "there" else answer

    pool = Wary({7: 1})
    answers, _ = shared(pool)
    assert answers == {part: Ended(part * part) for part in range(1, 38)}
    assert pool.asked.count(None) == 1 and pool.most == 3
