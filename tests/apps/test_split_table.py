"""forecast split-table: a panel as Parquet files of whole series, which are forecast as the panel is."""

import numpy as np
import pandas as pd
import pytest
from apps.test_predict_panel import WINDOW, long_table
from checkpoints import write_untrained
from permissions import read_only
from program import call, refusal

LENGTHS = [40, 45, 10, 50] * 50  # every fourth is too short
KEYS = ["data.id_column=shop", "data.time_column=day", "data.target=[sold]"]


def predicted(checkpoint, path, output, *words):
    call("predict", f"ckpt_path={checkpoint}", f"data.path='{path}'", f"output={output}", "device=cpu", *words)
    return output.read_bytes()


def german(folder):
    """Text as a German spreadsheet writes it, with a gap, words, facts and rows of others."""
    table = long_table(LENGTHS).drop(columns="price")
    number = table["shop"].str[1:].astype(int)
    table["weather"] = np.where(table["day"].dt.day % 3, "rain", "sun")
    table["region"] = np.where(number % 2, "north", "south")
    table = table[(number != 4) | (table["day"].dt.day != 20)].assign(land="DE")
    table = pd.concat([table, table[:60].assign(land="AT", sold=0.5)])
    table["day"] = table["day"].dt.strftime("%d.%m.%Y")
    table.to_csv(folder / "p.csv", sep=";", decimal=",", index=False)
    roles = ["data.past=[weather]", "data.static=[region]", "data.where={land: DE}", "data.gaps=forward_fill"]
    return [*roles, "data.separator=';'", "data.decimal=','", "data.time_format='%d.%m.%Y'", "model=dlinear"]


def numbered(folder):
    """A Parquet file whose ids and times are whole numbers."""
    table = long_table(LENGTHS, name="{}").astype({"shop": "int32"})
    table["day"] = (table["day"] - table["day"].min()).dt.days + 7
    table.to_parquet(folder / "p.parquet")
    return ["model=nlinear"]


@pytest.mark.parametrize(("made", "name"), [(german, "p.csv"), (numbered, "p.parquet")])
def test_the_files_are_forecast_to_the_bytes_of_the_panel(tmp_path, capsys, made, name):
    write_untrained(tmp_path / "c.ckpt", *WINDOW, *KEYS, f"data.path={tmp_path}/{name}", *made(tmp_path))
    call("split-table", tmp_path / "c.ckpt", "--output", tmp_path / "files", "--files", "2")
    names = [f"{tmp_path}/files/00000{number}.parquet" for number in range(2)]
    assert sorted(map(str, (tmp_path / "files").iterdir())) == names
    said = capsys.readouterr().out
    words = f"forecast predict engine=ray ckpt_path={tmp_path}/c.ckpt data.path={tmp_path}/files"
    assert f"200 series are in 2 files in {tmp_path}/files: {words}" in said
    own = said.partition(words)[2].split()  # of the format of its times
    whole = predicted(tmp_path / "c.ckpt", tmp_path / name, tmp_path / "whole.parquet")
    assert predicted(tmp_path / "c.ckpt", f"{tmp_path}/files/*", tmp_path / "f.parquet", *own) == whole
    assert not set(pd.read_parquet(names[0])["shop"]) & set(pd.read_parquet(names[1])["shop"])
    kept = pd.read_parquet(names[0])["shop"].unique()
    assert len(kept) == 85  # 64 that are long enough, of a batch


def test_what_is_no_long_table_or_has_no_place_is_refused_in_one_sentence(tmp_path, capsys, best):
    table = long_table(LENGTHS[:4])
    table.to_csv(tmp_path / "p.csv", index=False)
    checkpoint = write_untrained(tmp_path / "c.ckpt", *WINDOW, *KEYS, f"data.path={tmp_path}/p.csv", "model=nlinear")
    (tmp_path / "mine").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    for given, message in (
        ((best, "--output", tmp_path / "files"), "the model reads one with no column of ids. Share the series out"),
        ((checkpoint, "--output", tmp_path / "full"), "full: the folder is not empty. Choose a new one"),
        ((checkpoint, "data.colour=red", "--output", tmp_path / "files"), "this command does not take it"),
    ):
        assert message in refusal(capsys, "split-table", *given)
    with read_only(tmp_path / "mine"):
        text = refusal(capsys, "split-table", checkpoint, "--output", tmp_path / "mine")
    assert "000000.parquet cannot be written: Permission denied" in text and not [*(tmp_path / "mine").iterdir()]
