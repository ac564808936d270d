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


def test_a_process_of_its_own_gets_its_own_peer_alone():
    setting = Setting(peers=["informer2020=a/b", "neuralforecast"])
    assert setting.with_peer("informer2020").peers == ["informer2020=a/b"]
    assert setting.with_peer("neuralforecast").peers == ["neuralforecast"]
    assert setting.with_peer("ours prob").peers == []


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
