"""Sources: the columns a task needs, their checksum, and the same use of another file."""

from dataclasses import replace

import pandas as pd
import pytest

from forecast.data.read import source_rows
from forecast.data.sources import CATALOG, CatalogSource, CsvSource, DemoSource, file_md5
from forecast.data.split import ShareSplit
from forecast.errors import UserError

SPLIT = ShareSplit(train=0.7, val=0.1, test=0.2)


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "my.csv"
    stamps = pd.date_range("2016-07-01", periods=11, freq="h")
    rows = [f"{t};{i},5;{i * i};-{i}" for i, t in enumerate(stamps)]
    path.write_text("\n".join(["when;load;OT;temp", *rows]))
    return path


LAYOUT = {"split": SPLIT, "time_column": "when", "separator": ";", "decimal": ","}


def csv_source(path, **options):
    return CsvSource(path=str(path), **LAYOUT, **options)


@pytest.mark.parametrize(
    ("features", "target", "columns", "targets"),
    [
        ("M", "OT", ("load", "OT", "temp"), (0, 1, 2)),
        ("M", None, ("load", "OT", "temp"), (0, 1, 2)),
        ("MS", "OT", ("load", "OT", "temp"), (1,)),
        ("MS", None, ("load", "OT", "temp"), (2,)),
        ("S", "OT", ("OT",), (0,)),
        ("S", None, ("temp",), (0,)),
    ],
)
def test_features_choose_the_columns(csv, features, target, columns, targets):
    source = csv_source(csv, features=features, target=target)
    frame = source_rows(source)
    assert frame.columns == columns
    numbers = {"load": 3.5, "OT": 9, "temp": -3}  # so the separator and the decimal reach the reader
    assert frame.values[3].tolist() == [numbers[name] for name in columns]
    assert source.target_columns(frame) == targets


@pytest.mark.parametrize(("features", "columns", "targets"), [("M", 7, 7), ("MS", 7, 1), ("S", 1, 1)])
def test_the_demo_follows_the_same_rules(features, columns, targets):
    source = DemoSource(split=SPLIT, features=features, target="MULL", rows=101)
    frame = source_rows(source)
    assert (frame.values.shape, len(source.target_columns(frame))) == ((101, columns), targets)
    target = 3 if features == "M" else source.target_columns(frame)[0]
    assert (frame.values[:, target] == DemoSource(split=SPLIT, rows=101).frame().values[:, 3]).all()


@pytest.mark.parametrize("features", ["M", "S", "MS"])
def test_a_target_that_is_not_there_is_refused_with_the_nearest(csv, features):
    mine = csv_source(csv, features=features, target="laod")
    demo_source = DemoSource(split=SPLIT, features=features, target="HUF")
    for source, where, near in ((mine, str(csv), "load"), (demo_source, "demo", "HUFL")):
        says = rf"{where}.*'{source.target}'.*mean '{near}'"
        with pytest.raises(UserError, match=says):
            source_rows(source)


def test_the_checksum_of_a_csv_is_that_of_its_bytes_and_the_demos_is_its_seed_and_rows(csv):
    source = csv_source(csv)
    assert source_rows(source).checksum == file_md5(csv)
    made_up = DemoSource(split=SPLIT, demo_seed=3, rows=1009)
    assert source_rows(made_up).checksum == "demo-seed3-rows1009"


def test_a_catalog_source_reads_root_and_verifies(tmp_path):
    (tmp_path / "ETTh1.csv").write_text("date,OT\n")
    with pytest.raises(UserError, match=r"ETTh1.csv is not the published file"):
        source_rows(CatalogSource(name="ETTh1", root=str(tmp_path), split=SPLIT))


def test_a_catalog_source_with_a_path_reads_that_file_unverified(csv):
    source = CatalogSource(name="ETTh1", root="nowhere", path=str(csv), **LAYOUT)
    frame = source_rows(source)
    assert frame.columns == ("load", "OT", "temp") and frame.name == str(csv)


def test_another_file_is_used_as_the_first_and_written_as_it_is(csv):
    use = {"split": SPLIT, "features": "MS", "target": None, "batch_size": 13}
    assert DemoSource(**use).with_file(csv) == CsvSource(path=str(csv), **use)
    use |= {**LAYOUT, "gaps": "mask"}
    other = CatalogSource(name="ETTh1", root="nowhere", **use).with_file(csv)
    assert other == CsvSource(path=str(csv), **use) == other.with_file(csv)


def test_ETTh1_is_found_in_forecast_data(ett_root):
    source = CatalogSource(name="ETTh1", root=str(ett_root), split=SPLIT)
    assert source_rows(source).checksum == CATALOG["ETTh1"]
    assert source.located() == replace(source, path=f"{ett_root}/ETTh1.csv")
