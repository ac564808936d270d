"""The rows of the parts of a series."""


def split_rows(frame, split, *, pred_len, **_):
    """The target rows of "train", "val", "test" and, where it can hold a window, "tail"."""
    return {name: rows for name, rows in split.rows(frame).items() if name != "tail" or len(rows) >= pred_len}
