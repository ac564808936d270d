"""Every YAML of conf composes, is built from real constructors, and the later choice wins."""

import inspect
from types import SimpleNamespace

import pytest
import yaml
from config.composed import anew, composed, hydras_defaults, hydras_merge
from omegaconf import OmegaConf

from forecast.config import resolvers
from forecast.config.check import check_config
from forecast.config.compose import CONF, groups, published_tables, recipe, without_hydra

NAMES = ("train", "evaluate", "backtest", "tune", "predict", "update")
NEEDS = {
    "data=csv": ["data.path={csv}"],
    "model=weighted_ensemble": ["model.runs=[RUN]"],
    "attention=autocorrelation": ["model=patchtst"],  # it serves no decoder's own slot
    "data/split=dates": ["data.split.val_start=2017-01-01", "data.split.test_start=2017-02-01"],
}
CHOICES = [
    f"{group}={option}"
    for group, names in sorted(groups().items())
    for option in names
    if option != "inherit" and not group.startswith("experiment")
]
FOLDER = CONF / "experiment"
EVERY = sorted(file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("[!_]*.yaml"))
# one of each published table, whose rows tests/studies/test_tables.py goes through
ROWS = [f"{table}/{list(content['rows'])[-1]}" for table, content in published_tables().items()]
OF_EACH_KIND = ["ablation/scramble", "etth1_small", "quickstart", *ROWS]


def test_every_yaml_is_an_entry_point_or_an_option_of_a_group():
    files = {file.relative_to(CONF).as_posix() for file in CONF.rglob("[!_]*.yaml")}
    rows = {f"experiment/{table}" for table in published_tables()}
    options = {f"{group}/{option}.yaml" for group, names in groups().items() if group not in rows for option in names}
    assert files == options | {f"{name}.yaml" for name in (*NAMES, "reading")}


@pytest.mark.parametrize("words", ["experiment=quickstart", "model=reformer attention=lsh pred_len=7", "~logger"])
def test_what_tests_list_and_merge_once_is_what_hydra_lists_and_merges(words, monkeypatch):
    first, again = (composed(*words.split(), f"seed={seed}", hydra=True) for seed in (31, 37))
    monkeypatch.setattr("config.composed.merged_once", hydras_merge)
    monkeypatch.setattr("config.composed.listed_once", hydras_defaults)
    for cfg in (first, again):
        plain = anew((*words.split(), f"seed={cfg.seed}"), "train", hydra=True)
        assert OmegaConf.to_yaml(cfg) == OmegaConf.to_yaml(plain)  # keys, their order, interpolations, choices
        assert OmegaConf.is_struct(cfg) and OmegaConf.is_struct(plain)


def test_every_row_of_a_published_table_is_an_option_and_says_no_key_twice():
    for table, content in published_tables().items():
        assert groups()[f"experiment/{table}"] == list(content["rows"])
        assert not set(content["every"]) & set(content["columns"])
        assert all(len(values) <= len(content["columns"]) for values in content["rows"].values())


@pytest.mark.parametrize("file", sorted(CONF.rglob("_*.yaml")), ids=lambda file: file.name)
def test_what_begins_with_an_underscore_is_what_others_are_made_from(file):
    users = [other.stem for other in file.parent.glob("*.yaml") if f"- {file.stem}\n" in other.read_text()]
    assert len(users) > 1


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_point_composes(name):
    resolvers.register()
    assert OmegaConf.missing_keys(composed(name=name)) == (
        set() if name in ("train", "backtest", "tune") else {"ckpt_path"}
    )


@pytest.mark.parametrize("choice", CHOICES)
def test_every_option_passes_the_check(choice, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)  # trainer=gpu is refused without one
    monkeypatch.setattr("importlib.util.find_spec", lambda name: SimpleNamespace(origin=name))  # so are wandb, mlflow
    csv = tmp_path / "my.csv"
    csv.write_text("date,OT\n")
    check_config(composed(choice, *(text.format(csv=csv) for text in NEEDS.get(choice, []))))


@pytest.mark.parametrize("experiment", EVERY)
def test_an_experiment_passes_the_check_and_its_own_keys_survive(experiment, tmp_path):
    content = yaml.safe_load((FOLDER / f"{experiment}.yaml").read_text())
    own = {k: v for k, v in content.items() if isinstance(v, int | float | str)}
    assert own or experiment.startswith("ablation/"), "an experiment without keys of its own proves nothing here"
    cfg = composed(f"experiment={experiment}")
    assert {key: cfg[key] for key in own} == own
    if cfg.data.get("path", "") is None:  # the user's to name
        cfg.data.path = str(tmp_path)
    check_config(cfg)


@pytest.mark.parametrize("experiment", ROWS)
def test_a_published_row_passes_the_check_and_its_own_keys_survive(experiment):
    cfg, choices = without_hydra(composed(f"experiment={experiment}", hydra=True))
    keys = recipe(*experiment.split("/"))
    assert {key: choices[key] if key in choices else OmegaConf.select(cfg, key) for key in keys} == keys
    check_config(cfg)


@pytest.mark.parametrize("experiment", OF_EACH_KIND)
def test_the_command_line_wins_over_an_experiment(experiment):
    cfg = composed(f"experiment={experiment}", "pred_len=7", "data=ETTh2", "model=dlinear", "schedule=constant")
    assert (cfg.pred_len, cfg.data.name) == (7, "ETTh2")
    assert [cfg[group]._target_.rsplit(".", 1)[-1] for group in ("model", "schedule")] == ["DLinear", "constant"]


def test_what_is_debugged_is_cut_short_whatever_the_experiment_says():
    cfg = composed("experiment=quickstart", "debug=limit")
    assert (cfg.trainer.max_epochs, cfg.trainer.limit_train_batches, cfg.data.name) == (2, 10, "recall")


def test_an_experiments_choice_of_data_survives():
    assert composed("experiment=quickstart").data.name == "recall"


def test_trainer_yaml_has_every_argument_of_lightnings_trainer_with_its_default():
    from lightning.pytorch import Trainer

    ours = {
        "devices": 1,
        "max_epochs": 6,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 10,
        "use_distributed_sampler": False,
        "enable_model_summary": False,
    }
    theirs = {name: p.default for name, p in inspect.signature(Trainer).parameters.items()}
    del theirs["callbacks"]
    yaml_values = OmegaConf.to_container(composed().trainer)
    yaml_values.pop("_target_")
    assert yaml_values.keys() == theirs.keys()
    assert {k: v for k, v in yaml_values.items() if v != theirs[k] or type(v) is not type(theirs[k])} == ours


def slots(cfg):
    names = ("encoder_attention", "decoder_attention", "cross_attention")
    return [cfg.model[name].mechanism._target_.rsplit(".", 1)[-1] for name in names]


@pytest.mark.parametrize(
    ("overrides", "attentions"),
    [
        ("attention=full", ["Full", "Full", "Full"]),
        ("attention=prob", ["Prob", "Prob", "Full"]),
        ("attention@model.decoder_attention=full", ["Prob", "Full", "Full"]),
        ("model=informer2020", ["Informer2020Prob", "Informer2020Prob", "Full"]),
        ("model=informer2020 attention=full", ["Full", "Full", "Full"]),
    ],
)
def test_attention_reaches_the_slots_that_inherit_and_the_command_line_wins(overrides, attentions):
    assert slots(composed(*overrides.split())) == [f"{name}Attention" for name in attentions]


def test_attention_slot_and_key_work_together_and_no_key_of_another_attention_stays():
    cfg = composed("attention=prob", "attention@model.cross_attention=prob", "attention.mechanism.factor=3")
    assert slots(cfg) == ["ProbAttention"] * 3
    assert [cfg.model[f"{name}_attention"].mechanism.factor for name in ("encoder", "decoder", "cross")] == [3, 3, 5]
    assert "factor" not in composed("attention=full").model.encoder_attention.mechanism
    assert composed("model=informer2020").model.mix is True
