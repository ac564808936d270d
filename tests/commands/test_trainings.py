"""A training as a process of its own: what it is given."""

import subprocess

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from forecast.commands import trainings
from forecast.run_folder import checkpoint_path


class Ended:
    """A process that has ended at once."""

    returncode = 1

    def poll(self):
        """As Popen's."""
        return self.returncode


@pytest.mark.parametrize("name", ["my runs", "lr=1,2", "it's", 'a "b"', "${x}", "a[1]{2}", "1e3", "ä:b"])
@pytest.mark.parametrize("resumed", [False, True])
def test_a_folder_of_any_name_reaches_the_training(tmp_path, monkeypatch, name, resumed):
    folder = tmp_path / name
    if resumed:
        checkpoint_path(folder, "last").parent.mkdir(parents=True)
        checkpoint_path(folder, "last").touch()
        (folder / "run.json").write_text('{"status": "interrupted", "overrides": ["seed=1"]}')
    commands = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command) or Ended())
    trainings.train(("seed=1",), folder, lambda: False, threads=1)
    overrides = OverridesParser.create().parse_overrides(commands[0][4:])
    values = {override.key_or_group: override.value() for override in overrides}
    key, path = ("ckpt_path", checkpoint_path(folder, "last")) if resumed else ("hydra.run.dir", folder)
    # "${x}" stands there escaped, as OmegaConf reads it back
    assert str(values[key]).replace("\\${", "${") == str(path)
