"""What --peer takes and refuses."""

import sys

import pytest

from benchmarks import peers
from benchmarks.setting import Setting
from forecast.errors import UserError


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"informer2020=.*nowhere: there is no such folder\. Name the checkout"):
        peers.load_peer(f"informer2020={tmp_path}/nowhere")


@pytest.mark.parametrize("missing", ["models/attn.py", "models/model.py", "data/data_loader.py"])
def test_a_folder_that_is_no_checkout_is_refused_before_anything_is_imported_from_it(tmp_path, missing):
    for name in ("models/attn.py", "models/model.py", "data/data_loader.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name != missing:
            (tmp_path / name).write_text("raise AssertionError")
    with pytest.raises(UserError, match=f"the folder has no {missing}. Name the checkout of the authors' code"):
        peers.load_peer(f"informer2020={tmp_path}")
    assert str(tmp_path) not in sys.path


def test_a_process_of_its_own_is_told_of_its_own_peer_alone():
    given = ("informer2020=a/b", "neuralforecast")
    setting = Setting(device="cpu", threads=1, peers=given, rounds=1, budget=1.0, memory=1.0)
    assert setting.with_peer("informer2020").peers == ("informer2020=a/b",)
    assert setting.with_peer("neuralforecast").peers == ("neuralforecast",)
    assert setting.with_peer("ours prob").peers == ()


REFUSED = {
    "an unknown peer": (
        "informer2021=x",
        "the peers are informer2020=FOLDER, neuralforecast. Did you mean 'informer2020'",
    ),
    "no folder": ("informer2020", "say where its checkout is: --peer informer2020=FOLDER"),
    "a folder for a package": ("neuralforecast=x", "takes no folder: --peer neuralforecast"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_peer_is_refused_with_the_fix(case):
    given, says = REFUSED[case]
    with pytest.raises(UserError, match=says):
        peers.load_peer(given)


def test_a_package_that_is_not_installed_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"it is not installed here\. Run: pip install neuralforecast"):
        peers.load_peer("neuralforecast")
