"""The parts of a forecast made by the workers of a Ray cluster.

Ray starts the workers and says when one has died; which part is next, and that each is answered once, is `share_out`.
"""

import logging
import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecast.commands.engines.parts_bar import PartsBar
from forecast.commands.engines.ray_worker import REACHED, Order, Worker, check_seen, name_of
from forecast.commands.engines.share_out import Failed, WorkerDied, share_out
from forecast.commands.predict_panel import PIECE, Scoring, pieces_of
from forecast.config.code_hash import code_hash
from forecast.config.settings import PredictSettings
from forecast.config.trust import trusted
from forecast.data.panel.parts import Part, read_part
from forecast.errors import UserError
from forecast.evaluation.predict_panel import BATCH
from forecast.text.terminal import label

log = logging.getLogger(__name__)

LEAST = 32  # parts, where there are so many batches: what a death costs, and what the last worker may be late by
LOOK = 5.0  # seconds between looks at the head, while no part is answered
BEGIN = 120.0  # seconds for the workers to begin: each imports torch and reads the ids of all series


def number_of_parts(asked: int | None, series: int) -> int:
    """How many parts a forecast has, however many make them: a command that goes on looks for the same."""
    batches = -(-series // BATCH)
    return max(1, min(asked or max(LEAST, -(-series // PIECE)), batches))


def made(ray: Any, settings: PredictSettings, scoring: Scoring, output: Path) -> list[tuple[Path, Part]]:
    """All parts of a forecast, in their order. UserError where any has failed; the others stay for another time."""
    folder, series = pieces_of(output.absolute()), len(scoring.ends.series)
    of = number_of_parts(settings.ray.shards, series)
    paths = [folder / name_of((number, of), scoring) for number in range(1, of + 1)]
    if there := sum(read_part(path) is not None for path in paths):
        log.info("%d of %d parts are there from a former command.", there, of)
    order = Order(
        settings=replace(settings, device=scoring.ends.device.type),
        folder=str(Path.cwd()),
        pieces=folder,
        token=secrets.token_hex(8),
        trust=trusted(),
        run=dict(scoring.run),
        code=code_hash(),
    )
    (folder / f".seen-{order.token}").write_text(order.token)
    pool = RayPool(ray, order, of)

    def died(number: int, error: WorkerDied) -> None:
        log.warning("The worker of part %d of %d died, and another one makes it: %s", number, of, error)

    with PartsBar(series) as bar:
        workers = pool.begin(settings.ray.workers)
        answers = share_out(range(1, of + 1), workers, pool, done=lambda _, answer: bar.add(answer), died=died)
    failed = {number: answer for number, answer in answers.items() if isinstance(answer, Failed)}
    if failed:
        which = "; ".join(f"part {number}: {failed[number].text.rstrip('.')}" for number in sorted(failed)[:5])
        raise UserError(
            f"{len(failed)} of {of} parts failed, the others are in {folder}: {which}. Mend it and say the same "
            "command again, which goes on with the parts that are of the same data"
        )
    return [(path, answers[number]) for number, path in enumerate(paths, 1)]


class RayPool:
    """Workers of a cluster, as `share_out` has them."""

    def __init__(self, ray: Any, order: Order, parts: int) -> None:
        self.ray, self.order, self.parts, self.warned = ray, order, parts, False
        gpus = 1 if order.settings.device == "cuda" else 0
        self.threads = order.settings.ray.threads
        self.kind = ray.remote(num_cpus=self.threads, num_gpus=gpus)(Worker)

    def begin(self, asked: int | None) -> list[Any]:
        """As many workers as there is room for, at most `asked`, all of which have read their model.

        UserError where there is no room, and for what keeps one of them from its work.
        """
        cpus = [int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]]
        room = sum(count // self.threads for count in cpus)
        if not room:
            raise UserError(
                f"ray.threads={self.threads}: no machine of the cluster has so many CPUs, the largest has {max(cpus)}. "
                f"Set ray.threads={max(1, *cpus)}"
            )
        if asked is not None and asked > room:
            log.warning("ray.workers=%d: the cluster has CPUs for %d, which begin.", asked, room)
        started = [self.start() for _ in range(min(asked or room, room, self.parts))]
        workers = {self.ask(worker, None): worker for worker in started}
        ready, late = self.ray.wait(list(workers), num_returns=len(workers), timeout=BEGIN)
        for question in late:
            self.ray.kill(workers.pop(question))
        if not ready:
            raise UserError(
                f"ray.address={self.order.settings.ray.address}: no worker began within {BEGIN:.0f} s, as others have "
                "the CPUs. Wait for them, and see ray status"
            )
        if late:
            log.warning(
                "%d of %d workers did not begin within %.0f s and are left out.",
                *(len(late), len(late) + len(ready), BEGIN),
            )
        for question in ready:
            self._check_begun(question)
        return list(workers.values())

    def _check_begun(self, question: Any) -> None:
        try:
            answer = self.answer(question)
        except WorkerDied as error:
            raise UserError(
                f"a worker died as it began: {error}. See that all machines have this program: pip install "
                "'forecast[ray]'"
            ) from error
        if isinstance(answer, Failed):
            raise UserError(answer.text)
        check_seen(self.order.pieces / answer, self.order.settings.output)

    def start(self) -> Any:
        """See `Pool`."""
        return self.kind.remote(self.order)

    def ask(self, worker: Any, part: int | None) -> Any:
        """See `Pool`."""
        return worker.ready.remote() if part is None else worker.score.remote(part, self.parts)

    def first(self, questions: Sequence[Any], *, working: bool) -> Any:
        """See `Pool`."""
        done: list[Any] = []
        while questions and not done:
            done, _ = self.ray.wait(list(questions), num_returns=1, timeout=LOOK if working else BEGIN)
            if not working:
                break
            if not done:
                self._look_at_head()
        if not done:
            raise UserError(
                "the cluster has lost all workers, and no other one began. Say the same command again, which goes on "
                "with the parts that are there"
            )
        return done[0]

    def _look_at_head(self) -> None:
        """Says once that the head is gone: Ray ends this process for it, without a word of ours."""
        host, _, port = str(self.ray.get_runtime_context().gcs_address).rpartition(":")
        if self.warned or answers(host, int(port)):
            return
        self.warned = True
        log.warning(
            "The head of the cluster, %s:%s, does not answer. Unless it comes back, Ray ends this command; then start "
            "a cluster and say the same command again, which goes on with the parts in %s",
            *(host, port, self.order.pieces),
        )

    def answer(self, question: Any) -> Any:
        """See `Pool`."""
        exceptions = self.ray.exceptions
        try:
            return self.ray.get(question)
        except exceptions.RayTaskError:  # a bug of ours, with its traceback
            raise
        except exceptions.RayError as error:
            raise WorkerDied(reason(str(error))) from error


def answers(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=REACHED).close()
    except OSError:
        return False
    return True


def reason(text: str) -> str:
    """Ray's words for a death, on one line."""
    cause = re.search(r"(?:Worker exit detail|The actor died because of[^:]*): *(.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return label(cause[1] if cause else (lines[0] if lines else "no reason is given")).rstrip(".")
