"""The reading options on the command line: lists, mappings, null, and names that are numbers."""

from dataclasses import fields

import pytest
from config.composed import composed, refusal
from omegaconf import OmegaConf

from forecast.config.build import as_annotated, build
from forecast.config.check import check_config
from forecast.config.compose import CONF
from forecast.data.reading.layout import Layout
from forecast.training.loggers import flatten


@pytest.fixture(scope="module")
def my_csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "my.csv"
    path.write_text("date,a\n")
    return f"data=csv data.path={path}"


def source_of(*overrides):
    cfg = composed(*overrides)
    check_config(cfg)
    return build(cfg.data)


def test_the_data_group_has_every_key_of_a_layout_with_its_default():
    keys = OmegaConf.to_container(OmegaConf.load(CONF / "data/csv.yaml"))
    defaults = {f.name: f.default for f in fields(Layout)}
    written = {name: keys[name] for name in defaults}
    assert {n: tuple(v) if isinstance(v, list) else v for n, v in written.items()} == defaults


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("data.where={region: Albany}", {"region": "Albany"}),
        ("data.where={region: Albany, 2016: 3, type: '3'}", {"region": "Albany", "2016": 3, "type": "3"}),
        ("data.missing=[M,-200]", ["M", -200]),
        ("data.columns=[a,b]", ["a", "b"]),
        ("data.columns=[4046,1.5]", ["4046", "1.5"]),
        ("data.drop=[4046]", ["4046"]),
        ("data.target=4046", "4046"),
        ("data.time_column=2016", "2016"),
        ("data.time_column=[year,month]", ["year", "month"]),
        ("data.time_column=null", None),
        ("data.start=2016", "2016"),
    ],
)
def test_a_reading_option_arrives_as_it_was_typed(my_csv, override, value):
    assert getattr(source_of(*my_csv.split(), override), override.partition("=")[0].removeprefix("data.")) == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.target=true", "must be a valid string or a list"),
        ("data.columns=[true]", "data.columns[0]=true: must be a valid string"),
        ("data.columns=a", "must be a list"),
        ("data.drop=a", "must be a list"),
        ("data.missing=M", "must be a list"),
        ("data.where=x", "must be a mapping"),
        ("data.where={a:[1]}", "must be a valid string"),
        ("data.where={a:null}", "must be a valid string"),
        ("data.duplicates=men", "must be 'error', 'first', 'last', 'mean' or 'sum'. Did you mean 'mean'?"),
        ("data.aggregate=max", "must be 'mean', 'sum' or 'last'"),
        ("data.time_colum=when", "Could not override 'data.time_colum'"),
    ],
)
def test_what_cannot_be_an_option_is_refused(my_csv, override, message):
    if "Could not" in message:
        with pytest.raises(Exception, match=message):
            composed(*my_csv.split(), override)
    else:
        assert message in refusal(f"{my_csv} {override}")


def test_a_number_is_only_text_where_text_may_be_digits():
    assert refusal("model.activation=3").startswith("model.activation=3: must be 'gelu'")
    assert as_annotated(3, str) == 3


def test_how_a_file_is_written_is_no_hyper_parameter(my_csv):
    data = OmegaConf.to_container(composed(*my_csv.split(), "data.where={region: Albany}").data, resolve=True)
    assert {"gaps", "target", "features"} <= set(flatten(data))
    assert not set(flatten(data)) & {"where", "where.region", "path", "time_format", "separator", "missing"}
