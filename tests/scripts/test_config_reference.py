"""The reference of config keys, docs/config_reference.py, and the links of the site, docs/hooks.py."""

import json
import re

import pytest
from omegaconf import DictConfig, OmegaConf
from script import SCRIPTS

from forecast.config.check import check_config
from forecast.config.compose import options
from forecast.config.run_config import composed

DOCS = SCRIPTS.parent / "docs"
CONF = SCRIPTS.parent / "conf"


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import config_reference

    return config_reference


@pytest.fixture
def hooks(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import hooks

    return hooks


def flat(node, prefix=""):
    """The keys of a config with values, `mechanism.factor`."""
    for key in node:
        inner = node._get_node(key)
        if isinstance(inner, DictConfig):
            yield from flat(inner, f"{prefix}{key}.")
        elif key not in ("_target_", "_partial_"):
            yield f"{prefix}{key}"


def test_every_key_of_every_option_has_a_row(reference):
    lines = reference.config_lines()
    rows = {line.split("`")[1] for line in lines[: lines.index("## Words of other programs {#words}")] if "| `" in line}
    files = [file for file in CONF.glob("*/**/*.yaml") if file.relative_to(CONF).parts[0] not in reference.OVERLAYS]
    assert len(files) > 40
    for file in files:
        group = file.parent.relative_to(CONF).as_posix().replace("/", ".")
        config = OmegaConf.load(file)
        config.pop("defaults", None)
        assert {f"{group}.{key}" for key in flat(config)} <= rows, file
    for name in reference.SETTINGS:
        config = OmegaConf.load(CONF / f"{name}.yaml")
        own = OmegaConf.masked_copy(config, config.keys() - {"defaults", "hydra"})
        assert {*flat(own)} <= rows, name


def test_the_schema_for_editors_is_that_of_today_and_knows_the_keys(reference):
    schema = reference.config_schema()
    assert json.loads((CONF / "train.schema.json").read_text()) == json.loads(json.dumps(schema)), (
        "run python docs/config_reference.py"
    )
    keys = schema["properties"]
    assert {"type": "integer", "description": "must be at least 1"} in keys["seq_len"]["anyOf"]
    assert keys["model"]["properties"]["d_model"]["anyOf"][0]["type"] == "integer"
    assert keys["optim"]["properties"].keys() >= {"lr", "_target_"}


@pytest.mark.parametrize(
    "row",
    [
        "| `seed` | `1` | an integer, must be between 0 and 4294967295 |  |",
        "| `attention.mechanism.factor` | `5` | an integer, must be at least 1 |  |",
        "| `compile` | `null` | one of none, graphs, default, reduce-overhead, max-autotune or null | the training "
        "step on a GPU: null records it where it can be, graphs says why not; none; torch.compile: default, "
        "reduce-overhead, max-autotune |",
        "| `+attention.mechanism.divisor` | `sampled` | one of sampled, all | in no file: it needs the plus |",
        "| `data.name` | `ETTm2` | text |  |",
        "| `data/split` | `ett_hourly` | an option of data/split |  |",
        "| `attention@model.encoder_attention` | `inherit` | an option of attention |  |",
        "| `model.d_model` | `512` | an integer, must be at least 1 |  |",
        "| `trainer.max_epochs` | `6` | an integer or null | lightning: null |",
        "| `data.split.val_start` | `???` | text | the first timestamp of the validation rows |",
    ],
)
def test_a_row_has_default_type_and_comment(reference, row):
    assert row in reference.config_lines()


def test_a_key_with_a_plus_is_one_that_the_check_takes(reference):
    rows = [line.split("`") for line in reference.config_lines() if line.startswith("| `+")]
    assert len(rows) > 3
    keys = {key: default for _, key, _, default, *_ in rows}
    assert composed(["attention=prob", f"+attention.mechanism.inactive={keys['+attention.mechanism.inactive']}"])
    check_config(OmegaConf.create(composed([f"{key}={keys[key]}" for key in keys if "divisor" in key]).config.plain))


def test_comments_values_and_nesting_are_read_as_they_are_written(reference):
    text = "# top\ndefaults: [a]\nrate: 1.0e-4    # per step\nlist: [1, 2]\ninner:\n  name: ';'  # a # b\n"
    keys = list(reference.read_keys(text))
    assert [(key.name, key.default, key.comment) for key in keys] == [
        ("rate", "1.0e-4", "per step"),
        ("list", "[1, 2]", ""),
        ("inner.name", "';'", "a # b"),
    ]


@pytest.mark.parametrize(
    ("page", "text", "link"),
    [
        ("index.md", "[a](docs/attentions.md)", "[a](attentions.md)"),
        ("index.md", "![a](docs/quickstart.png)", "![a](quickstart.png)"),
        ("index.md", "[a](CONTRIBUTING.md)", "[a](contributing.md)"),
        ("index.md", "[a](docs/tutorials/python.ipynb)", "[a](tutorials/python.md)"),
        ("contributing.md", "[a](docs/architecture.md)", "[a](architecture.md)"),
        ("results.md", "![](../results/sweep/errors.png)", "![](results/sweep/errors.png)"),
        ("tutorials/your-csv.md", "[a](../../data/README.md)", "[a](../data.md)"),
        ("tutorials/ablation.md", "[a](../results.md#x)", "[a](../results.md#x)"),
        ("decisions/0010-speed.md", "[a](#part), <https://a.b/c.md>, [b](https://a.b)", None),
    ],
)
def test_links_of_the_repository_become_links_between_pages(hooks, page, text, link):
    assert hooks.site_links(text, page) == (link or text)


def test_links_in_the_repository_lead_to_files():
    """What a reader without the site clicks on."""
    root = SCRIPTS.parent
    dead = []
    for file in [root / "README.md", root / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s#]+)", file.read_text(encoding="utf-8")):
            if not (file.parent / target).exists():
                dead.append(f"{file.relative_to(root)}: {target}")
    assert dead == []


@pytest.mark.parametrize(
    ("page", "group", "but"),
    [
        ("reference/models.md", "model", []),
        ("reference/models.md", "loss", []),
        ("attentions.md", "attention", ["inherit"]),
        ("attentions.md", "variant", ["corrected"]),
        ("tutorials/ablation.md", "experiment/ablation", []),
    ],
)
def test_a_page_that_lists_a_group_lists_all_of_it(page, group, but):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in options(group) if name not in but and f"`{name}`" not in text] == []


def test_the_readme_counts_the_models():
    counted = {24: "twenty-four"}[len(options("model"))]
    assert f"; {counted} models |" in (SCRIPTS.parent / "README.md").read_text(encoding="utf-8")


def test_the_list_of_decisions_is_complete():
    listed = re.findall(r"\]\((\d{4}[^)]*)\)", (DOCS / "decisions" / "index.md").read_text(encoding="utf-8"))
    assert listed == sorted(file.name for file in (DOCS / "decisions").glob("0*.md"))


def test_a_notebook_is_a_page_of_its_cells(hooks, tmp_path):
    cells = [("markdown", ["# Title\n", "Text."]), ("code", ["a = 1\n", "a"])]
    notebook = {"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    assert hooks.notebook_text(tmp_path / "a.ipynb") == "# Title\nText.\n\n```python\na = 1\na\n```"


def test_every_command_has_its_help(hooks):
    lines = hooks.command_lines()
    assert [line.split()[2] for line in lines if line.startswith("## ")] == list(hooks.COMMANDS)
    assert any(line.startswith("usage: forecast check-data") for line in "\n".join(lines).splitlines())
