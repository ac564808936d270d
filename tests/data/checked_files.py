"""Made-up files for check-data, and what it says of them."""

import numpy as np
import pandas as pd

from forecast.config.run_config import composed
from forecast.data.describe.check import check_file
from forecast.data.read import source_rows
from forecast.data.sources import Source

ROWS = 613


def table(rows=ROWS, freq="h", start="2021-01-05", seed=0):
    """A daily season of 24 rows, and noise."""
    noise = np.random.default_rng(seed).normal(size=(rows, 2)) / 10
    values = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None] * [1, 3] + noise + [0, 50]
    data = pd.DataFrame(values.round(4), columns=["load", "temp"])
    data.insert(0, "date", pd.date_range(start, periods=rows, freq=freq))
    return data


def lines_of(data):
    return data.to_csv(index=False).splitlines()


def checked(path, lines, **given):
    path.write_text("\n".join(lines) + "\n")
    return check_file(str(path), given)


def of_table(path, data, **given):
    return checked(path, lines_of(data), **given)


def texts(check, severity):
    return check.findings.texts(severity)


def only(check, severity):
    (text,) = texts(check, severity)
    return text


def with_cells(line, cells):
    """A line with other cells after its timestamp."""
    return f"{line.split(',')[0]},{cells}"


def rows_by(check):
    """What the printed command reads."""
    return source_rows(composed(check.command[2:]).config.data.build(Source))


def layout_in(check):
    """The words of the command that say how the file is read."""
    words = dict(word.split("=", 1) for word in check.command if word.startswith("data."))
    return {key: value for key, value in words.items() if key != "data.path" and not key.startswith("data.split")}
