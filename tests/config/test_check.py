"""check_config refuses what cannot work before any data is read, and says what to type."""

import re

import pytest
from config.composed import composed

from forecast.config.check import check_config, read_settings
from forecast.config.settings import Checks, EvaluateSettings, History, PredictSettings, TrainSettings
from forecast.config.values import chosen_groups, options
from forecast.errors import UserError

# the overrides -> the line that refuses them; where it begins with the last one, what follows that
REFUSED = {
    "+foo=1": "foo=1: unknown key",
    "+seeds=1": "seeds=1: unknown key. Did you mean 'seed'?",
    "trainer.max_epochs=abc": ": must be an integer or null",
    "trainer.max_epochs=-5": ": must be at least 0, or -1 for no limit",
    "model.d_model=64.5": ": must be an integer",
    "seq_len=true": ": must be an integer",
    "model.d_ff=null": ": must be an integer",
    "model.mix=1": ": must be true or false",
    "optim.betas=[0.9]": ": must be a list of 2",
    "optim.betas=[0.9,x]": "optim.betas=[0.9, 'x']: must be a list of 2",
    "model.activation=gleu": ": must be one of gelu, relu. Did you mean 'gelu'?",
    "data/split=dates": "data.split.val_start is missing: say data.split.val_start=VALUE",
    "~seed": "seed is missing: say seed=VALUE",
    "data.split=dates": ": must be chosen as a group: data/split=NAME",
    "checks=false": ": it only has keys: say checks.leakage=VALUE",
    "attention.mechanism=full": "must be chosen as a group: attention=NAME",
    "~model.d_model": "model.d_model is missing",
    "+attention.mechanism.sub_len=3": "ProbAttention takes no 'sub_len'",
    "+optim.weight_decays=3": "Did you mean 'weight_decay'?",
    "+model.window=3": "model.window=3: the program sets this itself",
    "+logger.save_dir=x": "logger.save_dir=x: the program sets this itself",
    "optim._target_=torch.load": ": not allowed",
    "optim._target_=torch.optim.Adm": "has no 'Adm'. Did you mean 'Adam'?",
    "attention=inherit": ": only a model's slots can inherit",
    "model.d_ff=${nothing}": ": cannot be resolved",
    "label_len=97": "label_len (97) of the seq_len (96)",
    "model.n_heads=7": "model.d_model=512: must be a multiple of model.n_heads (7)",
    "data=csv": "data.path=null: which file? Say data.path=FILE.csv",
    "data.path=nope.csv": ": there is no such file",
    "data=demo data.split.train=0.8": "train (0.8), val (0.1) and test (0.2) are shares",
    "data.split.val=0": "val (0) and test (2880) are numbers of rows: at least 1 each",
    "data.batch_size=0": ": must be at least 1",
    "seq_len=0": ": must be at least 1",
    "label_len=-1": ": must be at least 0",
    "model.dropout=1": ": must be at least 0 and less than 1",
    "optim.lr=0": ": must be greater than 0",
    "seed=4294967296": ": must be between 0 and 4294967295",
    "eval_seed=-1": ": must be between 0 and 4294967295",
    "callbacks.early_stopping.patience=0": ": must be at least 1",
    "attention.mechanism.factor=0": ": must be at least 1",
    "model.encoder_layers=0": ": must be at least 1",
    "optim.weight_decay=-0.1": ": must be at least 0",
    "optim.betas=[0.9,1]": "optim.betas[1]=1: must be at least 0 and less than 1",
    "optim.betas=[-0.1,0.9]": "optim.betas[0]=-0.1: must be at least 0 and less than 1",
    "protocol.horizon_offsets=[3,0]": "protocol.horizon_offsets[1]=0: must be at least 1",
    "protocol.horizon_offsets=[1.5]": ": must be a list",
    "callbacks.figures.windows=0": ": must be at least 1",
    "trainer.log_every_n_steps=-1": ": must be at least 0",
    "trainer.min_epochs=-1": ": must be at least 0",
    "trainer.min_steps=-1": ": must be at least 0",
    "trainer.gradient_clip_val=-1": ": must be at least 0",
    "data=demo data.rows=2": ": must be at least 3",
    "data=demo data.demo_seed=-1": ": must be between 0 and 4294967295",
    "callbacks.checkpoint.every_n_train_steps=0": ": must be at least 1",
    "trainer.accumulate_grad_batches=0": ": must be at least 1",
    "model=informer_stack model.stack_layers=[1,0]": "model.stack_layers[1]=0: must be at least 1",
    "model=patchtst model.patch_len=0": ": must be at least 1",
    "model=patchtst model.stride=0": ": must be at least 1",
    "model=reformer model.feed_forward_chunks=0": ": must be at least 1",
    "model=dlinear model.kernel_size=0": ": must be at least 1",
    "attention=logsparse attention.projection.kernel_size=0": ": must be at least 1",
    "attention=prob_causal attention.mechanism.budget=0": ": must be at least 1",
    "attention=fixed attention.mechanism.summary=0": ": must be at least 1",
    "trainer.plugins=[{_target_:torch.load}]": "trainer.plugins[0]._target_=torch.load: not allowed",
    "trainer.precision=8": ": must be one of 64, 32, 16, ",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_a_mistake_is_refused_with_its_path_value_and_fix(overrides):
    says = REFUSED[overrides]
    whole = overrides.split()[-1] + says if says.startswith(": ") else says
    with pytest.raises(UserError, match=re.escape(whole)) as error:
        check_config(composed(*overrides.split()))
    assert len(str(error.value).splitlines()) == (2 if overrides == "data/split=dates" else 1)


ACCEPTED = [
    "trainer.max_epochs=-1",
    "trainer.max_epochs=null",
    "trainer.devices=[0,1]",
    "trainer.devices=auto",
    "trainer.precision=bf16-mixed",
    "trainer.precision=16",
    "trainer.limit_train_batches=3",
    "trainer.limit_train_batches=0.5",
    "trainer.max_time={hours:1}",
    "trainer.fast_dev_run=true",
    "label_len=0",
    "label_len=96",
    "eval_seed=null",
    "model.dropout=0",
    "optim.lr=1",
    "+optim.fused=true",
    "~callbacks.early_stopping",
    "callbacks.early_stopping=null",
    "callbacks.figures=null",
    "optim.weight_decay=0",
    "optim.betas=[0,0.999]",
    "trainer.gradient_clip_val=0",
    "trainer.log_every_n_steps=null",
    "data.target=null",
    "checks.leakage=false",
    # keys of strangers, of the names of keys of ours that must be at least 1
    "+callbacks.mine={_target_:lightning.pytorch.callbacks.ModelCheckpoint,every_n_train_steps:0}",
    "+callbacks.mine={_target_:lightning.pytorch.callbacks.EarlyStopping,monitor:val/mse_scaled,patience:0}",
]


@pytest.mark.parametrize("override", ACCEPTED)
def test_what_works_is_not_refused(override):
    check_config(composed(override))


GROUPS = ["attention", "model", "data", "optim", "schedule", "trainer", "callbacks", "logger", "protocol"]


def test_the_groups_that_must_be_there_are_all_that_train_yaml_chooses():
    assert list(chosen_groups("train")) == [*GROUPS, "experiment", "variant"]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("experiment", [[], ["experiment=quickstart"]], ids=str)
def test_a_deleted_group_is_asked_for_in_one_line(group, experiment):
    says = f"{group} is missing: say {group}=NAME, one of {', '.join(options(group, but='inherit'))}"
    with pytest.raises(UserError, match=f"^{re.escape(says)}$"):
        check_config(composed(*experiment, f"~{group}"))


@pytest.mark.parametrize("accelerator", ["gpu", "cuda"])
def test_a_gpu_that_torch_does_not_see_is_refused(accelerator, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    says = f"trainer.accelerator={accelerator}: torch sees no GPU here. Use trainer=cpu, or install torch's CUDA build."
    with pytest.raises(UserError, match=f"^{re.escape(says)}$"):
        check_config(composed(f"trainer.accelerator={accelerator}"))


@pytest.mark.parametrize("accelerator", ["gpu", "cuda", "auto", "cpu"])
def test_a_gpu_that_torch_sees_is_not_refused(accelerator, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    check_config(composed(f"trainer.accelerator={accelerator}"))


def test_all_problems_come_at_once():
    wrong = ["seq_len=0", "optim.lr=-1", "model.mix=1", "+foo=1", "data.path=nope.csv"]
    with pytest.raises(UserError) as error:
        check_config(composed(*wrong))
    text = str(error.value)
    assert all(part in text for part in ("seq_len=0", "optim.lr=-1", "model.mix=1", "foo=1", "data.path=nope.csv"))


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["model.dropout=2"], "model.dropout=2: must be at least 0 and less than 1"),  # which others repeat
        (["attention.mechanism.factor=x"], "attention.mechanism.factor=x: must be an integer"),  # in two slots
        (
            ["attention@model.cross_attention=prob", "model.cross_attention.mechanism.factor=x"],
            "model.cross_attention.mechanism.factor=x: must be an integer",
        ),
    ],
)
def test_a_mistake_is_reported_once_and_where_it_was_typed(overrides, says):
    with pytest.raises(UserError, match=f"^{re.escape(says)}$"):
        check_config(composed(*overrides))


def test_the_fields_of_train_settings_are_the_plain_keys_of_train_yaml():
    cfg = composed()
    assert cfg.keys() - chosen_groups("train").keys() == set(TrainSettings.__dataclass_fields__)
    assert cfg.checks.keys() == set(Checks.__dataclass_fields__)


def test_evaluate_settings_hold_what_evaluate_yaml_says():
    settings = read_settings(composed("ckpt_path=a.ckpt", "split=val", name="evaluate"), EvaluateSettings)
    assert (settings.ckpt_path, settings.split, settings.data.batch_size) == ("a.ckpt", "val", None)


def test_predict_settings_hold_what_predict_yaml_says(monkeypatch):
    monkeypatch.setenv("FORECAST_DATA", "/data")
    settings = read_settings(composed("ckpt_path=a.ckpt", "data.path=b.csv", name="predict"), PredictSettings)
    assert settings.data == History(path="b.csv", root="/data")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([], "ckpt_path is missing"),
        (["ckpt_path=a", "+splits=3"], "splits=3: unknown key. Did you mean 'split'?"),
        (["ckpt_path=a", "data.batch_size=x"], "data.batch_size=x: must be an integer or null"),
        (["ckpt_path=a", "+data.pth=x"], "data.pth=x: unknown key. Did you mean 'path'?"),
        (["ckpt_path=a", "protocol.drop_last_of=0"], "protocol.drop_last_of=0: must be at least 1"),
        (["ckpt_path=a", "protocol.drop_last_of=x"], "protocol.drop_last_of=x: must be an integer or null"),
    ],
)
def test_wrong_settings_of_evaluate_are_refused(overrides, says):
    with pytest.raises(UserError, match=re.escape(says)):
        read_settings(composed(*overrides, name="evaluate"), EvaluateSettings)
