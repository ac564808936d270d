"""What --peer takes and refuses."""

import pytest

from benchmarks import peers
from benchmarks.setting import Setting
from forecast.errors import UserError


def test_the_authors_code_is_had_without_another_peer(tmp_path):
    with pytest.raises(UserError, match=r"models\.attn does not load"):
        peers.authors(Setting(peers=["nothing", f"informer2020={tmp_path}"]))
    assert peers.authors(Setting(peers=["nothing"])) is None


REFUSED = {
    "informer2021=x": r"the peers are informer2020=FOLDER, neuralforecast\. Did you mean 'informer2020'",
    "informer2020": "say where its checkout is: --peer informer2020=FOLDER",
    "informer2020=no/where": "models.attn does not load: .* or name another checkout",
    "neuralforecast=x": "takes no folder: --peer neuralforecast",
    "neuralforecast": r"it is not installed here\. Run: pip install neuralforecast",
}


@pytest.mark.parametrize("option", REFUSED)
def test_a_wrong_peer_is_refused_with_the_fix(monkeypatch, option):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=REFUSED[option]):
        peers.load_peer(option)
