"""The parts of a forecast made by the workers of a Ray cluster.

Ray starts the workers and says when one has died; which part is next, and that each is answered once, is `share_out`.
"""

import logging
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecast.commands.engines.parts_bar import PartsBar
from forecast.commands.engines.ray_pool import Cluster, RayPool, Shared
from forecast.commands.engines.ray_worker import Order, Worker, name_of
from forecast.commands.engines.share_out import Failed, WorkerDied, share_out
from forecast.commands.predict_panel import PIECE, Scoring, pieces_of
from forecast.config.code_hash import code_hash
from forecast.config.settings import PredictSettings
from forecast.config.trust import trusted
from forecast.data.panel.parts import Part, read_part
from forecast.errors import UserError
from forecast.evaluation.predict_panel import BATCH

log = logging.getLogger(__name__)

LEAST = 32  # parts, where there are so many batches: what a death costs, and what the last worker may be late by


def number_of_parts(asked: int | None, series: int) -> int:
    """How many parts a forecast has, however many make them: a command that goes on looks for the same."""
    batches = -(-series // BATCH)
    return max(1, min(asked or max(LEAST, -(-series // PIECE)), batches))


def made(
    ray: Any, cluster: Cluster, settings: PredictSettings, scoring: Scoring, output: Path
) -> list[tuple[Path, Part]]:
    """All parts of a forecast, in their order. UserError where any has failed; the others stay for another time."""
    folder, series = pieces_of(output.absolute()), len(scoring.ends.series)
    of = number_of_parts(settings.ray.shards, series)
    paths = [folder / name_of((number, of), scoring) for number in range(1, of + 1)]
    if there := sum(read_part(path) is not None for path in paths):
        log.info("%d of %d parts are there from a former command.", there, of)
    device = scoring.ends.device.type
    shared = Shared(folder=folder, typed=f"output={settings.output}", like="output=/SHARED/forecast.parquet")
    order = Order(
        settings=replace(settings, device=device),
        folder=str(Path.cwd()),
        shared=shared,
        token=secrets.token_hex(8),
        trust=trusted(),
        run=dict(scoring.run),
        code=code_hash(),
    )
    (folder / f".seen-{order.token}").write_text(order.token)
    cluster = replace(cluster, gpus=1 if device == "cuda" else 0)
    kind = ray.remote(num_cpus=cluster.threads, num_gpus=cluster.gpus)(Worker)
    pool = RayPool(
        *(ray, lambda: kind.remote(order)), cluster=cluster, shared=shared, given=lambda number: (number, of)
    )

    def died(number: int, error: WorkerDied) -> None:
        log.warning("The worker of part %d of %d died, and another one makes it: %s", number, of, error)

    with PartsBar(series) as bar:
        workers = pool.begin(of)
        answers = share_out(range(1, of + 1), workers, pool, done=lambda _, answer: bar.add(answer), died=died)
    failed = {number: answer for number, answer in answers.items() if isinstance(answer, Failed)}
    if failed:
        which = "; ".join(f"part {number}: {failed[number].text.rstrip('.')}" for number in sorted(failed)[:5])
        raise UserError(
            f"{len(failed)} of {of} parts failed, the others are in {folder}: {which}. Mend it and say the same "
            "command again, which goes on with the parts that are of the same data"
        )
    return [(path, answers[number]) for number, path in enumerate(paths, 1)]
