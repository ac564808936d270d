"""Parts of a work given to workers that may die: each part is answered once, and few are under way at a time."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from forecast.jobs import Ended

MOST_DEATHS = 3  # of workers at one part, which may be what kills them


class WorkerDied(Exception):
    """A worker is gone, and with it the part that it was at."""


W = TypeVar("W")  # whatever stands for a worker


class Pool(Protocol[W]):
    """Where workers are. What stands for a worker or a question is the pool's own and hashable."""

    def start(self) -> W:
        """A further worker; it need not be there yet."""

    def ask(self, worker: W, part: int | None) -> object:
        """Gives a worker a part, None: asks whether it is there. Returns the question, at once."""

    def first(self, questions: Sequence[object], *, working: bool) -> object:
        """Waits for any of these questions to be answered and returns it. UserError where there is no worker any more.

        working: whether any of them is a part, which may take as long as it likes.
        """

    def answer(self, question: object) -> Ended:
        """What was answered: an error is what kept a worker from its part. Raises WorkerDied."""


def share_out(
    parts: Sequence[int],
    workers: Sequence[W],
    pool: Pool[W],
    *,
    done: Callable[[int, Ended], None],
    died: Callable[[int, WorkerDied], None],
) -> dict[int, Ended]:
    """The answer to each part. A worker has one part at a time, so as many are under way as there are workers.

    A part whose worker died is given to another one, and after MOST_DEATHS answered by an error; in the place of the
    dead worker one is started, which gets parts once it is there. done(part, answer) and died(part, error) are told so.
    """
    waiting, idle, deaths = deque(parts), deque(workers), Counter[int]()
    questions: dict[object, tuple[W, int | None]] = {}
    answers: dict[int, Ended] = {}
    while len(answers) < len(parts):
        while waiting and idle:
            worker, part = idle.popleft(), waiting.popleft()
            questions[pool.ask(worker, part)] = worker, part
        working = any(part is not None for _, part in questions.values())
        question = pool.first(list(questions), working=working)
        worker, at = questions.pop(question)
        try:
            answer = pool.answer(question)
        except WorkerDied as error:
            if at is None:  # it was to take the place of another, and would be started for ever
                continue
            anew = pool.start()
            questions[pool.ask(anew, None)] = anew, None
            deaths[at] += 1
            died(at, error)
            if deaths[at] < MOST_DEATHS:
                waiting.append(at)
                continue
            answer = Ended(error=f"{MOST_DEATHS} workers died at it, the last one so: {error}")
        else:
            if at is not None or not answer.error:
                idle.append(worker)
        if at is not None:
            answers[at] = answer
            done(at, answer)
    return answers
