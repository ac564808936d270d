"""What is advised to type installs no stranger's package."""

import re
from importlib.metadata import PathDistribution, version
from pathlib import Path

import pytest

import forecast
from forecast.text import overrides
from forecast.text.overrides import DISTRIBUTION, install

ROOT = Path(__file__).parents[2]


def test_the_distribution_has_a_name_of_its_own():
    assert re.search(r'^name = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1] == DISTRIBUTION != "forecast"
    assert forecast.__version__ == version("informer-forecast")


def test_in_a_checkout_an_extra_is_installed_from_it_wherever_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert install("ray") == 'pip install -e ".[ray]"'
    monkeypatch.chdir(tmp_path)
    assert install("ray") == f'pip install -e "{ROOT}[ray]"'


def test_elsewhere_the_packages_of_the_extra_are_named(tmp_path, monkeypatch):
    (tmp_path / "METADATA").write_text("Requires-Dist: torch>=2\nRequires-Dist: ray<3,>=2.60; extra == 'ray'\n")
    monkeypatch.setattr(overrides, "_BESIDE", tmp_path)
    monkeypatch.setattr(overrides, "distribution", lambda name: PathDistribution(tmp_path))
    assert install("ray") == 'pip install "ray<3,>=2.60"'


# The package by its name, which on PyPI is a stranger's, with an extra or without; what `install` alone says.
NAME, PIP = r"[ '\"`](informer[-_.])?forecast", r"pip3? install\b[^\n`&|;#]*?"
BY_NAME = re.compile(rf"{PIP}{NAME}(?![\w./-])|(?! ){NAME}\[")
OF_AN_EXTRA = re.compile(rf"{PIP}\.\[")
PLACES = ("forecast", "hydra_plugins", "studies", "scripts", "benchmarks", "docs", "conf", "results", "data", ".ci")
INSTALLS = {
    "pip install 'forecast[ray]'": True,
    "pip install -U forecast": True,
    'pip3 install "informer_forecast>=0.1" torch': True,
    "the extra `forecast[ray]`": True,
    'pip install -e ".[dev]" && forecast train': False,
    "pip install -e .\nforecast train": False,
    "pip install x/informer_forecast-0.1-py3-none-any.whl": False,
    "a row of forecast[0]": False,
}


def documents():
    """The path and text of each file of the program and its documents; texts that Python joins over lines are one."""
    files = [file for place in PLACES for file in (ROOT / place).rglob("*")]
    for file in [*files, *(file for file in ROOT.iterdir() if file.name != "CHANGELOG.md")]:
        if file.suffix in (".py", ".md", ".yaml", ".yml", ".toml", ".ipynb", ".sh", "") and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            yield file.relative_to(ROOT).as_posix(), re.sub(r'"\n\s*f?"', "", text) if file.suffix == ".py" else text


@pytest.mark.parametrize("text", INSTALLS)
def test_what_installs_the_package_by_its_name_is_told(text):
    assert bool(BY_NAME.search(text)) is INSTALLS[text]


def test_no_text_says_to_install_the_package_by_its_name():
    assert [(name, found[0]) for name, text in documents() for found in BY_NAME.finditer(text)] == []


def test_the_program_has_one_place_that_says_how_an_extra_is_installed():
    assert [name for name, text in documents() if name.endswith(".py") and OF_AN_EXTRA.search(text)] == []
