"""One tiny training on a CSV file of the user's own."""

import json

import pytest
from apps import updates
from apps.files import LAYOUT, OWN, write_csv
from program import call, shapes_unchecked


@pytest.fixture(autouse=True, scope="module")
def as_for_users():
    """The Python class is run like the commands, see `program.call`."""
    with shapes_unchecked():
        yield


@pytest.fixture(scope="session")
def csv_run(tmp_path_factory):
    """The run folder; the file lies beside it as own.csv."""
    folder = tmp_path_factory.mktemp("csv")
    write_csv(folder / "own.csv")
    call("train", *OWN, *LAYOUT, f"data.path={folder}/own.csv", f"hydra.run.dir={folder}/run")
    return folder / "run"


@pytest.fixture(scope="session")
def best(csv_run):
    """Its best.ckpt."""
    return csv_run / "checkpoints" / "best.ckpt"


@pytest.fixture(scope="session")
def trained(csv_run):
    """Its metrics.json."""
    return json.loads((csv_run / "metrics.json").read_text())


@pytest.fixture(scope="session")
def daily_run(tmp_path_factory):
    """A ridge trained on the first days of updates.series()."""
    return updates.trained(tmp_path_factory.mktemp("daily"), updates.series())
