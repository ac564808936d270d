"""No pickle: nothing of ours loads or writes an artefact in a way that could execute code, and no artefact needs it."""

import ast
import builtins
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from program import TINY, call

ROOT = Path(__file__).parents[2]
FOLDERS = ("forecast", "benchmarks", "scripts")
PYTHON = sorted([*ROOT.glob("*.py"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))])
CONFIGS = sorted((ROOT / "conf").rglob("*.yaml"))

PICKLING = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "pickletools"}
# Calls by the last parts of their names: those that need weights_only=True, and those that nothing makes safe.
NEED_WEIGHTS_ONLY = {"torch.load", "trainer.fit", "load_from_checkpoint"}
UNSAFE = {
    *("read_pickle", "to_pickle", "hub.load", "jit.load", "package.PackageImporter"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load"),
    *("os.system", "os.popen", "eval", "exec", "compile", "__import__"),
}
# torch.export.load stands where the archive has been looked through first.
ONE_CALLER = {"torch.export.load": "forecast/apps/export.py"}


def ends_with(called, names):
    """`nn.eval` is no `eval`: a builtin has no dot before it."""
    return any(called == name if hasattr(builtins, name) else f".{called}".endswith(f".{name}") for name in names)


def is_wrong(node, file):
    """Whether a node of a Python file is against the rules."""
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in PICKLING for alias in node.names)
    if isinstance(node, ast.ImportFrom):  # UnpicklingError: an exception to be caught
        return (node.module or "").split(".")[0] in PICKLING and [a.name for a in node.names] != ["UnpicklingError"]
    if not isinstance(node, ast.Call):
        return False
    called, keywords = ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}
    return (
        ends_with(called, UNSAFE)
        or (ends_with(called, NEED_WEIGHTS_ONLY) and keywords.get("weights_only") != "True")
        or any(keywords.get(flag, "False") != "False" for flag in ("shell", "allow_pickle"))
        # a module, or what a call returns, is not seen to be plain
        or (ends_with(called, {"torch.save"}) and not isinstance(node.args[0], ast.Dict | ast.Name))
        or ONE_CALLER.get(called, file) != file
    )


def faults(path):
    """Every node of a Python file that is against the rules, with its line."""
    file = str(path.relative_to(ROOT))
    wrong = (node for node in ast.walk(ast.parse(path.read_text())) if is_wrong(node, file))
    return [f"{node.lineno}: {ast.unparse(node)[:80]}" for node in wrong]


@pytest.mark.parametrize("file", PYTHON, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_file_of_ours_pickles_or_executes_text(file):
    assert faults(file) == []


PLANTED = """
import pickle
import joblib.externals
from pickle import loads
from pickle import UnpicklingError, loads
import torch; torch.load('a')
import torch; torch.load('a', weights_only=False)
import torch; torch.load('a', weights_only=flag)
trainer.fit(module)
self.trainer.fit(module, weights_only=False)
Module.load_from_checkpoint('a')
import numpy as np; np.load('a', allow_pickle=True)
import numpy as np; np.savez('a', allow_pickle=True, x=x)
torch.save(self.model, 'a')
pd.read_pickle('a')
torch.hub.load('a', 'b')
yaml.load(text, Loader=yaml.Loader)
eval('1')
exec(code)
os.system('ls')
subprocess.run('ls', shell=True)
torch.export.load('a')
"""
INNOCENT = """
from pickle import UnpicklingError
model.eval()
re.compile('a')
torch.load('a', weights_only=True)
np.load('a')
np.savez('a', x=x)
yaml.safe_load('a')
torch.save(content, 'a')
OmegaConf.load('a')
"""


LINES = [*((line, 1) for line in PLANTED.strip().split("\n")), *((line, 0) for line in INNOCENT.strip().split("\n"))]


@pytest.mark.parametrize("line, count", LINES)
def test_a_planted_fault_is_found_and_an_innocent_line_is_not(tmp_path, monkeypatch, line, count):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "planted.py").write_text(line)
    assert len(faults(tmp_path / "planted.py")) == count


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_config_is_plain_yaml(file):
    """A tag such as !!python/object would execute with another loader than this one."""
    yaml.safe_load(file.read_text())
    assert "!!" not in file.read_text()


def plain_npz(path):
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}  # an object array would raise here


def plain_png(path):
    assert path.read_bytes().startswith(b"\x89PNG")


READERS = {
    ".ckpt": lambda path: torch.load(path, weights_only=True),
    ".pt": lambda path: torch.load(path, weights_only=True),
    ".npz": plain_npz,
    ".json": lambda path: json.loads(path.read_text()),
    ".yaml": lambda path: yaml.safe_load(path.read_text()),
    ".csv": lambda path: path.read_text().splitlines(),
    ".log": lambda path: path.read_text(),
    ".png": plain_png,
    ".html": lambda path: path.read_text(),
}


def test_every_file_of_a_run_is_read_without_pickle(tmp_path):
    call("train", *TINY, "trainer.limit_train_batches=1", f"hydra.run.dir={tmp_path}")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} >= {".ckpt", ".npz", ".json", ".yaml", ".csv", ".log", ".png"}
    for file in files:
        if file.name.startswith(("events.out.tfevents", ".lock")):  # protocol buffers of TensorBoard; no content
            continue
        assert file.suffix in READERS, f"{file}: how is it read without pickle?"
        read = READERS[file.suffix](file)
        assert zipfile.is_zipfile(file) == (file.suffix in {".ckpt", ".pt", ".npz"})
        if file.suffix == ".npz":  # numbers, truths, times and texts
            assert {array.dtype.kind for array in read.values()} <= set("fiubMU"), file
