"""Published figures, results/published.csv: facts with their sources, none of them ours."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

    @property
    def offset(self) -> int:
        """How many steps after its window the forecast began."""
        name, _, number = self.note.rpartition(" ")
        return int(number) if name == "prediction offset" else 0


def read_published(path: Path = PUBLISHED) -> list[Published]:
    """All printed errors."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            Published(
                data=line.pop("dataset"),
                seq_len=int(seq_len) if (seq_len := line.pop("seq_len")) else None,
                pred_len=int(line.pop("pred_len")),
                mse=float(line.pop("mse")),
                mae=float(line.pop("mae")),
                **line,
            )
            for line in csv.DictReader(lines)
        ]


def find(
    printed: Sequence[Published], *, source: str, model: str, values: Mapping[str, Any], offset: int = 0
) -> Published | None:
    """The printed error of a training, None when there is none. values: its recipe or metrics.json, with `features`.

    offset: as in the paper's table of decoders. Where a source prints one look-back for all rows of a model, that one
    counts whatever `seq_len` is.
    """
    column = [p for p in printed if (p.source, p.model) == (source, model)]
    keys = ["data", "features", "pred_len"] + ["seq_len"] * (len({p.seq_len for p in column}) > 1)
    matches = [p for p in column if p.offset == offset and all(getattr(p, key) == values[key] for key in keys)]
    assert len(matches) <= 1, f"{source}, {model}: {[values[key] for key in keys]} is printed {len(matches)} times"
    return matches[0] if matches else None
