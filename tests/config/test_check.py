"""check_config refuses what cannot work before any data is read, and says what to type."""

import re
from types import SimpleNamespace

import pytest
from config.composed import composed, refusal

from forecast.config.check import check_config, read_settings
from forecast.config.compose import chosen_groups, options
from forecast.config.settings import Checks, EvaluateSettings, PredictSettings, TrainSettings
from forecast.errors import UserError
from forecast.text.overrides import install

SEED = ": must be between 0 and 4294967295"
SHARE = "must be at least 0 and less than 1"
# the overrides -> the line that refuses them; where it begins with the last one, what follows that
REFUSED = {
    "+foo=1": "foo=1: unknown key",
    "+seet=1": "seet=1: unknown key. Did you mean 'seed'?",
    "~seed": "seed is missing: say seed=VALUE",
    "~model.d_model": "model.d_model is missing",
    "data/split=dates": "data.split.val_start is missing: say data.split.val_start=VALUE",
    "+attention.mechanism.sub_len=3": "unknown key. Leave it out: ~attention.mechanism.sub_len",
    "+optim.weight_decays=3": "Did you mean 'weight_decay'?",
    "+model.window=3": "model.window=3: the program sets this itself",
    "+logger.save_dir=x": "logger.save_dir=x: the program sets this itself",
    # types
    **dict.fromkeys(("model.d_model=64.5", "seq_len=true", "model.d_ff=null"), ": must be a valid integer"),
    "trainer.max_epochs=abc": ": must be a valid integer",
    "model.mix=1": ": must be a valid boolean",
    "optim.betas=[0.9]": ": an item more is needed",
    "optim.betas=[0.9,x]": "optim.betas[1]=x: must be a valid number",
    "protocol.horizon_offsets=[1.5]": "protocol.horizon_offsets[0]=1.5: must be a valid integer",
    "level=80": ': must be a list. Set level="[80]"',
    "tags=night": ': must be a list. Set tags="[night]"',
    "model.activation=gleu": ": must be 'gelu' or 'relu'. Did you mean 'gelu'?",
    "trainer.precision=8": ": must be 64, 32 or 16 or ",
    "process_timeout=0": " must be at least 1",
    "checks=false": ": must be a mapping",
    "data.split=dates": ": must be chosen as a group: data/split=dates",
    "attention.mechanism=full": "must be chosen as a group: attention=full",
    "attention=inherit": "attention.projection: Recursive interpolation detected. Give it a value of its own",
    "model.d_ff=${nothing}": "model.d_ff: Interpolation key 'nothing' not found",
    "optim._target_=torch.load": ": not allowed",
    "+optim.params=[]": "optim.params=[]: the program sets this itself",
    "+schedule.optimizer=x": "schedule.optimizer=x: the program sets this itself",
    "+trainer.callbacks=[]": "trainer.callbacks=[]: the program sets this itself",
    **dict.fromkeys(("trainer.logger=csv", "trainer.logger=[]"), ": must be a valid boolean"),
    "+loss.reduction=sum": "loss.reduction=sum: must be 'mean'",
    "loss=huber loss.delta=x": ": must be a valid number",
    "optim._target_=torch.optim.Adm": "module 'torch.optim' has no attribute 'Adm'",
    "trainer.plugins=[{_target_:torch.load}]": "trainer.plugins[0]._target_=torch.load: not allowed",
    # ranges
    "trainer.max_epochs=-5": ": must be at least 0, or -1 for no limit",
    **dict.fromkeys(("seed=4294967296", "eval_seed=-1", "data=demo data.demo_seed=-1"), SEED),
    **dict.fromkeys(
        ("label_len=-1", "optim.weight_decay=-0.1", "trainer.log_every_n_steps=-1"), ": must be at least 0"
    ),
    **dict.fromkeys(("trainer.min_epochs=-1", "trainer.min_steps=-1"), ": must be at least 0"),
    "trainer.gradient_clip_val=-1": ": must be at least 0",
    "model.dropout=1": f": {SHARE}",
    "optim.betas=[0.9,1]": f"optim.betas=[0.9, 1]: {SHARE}",
    "optim.betas=[-0.1,0.9]": f"optim.betas=[-0.1, 0.9]: {SHARE}",
    "optim.lr=0": ": must be greater than 0",
    "optim=sgd optim.momentum=-1": ": must be at least 0",
    "loss=huber loss.delta=0": ": must be greater than 0",
    "loss=quantile loss.levels=0.5": ": must be a list",
    "loss=quantile loss.levels=[0.1,95]": "loss.levels[1]=95: must be above 0 and below 1: 0.9 for 90 %",
    **dict.fromkeys(
        [f"loss=quantile loss.levels={levels}" for levels in ("[0.5]", "[]", "[0.9,0.1]", "[0.1,0.1,0.9]")],
        "]: must be two levels or more, each above the one before: [0.1,0.5,0.9]",
    ),
    "model=ridge loss=normal": "this model is fitted at once and trains on no loss: leave loss= out",
    "schedule=cosine schedule.floor=1": f": {SHARE}",
    "schedule=warmup_cosine schedule.warmup=-0.1": f": {SHARE}",
    "data=demo data.rows=2": ": must be at least 3",
    "protocol.horizon_offsets=[3,0]": "protocol.horizon_offsets[1]=0: must be at least 1",
    "model=informer_stack model.stack_layers=[1,0]": "model.stack_layers[1]=0: must be between 1 and 1000",
    **{
        f"{key}=0": ": must be at least 1"
        for key in (
            *("seq_len", "data.batch_size", "trainer.accumulate_grad_batches"),
            *("callbacks.early_stopping.patience", "callbacks.figures.windows"),
            "callbacks.checkpoint.every_n_train_steps",
            *("model=patchtst model.patch_len", "model=patchtst model.stride"),
            *("model=reformer model.feed_forward_chunks", "attention.mechanism.factor"),
            *("attention=prob_causal attention.mechanism.budget", "attention=fixed attention.mechanism.summary"),
            "attention=logsparse attention.projection.kernel_size",
        )
    },
    # rules between keys
    "label_len=97": "label_len (97) of the seq_len (96)",
    f"data=csv data.path={__file__} data.recent=23": "no window of pred_len=24 steps lies in so few rows",
    "model.n_heads=7": "model.d_model=512: must be a multiple of model.n_heads (7)",
    "model.encoder_layers=0": ": must be between 1 and 1000",
    "model.encoder_layers=1001": ": must be between 1 and 1000",
    "model.decoder_layers=1000000000": ": must be between 1 and 1000",
    **{
        f"{key}={value}": ": must be between 1 and 100000"
        for key in ("model=dlinear model.kernel_size", "model=boosted_trees model.trees")
        for value in (0, 10**9)
    },
    "model=dlinear networks=1000000000": ": must be between 1 and 1000",
    "data.path=nope.csv": ": there is no such file. Check the path; a relative one starts at",
    "data=csv": "data.path=null: which file? Say data.path=FILE.csv",
    **{
        f"data=csv data.path={__file__} {words}": text
        for words, text in {
            "data.panel=columns data.id_column=shop": "data.id_column=shop is of a panel in long format",
            "data.features=S data.known=[promo]": "data.features=S: says what is what where no role is named",
            "data.holidays=DE data.time_column=null data.freq=steps": "rows that count steps have no holidays",
            "data.static=[size]": "facts that tell the series of a long panel from each other",
        }.items()
    },
    "data=demo data.split.train=0.8": "train (0.8), val (0.1) and test (0.2) are shares",
    "data.split.val=0": "val (0) and test (2880) are numbers of rows: at least 1 each",
    "schedule=cosine trainer.max_epochs=-1": ": this schedule is laid out over the whole training, whose end must be "
    "known: say trainer.max_epochs=N",
    "schedule._target_=torch.optim.lr_scheduler.OneCycleLR trainer.max_epochs=-1": ": this schedule is laid out over",
    "schedule=plateau trainer.limit_val_batches=0": ": schedule=plateau goes by the validation error, and there is no "
    "validation: leave it out, or choose another schedule",
    # in words of the key that was typed, though others repeat it
    "model.dropout=2": f": {SHARE}",
    "attention.mechanism.factor=x": ": must be a valid integer",
    "attention@model.cross_attention=prob model.cross_attention.mechanism.factor=x": ": must be a valid integer",
    # a slot of attention is a group
    "model.encoder_attention=topk": ": must be chosen as a group: attention@model.encoder_attention=topk",
    "model.cross_attention=null": ": must be chosen as a group: attention@model.cross_attention=NAME",
    "model.cross_attention.mechanism=full": ": must be chosen as a group: attention@model.cross_attention=full",
    # there is no such key, whatever its value repeats
    "+model.foo=${seq_len}": "model.foo=96: unknown key. Leave it out: ~model.foo",
}


@pytest.mark.parametrize("overrides", REFUSED)
def test_a_mistake_is_refused_with_its_path_value_and_fix(overrides):
    message = REFUSED[overrides]
    first, *more = refusal(overrides).splitlines()
    assert first.startswith(overrides.split()[-1] + message) if message.startswith(": ") else message in first
    assert len(more) == (overrides == "data/split=dates")


EARLY_STOPPING = "lightning.pytorch.callbacks.EarlyStopping,monitor:val/mse_scaled"
ACCEPTED = [
    *("trainer.max_epochs=-1", "trainer.max_epochs=null", "trainer.devices=[0,1]", "trainer.devices=auto"),
    *("trainer.precision=bf16-mixed", "trainer.precision=16", "trainer.limit_train_batches=3"),
    *("trainer.limit_train_batches=0.5", "trainer.max_time={hours:1}", "trainer.fast_dev_run=true"),
    *("trainer.gradient_clip_val=0", "trainer.log_every_n_steps=null", "label_len=0", "label_len=96", "eval_seed=null"),
    *("model.dropout=0", "optim.lr=1", "+optim.fused=true", "optim.weight_decay=0", "optim.betas=[0,0.999]"),
    *("~callbacks.early_stopping", "callbacks.early_stopping=null", "callbacks.figures=null"),
    *("data.target=null", "checks.leakage=false"),
    *("logger=csv", "logger=none", "~logger", "trainer.logger=false", "+trainer.logger=false", "trainer.logger=true"),
    *("optim=adamw", "optim=sgd", "schedule=cosine", "schedule=warmup_cosine", "schedule=plateau"),
    *("schedule=constant trainer.max_epochs=-1", "schedule=cosine trainer.max_epochs=-1 trainer.max_steps=9"),
    *("schedule=constant trainer.limit_val_batches=0", "loss=mae", "loss=huber loss.delta=0.1"),
    *("loss=quantile loss.levels=[0.1,0.9]", "loss=normal", "loss=student_t", "model=ridge loss=mae"),
    "schedule._target_=torch.optim.lr_scheduler.StepLR +schedule.step_size=3",
    # keys of strangers, of the names of keys of ours that must be at least 1
    "+callbacks.mine={_target_:lightning.pytorch.callbacks.ModelCheckpoint,every_n_train_steps:0}",
    f"+callbacks.mine={{_target_:{EARLY_STOPPING},patience:0}}",
]


@pytest.mark.parametrize("override", ACCEPTED)
def test_what_works_is_not_refused(override):
    check_config(composed(*override.split()))


@pytest.mark.parametrize(("logger", "package"), [("wandb", "wandb"), ("mlflow", "mlflow")])
def test_a_logger_whose_package_is_missing_is_refused_with_the_command_that_installs_it(logger, package, monkeypatch):
    for spec in (None, SimpleNamespace(origin=None)):  # the second: a folder of that name, such as wandb's own
        monkeypatch.setattr("importlib.util.find_spec", lambda name, spec=spec: {package: spec}[name])
        assert refusal(f"logger={logger}").partition(": ")[2] == (
            f"the package {package} is not installed. Install it: {install(package)}, or choose logger=tensorboard or "
            "logger=csv"
        )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: SimpleNamespace(origin="there"))
    check_config(composed(f"logger={logger}"))


GROUPS = ["attention", "model", "data", "optim", "schedule", "loss", "trainer", "callbacks", "logger", "protocol"]


def test_the_groups_that_must_be_there_are_all_that_train_yaml_chooses():
    assert list(chosen_groups("train")) == [*GROUPS, "experiment", "variant", "debug"]


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "logger"])
@pytest.mark.parametrize("experiment", ["", "experiment=quickstart"])
def test_a_deleted_group_is_refused_in_one_line(group, experiment):
    valid = ", ".join(options(group, but="inherit"))
    assert refusal(f"{experiment} ~{group}") == f"{group} is missing: say {group}=NAME, one of {valid}"


@pytest.mark.parametrize("accelerator", ["gpu", "cuda", "auto", "cpu"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_gpu_that_torch_does_not_see_is_refused(accelerator, seen, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: seen)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    override = f"trainer.accelerator={accelerator}"
    if seen or accelerator in ("auto", "cpu"):
        check_config(composed(override))
    else:
        text = f"{override}: torch sees no GPU here. Use trainer=cpu, or install torch's CUDA build."
        assert refusal(override) == text


def test_all_problems_come_at_once():
    wrong = "seq_len=0 optim.lr=-1 model.mix=1 +foo=1 data.path=nope.csv"
    assert all(override.removeprefix("+") in refusal(wrong) for override in wrong.split())


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
    assert (settings.data.path, settings.data.root, settings.data.reading()) == ("b.csv", "/data", {})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "ckpt_path is missing"),
        (["ckpt_path=a", "+splits=3"], "splits=3: unknown key. Did you mean 'split'?"),
        (["ckpt_path=a", "data.batch_size=x"], "data.batch_size=x: must be a valid integer"),
        (["ckpt_path=a", "+data.pth=x"], "data.pth=x: unknown key. Did you mean 'path'?"),
        (["ckpt_path=a", "protocol.drop_last_of=0"], "protocol.drop_last_of=0: must be at least 1"),
        (["ckpt_path=a", "protocol.drop_last_of=x"], "protocol.drop_last_of=x: must be a valid integer"),
    ],
)
def test_wrong_settings_of_evaluate_are_refused(overrides, message):
    with pytest.raises(UserError, match=re.escape(message)):
        read_settings(composed(*overrides, name="evaluate"), EvaluateSettings)
