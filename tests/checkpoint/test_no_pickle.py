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
# Calls by the last parts of their names, and the keyword that makes them safe; None: nothing does.
NEEDS = {
    "torch.load": ("weights_only", "True"),
    "trainer.fit": ("weights_only", "True"),
    "load_from_checkpoint": ("weights_only", "True"),
    "read_pickle": None,
    "to_pickle": None,
    "hub.load": None,
    "jit.load": None,
    "package.PackageImporter": None,
    "yaml.load": None,
    "yaml.unsafe_load": None,
    "yaml.full_load": None,
    "os.system": None,
    "os.popen": None,
    "eval": None,
    "exec": None,
    "compile": None,
    "__import__": None,
}
# torch.export.load stands where the archive has been looked through first.
ONE_CALLER = {"torch.export.load": "forecast/export/program.py"}


def calls(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
            yield node, ast.unparse(node.func), keywords


def ends_with(called, name):
    """`nn.eval` is no `eval`: a builtin has no dot before it."""
    return called == name if hasattr(builtins, name) else f".{called}".endswith(f".{name}")


def faults(file):
    """What is against the rules in a Python file, a line each."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (f"{node.lineno}: import {a.name}" for a in node.names if a.name.split(".")[0] in PICKLING)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLING:
            names = [alias.name for alias in node.names]
            if names != ["UnpicklingError"]:  # an exception to be caught
                yield f"{node.lineno}: from {node.module} import {', '.join(names)}"
    for node, called, keywords in calls(file):
        where = f"{node.lineno}: {ast.unparse(node)[:80]}"
        for name, need in NEEDS.items():
            if ends_with(called, name) and (need is None or keywords.get(need[0]) != need[1]):
                yield where
        if any(keywords.get(flag, "False") != "False" for flag in ("shell", "allow_pickle")):
            yield where
        if ends_with(called, "torch.save") and not isinstance(node.args[0], ast.Dict | ast.Name):
            yield where  # a module, or what a call gives, is not seen to be plain
        if called in ONE_CALLER and ONE_CALLER[called] != str(file.relative_to(ROOT)):
            yield where


@pytest.mark.parametrize("file", PYTHON, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_file_of_ours_pickles_or_executes_text(file):
    assert list(faults(file)) == []


PLANTED = [
    "import pickle",
    "import joblib.externals",
    "from pickle import loads",
    "from pickle import UnpicklingError, loads",
    "import torch; torch.load('a')",
    "import torch; torch.load('a', weights_only=False)",
    "import torch; torch.load('a', weights_only=flag)",
    "trainer.fit(module)",
    "self.trainer.fit(module, weights_only=False)",
    "Module.load_from_checkpoint('a')",
    "import numpy as np; np.load('a', allow_pickle=True)",
    "import numpy as np; np.savez('a', allow_pickle=True, x=x)",
    "torch.save(self.model, 'a')",
    "pd.read_pickle('a')",
    "torch.hub.load('a', 'b')",
    "yaml.load(text, Loader=yaml.Loader)",
    "eval('1')",
    "exec(code)",
    "os.system('ls')",
    "subprocess.run('ls', shell=True)",
    "torch.export.load('a')",
]


INNOCENT = [
    "from pickle import UnpicklingError",
    "model.eval()",
    "re.compile('a')",
    "torch.load('a', weights_only=True)",
    "np.load('a')",
    "np.savez('a', x=x)",
    "yaml.safe_load('a')",
    "torch.save(content, 'a')",
    "OmegaConf.load('a')",
]


@pytest.mark.parametrize("line, count", [*((line, 1) for line in PLANTED), *((line, 0) for line in INNOCENT)])
def test_a_planted_fault_is_found_and_an_innocent_line_is_not(tmp_path, monkeypatch, line, count):
    (tmp_path / "planted.py").write_text(line + "\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert len(list(faults(tmp_path / "planted.py"))) == count


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
    ".npz": plain_npz,
    ".json": lambda path: json.loads(path.read_text()),
    ".yaml": lambda path: yaml.safe_load(path.read_text()),
    ".csv": lambda path: path.read_text().splitlines(),
    ".log": lambda path: path.read_text(),
    ".png": plain_png,
}


def test_every_file_of_a_run_is_read_without_pickle(tmp_path):
    call("train", *TINY, f"hydra.run.dir={tmp_path}")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} >= {".ckpt", ".npz", ".json", ".yaml", ".csv", ".log", ".png"}
    for file in files:
        if file.name.startswith(("events.out.tfevents", ".lock")):  # protocol buffers of TensorBoard; no content
            continue
        assert file.suffix in READERS, f"{file}: how is it read without pickle?"
        read = READERS[file.suffix](file)
        assert zipfile.is_zipfile(file) == (file.suffix in {".ckpt", ".npz"})
        if file.suffix == ".npz":  # numbers, truths, times and texts
            assert {array.dtype.kind for array in read.values()} <= set("fiubMU"), file
