"""--trust: what it allows, and what it does not whoever asks for it."""

import functools
import pickle
import re
import sys

import pytest
import torch
from config.composed import composed
from models.small import window_shape
from omegaconf import OmegaConf
from own_modules import own  # noqa: F401 - a fixture

from forecast.config.allow_list import own_code, resolve_target, take_modules, trust_words, trusted, trusting
from forecast.config.build import build
from forecast.config.check import check_config, read_settings
from forecast.config.settings import EvaluateSettings, PredictSettings
from forecast.errors import UserError

pytestmark = pytest.mark.usefixtures("own")
MODULE = "my_package.models"
OWN = {
    "model": ("model=nlinear", f"model._target_={MODULE}.Drift", "+model.scale=2.0"),
    "attention.mechanism": ("model=transformer", "attention=full", f"attention.mechanism._target_={MODULE}.Sharper"),
    "data": ("data=demo", f"data._target_={MODULE}.Made"),
    "optim": (f"optim._target_={MODULE}.Slow",),
    "callbacks.mine": (f"+callbacks.mine._target_={MODULE}.Origin",),
}
PROVIDED = {
    "model": {"window": window_shape(seq_len=22, label_len=11, pred_len=7)},
    "optim": {"params": [torch.nn.Parameter(torch.zeros(2))]},
}


def refused(target, *modules):
    with trusting(modules), pytest.raises(UserError, match=re.escape(f"model._target_={target}: not allowed")) as error:
        resolve_target(target, "model")
    return str(error.value)


@pytest.mark.parametrize("place", OWN)
def test_each_kind_of_class_is_checked_and_built_when_its_module_is_trusted(place):
    cfg = composed(*OWN[place])
    with pytest.raises(UserError, match=r"not allowed.*--trust my_package\.models"):
        check_config(cfg)
    with trusting([MODULE]):
        check_config(cfg)
        made = build(OmegaConf.select(cfg, place), **PROVIDED.get(place, {}))
    kind = made if isinstance(made, functools.partial) else type(made)  # a partial waits for more arguments
    assert getattr(kind, "__module__", None) == MODULE or MODULE in repr(kind)


def test_the_keys_of_an_own_class_are_checked_as_those_of_ours():
    cfg = composed("model=nlinear", f"model._target_={MODULE}.Drift", "+model.scael=2")
    with trusting([MODULE]), pytest.raises(UserError, match=r"model.scael=2: unknown key. Did you mean 'scale'"):
        check_config(cfg)


def test_without_the_switch_the_module_is_not_even_imported(own):  # noqa: F811
    says = refused(f"{MODULE}.Drift")
    assert not own.exists() and MODULE not in sys.modules
    assert says.endswith(
        "If Drift is a class of your own, say --trust my_package.models (from Python trust=['my_package.models']): "
        "that runs the code of my_package.models with all your rights. Say it for code that you have read, never "
        "because a file needs it"
    )
    with trusting([MODULE]):  # what the message advises
        assert resolve_target(f"{MODULE}.Drift").__name__ == "Drift"
    assert own.exists()
    refused(f"{MODULE}.Drift")  # and no longer after the command


OTHER_MODULES = ["my_packagex.models.Drift", "my_package.models_too.Drift", "my_package.Drift", "models.Drift"]


@pytest.mark.parametrize("target", [*OTHER_MODULES, "my_package.models.os.system", "my_package.models.Drift.forward"])
def test_another_module_of_a_similar_name_is_not_trusted(target):
    says = refused(target, MODULE)
    assert f"--trust {target.rpartition('.')[0]} " in says
    assert "my_packagex.models" not in sys.modules


def test_a_package_is_not_its_modules():
    refused(f"{MODULE}.Drift", "my_package")


PYTHON = ["builtins.eval", "builtins.exec", "os.system", "subprocess.Popen", "torch.hub.load", "torch.load", "eval"]


@pytest.mark.parametrize("target", PYTHON)
@pytest.mark.parametrize("modules", [(), (MODULE,)])
def test_what_python_and_torch_can_do_is_refused_and_no_switch_is_advised(target, modules):
    assert "--trust" not in refused(target, *modules)


@pytest.mark.parametrize(
    "name", ["system", "Thread", "os", "make", "Runs", "Disguised", "NLinear", "lazy", "Dirft", ""]
)
def test_a_trusted_module_gives_its_own_classes_of_the_known_kinds_alone(tmp_path, name):
    refused(f"{MODULE}.{name}", MODULE)
    node = {"_target_": f"{MODULE}.{name}", "command": f"touch {tmp_path}/fired"}
    with trusting([MODULE]), pytest.raises(UserError, match="not allowed"):
        build({"a": [node]})
    assert not (tmp_path / "fired").exists()


def test_the_class_that_was_checked_is_built_though_an_attribute_hides_its_module(tmp_path):
    (tmp_path / "my_package" / "__init__.py").write_text("class models:\n    Drift = print\n")
    node = {"_target_": f"{MODULE}.Drift", "window": None}
    with trusting([MODULE]):
        assert resolve_target(f"{MODULE}.Drift").__module__ == MODULE
        with pytest.raises(Exception, match="WindowShape"):  # of Drift's constructor
            build({"a": node})


BAD = {
    "my_modles": r"--trust my_modles: there is no such module in \S+, nor is it installed",
    "my_package.no": r"--trust my_package\.no: there is no such module in",
    "my_broken.part": r"--trust my_broken\.part cannot be imported: RuntimeError: no weather",
    "model=a": r"--trust model=a: there is no such module in",
    "": "cannot be imported",
}


@pytest.mark.parametrize("module", BAD)
def test_a_module_that_cannot_be_is_refused_at_once(module):
    with pytest.raises(UserError, match=BAD[module]), trusting([module]):
        pytest.fail("was trusted")


def test_a_module_that_fails_when_it_is_imported_is_told():
    with (
        trusting(["my_broken"]),
        pytest.raises(UserError, match=r"my_broken\.Model: RuntimeError: no weather"),
    ):
        resolve_target("my_broken.Model")


def test_trust_adds_up_and_ends_with_its_block_whatever_happens():
    with trusting([MODULE]):
        with pytest.raises(KeyError), trusting(["my_package"]):
            assert trusted() == {MODULE, "my_package"}
            raise KeyError
        assert trusted() == {MODULE}
        assert trust_words() == "--trust my_package.models "
    assert trusted() == set() and trust_words() == ""


def test_the_current_folder_is_searched_last(tmp_path):
    (tmp_path / "numpy.py").write_text("raise SystemExit")
    with trusting([MODULE]):
        assert sys.path[-1] == str(tmp_path)


def test_a_command_may_name_several_modules():
    arguments = ["--trust", "a.b", "-m", "seed=1,2", "--trust=c", "pred_len=3"]
    assert take_modules(arguments) == ["a.b", "c"]
    assert arguments == ["-m", "seed=1,2", "pred_len=3"]
    for alone in (["seed=1", "--trust"], ["--trust", "-m", "seed=1"]):
        with pytest.raises(UserError, match=r"--trust names no module: say --trust my_package\.models"):
            take_modules(alone)


@pytest.mark.parametrize("key", ["trust", "trusted", "checks.trust"])
def test_yaml_has_no_key_that_trusts(key):
    cfg = composed(f"++{key}=[{MODULE}]", "model=nlinear", f"model._target_={MODULE}.Drift")
    with pytest.raises(UserError) as error:
        check_config(cfg)
    assert f"{key}=['{MODULE}']: unknown key" in str(error.value) and "Drift: not allowed" in str(error.value)
    for name, settings in (("evaluate", EvaluateSettings), ("predict", PredictSettings)):
        if "." not in key:
            with pytest.raises(UserError, match=f"{key}=.*unknown key"):
                read_settings(composed(f"++{key}=[{MODULE}]", "ckpt_path=x", name=name), settings)


def test_the_modules_code_is_part_of_what_made_a_result(tmp_path):
    before = own_code([MODULE, "my_package", "sys"])
    assert list(before) == ["code of my_package", "code of my_package.models", "code of sys"]
    file = tmp_path / "my_package" / "models.py"
    file.write_text(file.read_text().replace("self.scale *", "2 * self.scale *"))
    after = own_code([MODULE, "my_package", "sys"])
    assert [key for key in before if before[key] != after[key]] == ["code of my_package", "code of my_package.models"]


def test_a_job_is_called_by_the_code_that_it_trusts(tmp_path):
    from forecast.config import resolvers

    def job():
        resolvers.register()
        return composed("seed=3", hydra=True).hydra.sweep.subdir

    plain = job()
    with trusting([MODULE]):
        trusting_one = job()
        file = tmp_path / "my_package" / "models.py"
        file.write_text(file.read_text() + "SCALE = 3\n")
        changed = job()
    assert len({plain, trusting_one, changed}) == 3 and len({name.split("-")[0] for name in (plain, changed)}) == 1


def test_a_class_of_ones_own_is_pickled_for_the_processes_of_a_training():
    with trusting([MODULE]):
        assert pickle.loads(pickle.dumps(resolve_target(f"{MODULE}.Drift"))).__name__ == "Drift"
