"""Large files, each read in a process of its own: time and memory go with the numbers in them, not with the text."""

import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from program import TINY, call

from forecast.data.assembling.read import read_panel
from forecast.data.guessing.check import check_file
from forecast.data.reading.csv_text import CsvText
from forecast.data.sources import CsvSource
from forecast.data.split import ShareSplit
from forecast.data.values.findings import Findings
from forecast.errors import UserError

MEASURE = """
import json, resource, sys, time

def peak():  # bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

from forecast.data.frame import read_frame
from forecast.data.prepare import prepare
from forecast.data.split import ShareSplit, split_rows

before, started = peak(), time.process_time()
frame = read_frame(sys.argv[1])
read = {"seconds": time.process_time() - started, "bytes": peak() - before}
lengths = {"seq_len": 96, "pred_len": 24}
splits = split_rows(frame, ShareSplit(), **lengths)
data = prepare(frame, splits=splits, targets=tuple(range(len(frame.columns))), encoding="timeF", **lengths)
batch = data.windows("test").__getitems__(range(32))
print(json.dumps({
    "read": read,
    "seconds": time.process_time() - started,
    "numbers": frame.values.nbytes + frame.timestamps.nbytes,
    "shape": frame.values.shape,
    "freq": frame.freq,
    "last": frame.values[-1].tolist()[-1],
    "batch": batch.past.shape,
}))
"""


def write_large(path, rows, columns):
    """A minute a row; cell i of the file, counted row by row, is i / 8."""
    stamps = np.datetime_as_string(np.datetime64("2000-01-01T00:00") + np.arange(rows)).tolist()
    with path.open("w") as file:
        file.write(",".join(["date", *(f"c{i}" for i in range(columns))]) + "\n")
        for row, stamp in enumerate(stamps):
            cells = [repr(i / 8) for i in range(row * columns, (row + 1) * columns)]
            file.write(f"{stamp},{','.join(cells)}\n")


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(1_000_000, 2), (7_000, 1_000)])
def test_a_large_file_takes_seconds_and_a_few_times_the_memory_of_its_numbers(tmp_path, rows, columns):
    path = tmp_path / "large.csv"
    write_large(path, rows, columns)
    run = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert (result["shape"], result["freq"], result["batch"]) == ([rows, columns], "min", [32, 96, columns])
    assert result["last"] == (rows * columns - 1) / 8
    assert result["seconds"] < 60, result
    assert result["read"]["bytes"] < 4 * result["numbers"], result


@pytest.mark.slow
def test_an_error_in_the_last_of_a_million_rows_is_found_in_seconds(tmp_path):
    path = tmp_path / "large.csv"
    write_large(path, 1_000_000, 1)
    with path.open("a") as file:
        file.write("2030-01-01T00:00,1\n")
    code = f"from forecast.data.frame import read_frame; read_frame({str(path)!r})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert "line 1000002: the timestamps are not regular: 2030-01-01 00:00:00 follows" in run.stderr


@pytest.mark.slow
def test_a_thousand_columns_are_trained_and_forecast(tmp_path):
    path, run = tmp_path / "wide.csv", tmp_path / "run"
    write_large(path, 300, 1_000)
    own = [change for change in TINY if not change.startswith("data")]
    few = ["data.target=null", "trainer.limit_train_batches=2", f"hydra.run.dir={run}"]
    call("train", *own, "data=csv", f"data.path={path}", *few)
    output = tmp_path / "forecast.csv"
    call("predict", f"ckpt_path={run}/checkpoints/best.ckpt", f"output={output}", f"hydra.run.dir={tmp_path}/predicted")
    header, *rows = output.read_text().splitlines()
    assert header == ",".join(["date", *(f"c{i}" for i in range(1_000))])
    assert [row.split(",")[0] for row in rows] == [f"2000-01-01T05:0{minute}" for minute in range(5)]  # as in the file


def test_the_names_of_a_very_wide_header_are_looked_at_once_each(tmp_path):
    names = [f"c{i}" for i in range(99_000)]
    path = tmp_path / "wide.csv"
    path.write_text(f"date,{','.join(names)},c7\n2020-01-01\n")
    findings = Findings(str(path), strict=False)
    text = CsvText(path, ",").verified(findings)
    start = time.process_time()
    assert len(text.header(["date"], findings)) == 99_002
    assert time.process_time() - start < 10  # each compared with all before it: minutes
    [note] = findings.texts("note")
    assert "Column 'c7' stands twice; the one in place 99002 is called 'c7.1' here" in note


@pytest.mark.parametrize("keys", [{}, {"id_column": "c1"}, {"panel": "columns"}], ids=["series", "long", "columns"])
def test_a_header_of_a_million_names_is_refused_in_seconds(tmp_path, keys):
    names = [f"c{i}" for i in range(10**6)]
    rows = [",".join([f"2021-01-0{day}", *["1.5"] * 10**6]) for day in range(1, 5)]
    (tmp_path / "my.csv").write_text("\n".join([",".join(["date", *names]), *rows]))
    begun = time.perf_counter()
    source = CsvSource(path=str(tmp_path / "my.csv"), split=ShareSplit(), target=None, **keys)
    with pytest.raises(UserError, match=r"the first line has 1000001 cells, and at most 100000 columns are read"):
        source.frame() if source.panel_form is None else read_panel(source)
    assert "1000001 cells" in check_file(source.path).findings.texts("error")[0]
    assert time.perf_counter() - begun < 20


UNDER_A_LIMIT = """
import resource, sys

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
from forecast.data.frame import read_frame
from forecast.errors import UserError

try:
    print(read_frame(sys.argv[1]).values.shape)
except UserError as error:
    print(error)
"""
GROUP = 1_000_000


def run_length_file(path, groups, **constants):
    """A few kilobytes that say so many million rows: minutes, beside columns of one value each."""
    rows = pa.array(np.zeros(GROUP, dtype=np.int32))
    columns = [pa.DictionaryArray.from_arrays(rows, pa.array([value])) for value in constants.values()]
    columns = [one if pa.types.is_string(one.type.value_type) else one.dictionary_decode() for one in columns]
    schema = pa.schema([("date", pa.timestamp("ms")), *zip(constants, (one.type for one in columns), strict=True)])
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as file:
        for group in range(groups):
            times = pa.array(60_000 * np.arange(group * GROUP, (group + 1) * GROUP), pa.timestamp("ms"))
            file.write_table(pa.table([times, *columns], schema=schema))
    return path


def under(limit, path):
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(path), str(limit << 30)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_a_file_of_run_length_rows_is_refused_or_read_within_a_memory_that_is_bounded(tmp_path):
    wide = run_length_file(tmp_path / "wide.parquet", 60, **{f"x{i}": 0.5 for i in range(9)})
    assert "it claims 60000000 rows of 10 columns" in under(3, wide)
    text = run_length_file(tmp_path / "text.parquet", 5, x=0.5, note="long " * 2000)  # 50 GB of text
    assert under(3, text) == "(5000000, 1)\n"
