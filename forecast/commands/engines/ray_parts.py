"""A work in parts made by the workers of a Ray cluster.

Ray starts the workers and says when one has died; which part is next, and that each is answered once, is `share_out`.
"""

import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from forecast.commands.engines.parts_bar import PartsBar
from forecast.commands.engines.ray_pool import RayPool
from forecast.commands.engines.ray_worker import Order, Worker
from forecast.commands.engines.share_out import Failed, WorkerDied, share_out
from forecast.commands.engines.work import Task, name_of
from forecast.config.commit import commit
from forecast.config.trust import trusted
from forecast.errors import UserError

log = logging.getLogger(__name__)


def made(ray: ModuleType, task: Task, run: Mapping[str, object], *, of: int, there: int) -> list[tuple[Path, Any]]:
    """All parts of a work, in their order, each with what is told of it.

    UserError where any has failed; the others stay for another time. run: of the
    work. of: how many parts; there: how many of them a former command has left.
    """
    if there:
        log.info("%d of %d parts are there from a former command.", there, of)
    order = Order(
        task=task,
        folder=str(Path.cwd()),
        token=secrets.token_hex(8),
        trust=trusted(),
        run=dict(run),
        commit=commit(),
    )
    shared, cluster = task.place.shared, task.cluster
    (shared.folder / f".seen-{order.token}").write_text(order.token)
    kind = ray.remote(num_cpus=cluster.threads, num_gpus=cluster.gpus)(Worker)
    pool = RayPool(
        *(ray, lambda: kind.remote(order)), cluster=cluster, shared=shared, given=lambda number: (number, of)
    )

    def died(number: int, error: WorkerDied) -> None:
        log.warning("The worker of part %d of %d died, and another one makes it: %s", number, of, error)

    with PartsBar(task.size, task.unit) as bar:
        workers = pool.begin(of)
        answers = share_out(range(1, of + 1), workers, pool, done=lambda _, answer: bar.add(answer), died=died)
    failed = {number: answer for number, answer in answers.items() if isinstance(answer, Failed)}
    if failed:
        which = "; ".join(f"part {number}: {failed[number].text.rstrip('.')}" for number in sorted(failed)[:5])
        raise UserError(
            f"{len(failed)} of {of} parts failed, the others are in {shared.folder}: {which}. Mend it and "
            f"{shared.again}, which goes on with the parts that are of the same data"
        )
    return [(shared.folder / name_of((number, of), run), answers[number]) for number in range(1, of + 1)]
