"""The rows of the parts of a series."""

from forecast.data.split import panel_cuts


def split_rows(frame, split, *, pred_len=1, **_):
    """The target rows of "train", "val", "test" and, where it can hold a window, "tail"."""
    parts = panel_cuts(split, frame, pred_len=pred_len)
    return {name: range(int(rows.first[0]), int(rows.stop[0])) for name, rows in parts.items()}
