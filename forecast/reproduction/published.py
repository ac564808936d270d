"""Published figures, results/published.csv: facts with their sources, none of them ours."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
PUBLISHED = RESULTS / "published.csv"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A printed error, scaled units. seq_len: None where the source names no look-back. note: see results/README.md."""

    source: str
    data: str
    features: str
    model: str
    seq_len: int | None
    pred_len: int
    mse: float
    mae: float
    note: str


def read_published(path: Path = PUBLISHED) -> list[Published]:
    """All printed errors."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            Published(
                source=line["source"],
                data=line["dataset"],
                features=line["features"],
                model=line["model"],
                seq_len=int(line["seq_len"]) if line["seq_len"] else None,
                pred_len=int(line["pred_len"]),
                mse=float(line["mse"]),
                mae=float(line["mae"]),
                note=line["note"],
            )
            for line in csv.DictReader(lines)
        ]


def find(
    printed: Sequence[Published],
    *,
    source: str,
    model: str,
    data: str,
    features: str,
    seq_len: int,
    pred_len: int,
    offset: int = 0,
) -> Published | None:
    """The printed error of a row, None when there is none. offset: as in the paper's table of decoders.

    Where a source prints one look-back for all rows of a model, that one counts whatever `seq_len` is.
    """
    wanted = (data, features, pred_len, offset)
    column = [p for p in printed if (p.source, p.model) == (source, model)]
    found = [p for p in column if (p.data, p.features, p.pred_len, offset_of(p)) == wanted]
    if len({p.seq_len for p in column}) > 1:
        found = [p for p in found if p.seq_len == seq_len]
    assert len(found) <= 1, f"{wanted} at {seq_len} is printed {len(found)} times"
    return found[0] if found else None


def offset_of(printed: Published) -> int:
    """How many steps after its window the forecast began."""
    words, _, number = printed.note.rpartition(" ")
    return int(number) if words == "prediction offset" else 0
