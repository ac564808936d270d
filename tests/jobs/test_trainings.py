"""A training as a process of its own: what it is given."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from forecast.config.trust import trusting
from forecast.jobs import trainings
from forecast.run_folder import checkpoint_path, write_run_info


class Ended:
    """A process that has ended at once."""

    returncode = 1

    def poll(self):
        """As Popen's."""
        return self.returncode

    def terminate(self):
        """Nothing, of one that has ended."""

    wait = terminate


def started(monkeypatch, folder, named=lambda command, **_: command):
    """What is started to train in a folder."""
    seen = []
    begin = lambda *given, **keys: seen.append(named(*given, **keys)) or Ended()  # noqa: E731
    monkeypatch.setattr(trainings.subprocess, "Popen", begin)
    trainings.train(("seed=1",), folder, lambda: False, threads=1)
    return seen


@pytest.mark.parametrize("name", ["my runs", "lr=1,2", "it's", 'a "b"', "${x}", "a[1]{2}", "1e3", "ä:b"])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_folder_of_any_name_reaches_the_training(tmp_path, monkeypatch, name, resumed):
    folder = tmp_path / name
    if resumed:
        checkpoint_path(folder, "last").parent.mkdir(parents=True)
        checkpoint_path(folder, "last").touch()
        (folder / "run.json").write_text('{"status": "interrupted", "overrides": ["seed=1"]}')
    commands = started(monkeypatch, folder)
    overrides = OverridesParser.create().parse_overrides(commands[0][4:])
    values = {override.key_or_group: override.value() for override in overrides}
    key, path = ("ckpt_path", checkpoint_path(folder, "last")) if resumed else ("hydra.run.dir", folder)
    # "${x}" stands there escaped, as OmegaConf reads it back
    assert str(values[key]).replace("\\${", "${") == str(path)


def test_a_training_goes_on_with_the_threads_that_it_was_begun_with_and_trusts_what_its_command_does(
    tmp_path, monkeypatch
):
    """A launcher may have given it others than this process has."""
    checkpoint_path(tmp_path, "last").parent.mkdir()
    checkpoint_path(tmp_path, "last").touch()
    write_run_info(tmp_path, {"status": "interrupted", "versions": {"threads": "3"}, "overrides": [], "job": 0})
    with trusting("program"):
        (seen,) = started(monkeypatch, tmp_path, lambda command, *, env, **_: (command, env["OMP_NUM_THREADS"]))
    assert "--trust=program" in seen[0] and seen[1] == "3"
