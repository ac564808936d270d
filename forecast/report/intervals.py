"""What a finished run says of its intervals: a table, and sentences of the verdict.

The input is the plain dict that becomes metrics.json.
"""

from rich.table import Table

from forecast.report.tables import short_number, titled_table
from forecast.run_folder.shapes import Metrics, block_of

NARROW, WIDE = 2.0, 5.0  # points of coverage below and above a level from which on that is said


def intervals_table(metrics: Metrics, split: str) -> Table | None:
    """Coverage, width and score at each level; None where there are no intervals."""
    intervals = block_of(metrics, split).get("intervals")
    if not intervals or not intervals["levels"]:
        return None
    crossed = "; each half by the epoch that the other half chose" if intervals["crossed"] else ""
    apart = f"{intervals['blocks']} of which do not overlap{crossed}"
    result = titled_table(
        f"Intervals on {split}, {intervals['calibration']}",
        f"calibrated on {intervals['windows']} validation windows, {apart}",
    )
    for heading in ("level\n%", "coverage\n%", "width\nscaled", "pinball\nscaled", "MSIS\n"):
        result.add_column(heading, justify="right", no_wrap=True)
    for level, row in intervals["levels"].items():
        held = "-" if row["coverage"] is None else f"{100.0 * row['coverage']:.1f}"
        result.add_row(level, held, *(short_number(row[key]) for key in ("width", "pinball", "msis")))
    return result


def coverage_sentences(metrics: Metrics, split: str) -> list[str]:
    """Which intervals hold clearly less, or far more, than they say; nothing where all hold what they should."""
    sentences = []
    if not (intervals := block_of(metrics, split).get("intervals")):
        return []
    for level, row in intervals["levels"].items():
        if row["coverage"] is None:
            continue
        beyond = 100.0 * row["coverage"] - float(level)
        first, finding = row["narrow_from"], f"{level} % intervals held {100.0 * row['coverage']:.0f} % of the truths"
        if beyond < -NARROW:
            steps = "" if first is None else " at every step" if first == 1 else f" from step {first} on"
            sentences.append(f"{finding} on {split}: too narrow{steps}.")
        elif beyond > WIDE:
            sentences.append(f"{finding} on {split}: wider than they need be.")
    if any("too narrow" in sentence for sentence in sentences) and intervals["calibration"] == "static":
        sentences.append("Where the data drift, calibration=adaptive follows them, window after window.")
    return sentences
