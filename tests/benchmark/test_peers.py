"""What --peer takes and refuses."""

import sys

import pytest

from benchmarks import peers
from benchmarks.setting import Setting
from forecast.errors import UserError


@pytest.mark.parametrize("missing", ["models/attn.py", "models/model.py", "data/data_loader.py"])
def test_a_folder_that_is_no_checkout_is_refused_before_anything_is_imported_from_it(tmp_path, missing):
    for name in ("models/attn.py", "models/model.py", "data/data_loader.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name != missing:
            (tmp_path / name).write_text("raise AssertionError")
    with pytest.raises(UserError, match=f"the folder has no {missing}. Name the checkout of the authors' code"):
        peers.load_peer(f"informer2020={tmp_path}")
    assert str(tmp_path) not in sys.path


def test_the_authors_code_is_had_without_another_peer(tmp_path):
    with pytest.raises(UserError, match=r"the folder has no models/attn\.py"):
        peers.authors(Setting(peers=["nothing", f"informer2020={tmp_path}"]))
    assert peers.authors(Setting(peers=["nothing"])) is None


REFUSED = {
    "informer2021=x": r"the peers are informer2020=FOLDER, neuralforecast\. Did you mean 'informer2020'",
    "informer2020": "say where its checkout is: --peer informer2020=FOLDER",
    "informer2020=no/where": r"informer2020=no/where: there is no such folder\. Name the checkout",
    "neuralforecast=x": "takes no folder: --peer neuralforecast",
    "neuralforecast": r"it is not installed here\. Run: pip install neuralforecast",
}


@pytest.mark.parametrize("option", REFUSED)
def test_a_wrong_peer_is_refused_with_the_fix(monkeypatch, option):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=REFUSED[option]):
        peers.load_peer(option)
