"""docs/works_for.md: each cell that says yes is run once, each that says no is refused."""

import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from program import call

SHEET = Path(__file__).parents[1] / "docs" / "works_for.md"
ROW = re.compile(r"^\| `forecast ([\w-]+)` \| (?:`(.+?)`)? ?\| (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = ROW.findall(SHEET.read_text())
LAYOUTS = {"one": [], "many": ["data.id_column=shop"]}
BRIEF = ["seq_len=7", "label_len=3", "pred_len=3", "trainer.accelerator=cpu", "trainer.max_epochs=1", "logger=none"]
BRIEF += ["callbacks.figures=null", "trainer.enable_progress_bar=false", "checks.leakage=false"]
SLOW = ("tune", "auto", "every_fold")  # trains for long, or starts processes
TRAINS, OWN_OUTPUT = ("train", "tune"), ("evaluate", "backtest", "update")
RUNS = {"run": "", "knowing": "data.target=sold data.known=[price]"}  # trained for all cells
ALONE = ("data.cache", "data.resample")  # a cache is of plain rows; weeks are few


def write(folder, kind, name, first, stop):
    """Rows `first` to `stop` of three shops, or of the first of them without its name."""
    draws = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=130)
    weekly = 10 + 3 * np.sin(2 * np.pi * np.arange(130) / 7)
    tables = []
    for i in (1, 2, 3):
        sold, price = ((level + draws.normal(size=130)).round(3) for level in (weekly * i, weekly))
        tables.append(pd.DataFrame({"shop": f"s{i}", "date": days, "sold": sold, "price": price}))
    whole = pd.concat([table[first:stop] for table in tables[: 1 if kind == "one" else 3]])
    whole.drop(columns="shop" if kind == "one" else []).to_csv(folder / name, index=False)


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """Of each layout a folder with FILE, GROWN, FUTURE and two checkpoints."""
    folders = {}
    for kind, keys in LAYOUTS.items():
        home = folders[kind] = tmp_path_factory.mktemp(kind)
        for name, rows in {"FILE": (0, 117), "GROWN": (0, 127), "FUTURE": (117, 120)}.items():
            write(home, kind, f"{name}.csv", *rows)
        for run, words in RUNS.items():
            call("train", *trained(home, keys), *words.split(), f"hydra.run.dir={home}/{run}")
    return folders


def trained(home, keys):
    return ["model=ridge", "data=csv", f"data.path={home}/FILE.csv", "data.target=null", *keys, *BRIEF]


def arguments(command, words, kind, home, folder):
    """The words of a cell as a user types them, with those that the command cannot do without."""
    run = "knowing" if "future=" in words else "run"
    checkpoint, own = f"{home}/{run}/checkpoints/best.ckpt", words.split()
    if command in TRAINS or "every_fold" in words:
        usual = [word for word in trained(home, LAYOUTS[kind]) if not keys_of(word) & keys_of(words)]
        own = [*usual, *own, f"hydra.run.dir={folder}/RUN"]
    elif command in OWN_OUTPUT:
        own = [f"ckpt_path={checkpoint}", f"hydra.run.dir={folder}/RUN", *own]
    elif command == "predict":
        usual = [] if "output=" in words else [f"output={folder}/OUT.csv"]
        own = [f"ckpt_path={checkpoint}", *usual, *own]
    elif command == "auto" and kind == "many":
        own = [*own, *LAYOUTS[kind]]
    places = {name: f"{home}/{name}.csv" for name in ("FILE", "GROWN", "FUTURE")}
    places |= {"CKPT": checkpoint}
    places |= {"RUN": f"{home}/run", "OUT": f"{folder}/OUT", "CACHE": f"{folder}/CACHE"}
    return [re.sub(rf"(?<![\w/])({'|'.join(places)})(?![\w])", lambda found: places[found[1]], word) for word in own]


def keys_of(words):
    return {word.partition("=")[0] for word in words.split()}


def joined(rows):
    """The words of several rows for one training, of keys that differ; a training a row would take a minute."""
    together = []
    for words in rows:
        alone = words.startswith(ALONE)
        others = [] if alone else [one for one in together if not one.startswith(ALONE)]
        found = next((one for one in others if not keys_of(one) & keys_of(words)), None)
        if found is None:
            together.append(words)
        else:
            together[together.index(found)] = f"{found} {words}"
    return together


def cells():
    for kind, column in (("one", 2), ("many", 3)):
        trained = [row[1] for row in ROWS if row[0] == "train" and row[column].startswith("yes")]
        yield from (
            pytest.param("train", words, kind, "yes", id=f"{kind} train {words}")
            for words in joined(words for words in trained if words not in RUNS.values())
        )
        for command, words, *both in ROWS:
            if command == "train" and words in trained:
                continue
            slow = any(word in f"{command} {words}" for word in SLOW)
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(command, words, kind, both[column - 2], id=f"{kind} {command} {words}", marks=marks)


@pytest.mark.parametrize(("command", "words", "kind", "cell"), list(cells()))
def test_a_cell_says_what_happens(homes, tmp_path, monkeypatch, command, words, kind, cell):  # noqa: PLR0917
    if "holidays" in words:
        pytest.importorskip("holidays", reason='needs holidays: pip install -e ".[holidays]"')
    monkeypatch.chdir(tmp_path)
    outcome = nullcontext() if cell.startswith("yes") else pytest.raises(SystemExit)
    with outcome:
        call(command, *arguments(command, words, kind, homes[kind], tmp_path))
    assert cell.startswith(("yes", "no: "))


def test_the_sheet_has_the_commands_that_take_data():
    assert {command for command, *_ in ROWS} >= {"train", "evaluate", "predict", "backtest", "tune", "auto", "update"}
    assert len(ROWS) == SHEET.read_text().count("| `forecast ")
