"""Lines above the header of a text file: titles, what a program says of itself, empty ones."""

import numpy as np
import pandas as pd
import pytest
from data.csv_files import read_frame, refusal

from forecast.data.describe.check import check_file

STAMPS = pd.date_range("2022-05-01", periods=300, freq="h")


def table(separator=",", decimal="."):
    values = np.random.default_rng(5).normal(size=(len(STAMPS), 2)).round(3)
    table = pd.DataFrame({"date": STAMPS.strftime("%Y-%m-%d %H:%M"), "flow": values[:, 0], "level": values[:, 1]})
    return table.to_csv(index=False, sep=separator, decimal=decimal)


TITLES = {
    "a line": ("Station 12\n", ",", "."),
    "comments": ("# made by logger 4\n# of the river, at the bridge\n", ",", "."),
    "an empty line": ("Report\n\n", ",", "."),
    "separators alone behind": ("Report;;\nof May;;\n;;\n", ";", ","),
    "keys and values": ("Station;12\nUnit;mm\nFrom;2022-05-01\n\n", ";", "."),
    "a tab": ("Exported 2022-06-01, by hand\n", "\t", "."),
    "a table": ("latitude,longitude,elevation,zone\n52.52,13.4,38,GMT\n\n", ",", "."),
    "what a logger is": ("TOA5,CR1,CR1,12,Std,a.CR1,34\n", ",", "."),
    "many": ("".join(f"parameter {n}: mean of {n} minutes\n" for n in range(30)), ",", "."),
}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("kind", TITLES)
def test_lines_above_the_header_are_skipped_and_one_line_says_so(tmp_path, caplog, kind, ending):
    caplog.set_level("INFO")
    above, separator, decimal = TITLES[kind]
    path = tmp_path / "series.csv"
    path.write_bytes((above + table(separator, decimal)).replace("\n", ending).encode())
    check = check_file(str(path))
    assert check.command, check.findings
    assert check.table.columns == ("flow", "level") and len(check.table.values) == len(STAMPS)
    said = f"The names of the columns stand in line {above.count(chr(10)) + 1}; what stands above them is left out."
    assert check.findings.texts("note").count(said) == 1
    frame = read_frame(path, separator=separator, decimal=decimal)
    assert (frame.timestamps == STAMPS).all() and frame.columns == ("flow", "level")
    assert sum(said in record.getMessage() for record in caplog.records) == 1


def test_a_fault_is_named_by_its_line_in_the_file(tmp_path):
    path = tmp_path / "series.csv"
    path.write_text("Report of May\n\n" + table().replace("2022-05-01 07:00", "noon"))
    assert "line 11" in refusal(path)


@pytest.mark.parametrize(
    "text",
    [
        # a header that lacks a name, or has its comment in front; a first row that is short
        "date,a\n2020-01-01,1,2\n2020-01-02,1,2\n2020-01-03,1,2\n",
        "date,a,\n2020-01-01,1,2\n2020-01-02,1,2\n2020-01-03,1,2\n",
        "date,a,b\n2020-01-01\n2020-01-02,1,2\n2020-01-03,1,2\n",
        "#date,a,b\n2020-01-01,1,2\n2020-01-02,1,2\n2020-01-03,1,2\n",
        "date,a,b,c\n2020-01-01,1,2,\n2020-01-02,1,2,\n2020-01-03,1,2,\n",
    ],
)
def test_a_header_is_no_title(tmp_path, text):
    path = tmp_path / "series.csv"
    path.write_text(text)
    check = check_file(str(path))
    assert check.header[0].lstrip("#") == "date"
    assert not any("what stands above" in text for text in check.findings.texts("note"))
