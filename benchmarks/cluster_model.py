"""What a forecast on a cluster takes, from what two workers on one machine took: no figure of it is typed by hand."""

from typing import Any

SERIES, ROWS, WORKERS = 10_000_000, 1_000, (10, 100, 1_000)
PAGE = 4096  # bytes, which is read of a series at least


def seconds(figures: dict[str, Any], *, series: int, workers: int) -> float:
    """What start + each * series + scored * series / workers is.

    start: of an empty forecast. each: of a series, in every process and the join. scored: of one in its worker.
    """
    return float(figures["start"] + series * (figures["each"] + figures["scored"] / workers))


def measured(*, series: int, whole: float, parts: float, few: float, workers: int, ids: int) -> dict[str, float]:
    """The figures of `seconds`, of a forecast of so many series that took `whole` seconds, `parts` of them for its
    parts, where one of a few series takes `few`. ids: bytes of the ids and lengths of all series.
    """
    each = max(0.0, whole - parts - few) / series
    return {"start": few, "each": each, "scored": parts * workers / series, "id_bytes": ids / series}


def gigabytes(figures: dict[str, Any], *, series: int, workers: int) -> float:
    """10^9 bytes that all workers read together: the ids of all series each, and once the end of each series."""
    look_back = max(PAGE, 4 * figures["seq_len"])
    return float(series * (workers * figures["id_bytes"] + look_back)) / 1e9


def text(figures: dict[str, Any]) -> str:
    """The model in words, for SERIES of ROWS that the training has seen."""
    cost = {**figures["cost"], "seq_len": figures["seq_len"]}
    half = SERIES * cost["scored"] / (cost["start"] + SERIES * cost["each"])
    least = figures["started"] / 0.1
    sizes = "; ".join(
        f"{workers:,} workers {seconds(cost, series=SERIES, workers=workers):,.0f} s and "
        f"{gigabytes(cost, series=SERIES, workers=workers):,.0f} GB read"
        for workers in WORKERS
    )
    return (
        f"Seconds for S series and W workers by these figures: {cost['start']:.1f} + {cost['each'] * 1e6:.1f} S / 10^6 "
        f"+ {cost['scored'] * 1e6:,.0f} S / (10^6 W): the start of a few series; the ids, which each process reads, "
        f"and the join; the scoring. That is not measured for {SERIES:,} series of {ROWS:,} rows that the training has "
        f"seen, but would be: {sizes} ({cost['id_bytes']:.0f} bytes a series in each worker, and {PAGE:,} once). From "
        f"{half:,.0f} workers on what does not shrink is more than half. Ray begins {figures['started']:.1f} s later "
        f"than shards do, which is less than a tenth of parts that take {least:,.0f} s a worker"
    )
