"""Panels with published figures, studies/published/panels.yaml: their trainings, and ours beside what others have."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from forecast.comparison.rows import SeedSpread
from forecast.comparison.tables import markdown, plus_minus
from forecast.config.run_config import composed
from forecast.errors import UserError, closest
from forecast.text.overrides import hydra_value
from studies.published.tables import Job

TABLE = "panels"
NAMES = {"smape": "sMAPE", "mase": "MASE", "wape": "WAPE"}


@cache
def panel_rows() -> dict[str, dict[str, Any]]:
    """What the file says of each row, by its name."""
    return dict(yaml.safe_load((Path(__file__).with_name("panels.yaml")).read_text(encoding="utf-8")))


def panel_jobs(
    folder: Path,
    runs: Path,
    *,
    rows: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    extra: Sequence[str] = (),
) -> Iterator[Job]:
    """The trainings of the rows and models that are named, of all where none is.

    folder: where the files lie. runs: where a file is joined of two. Raises UserError for a row or a model that there
    is not, and for a file that is not there.
    """
    known, names = panel_rows(), {name for row in panel_rows().values() for name in row["models"]}
    for key, asked, there in (("rows", rows, list(known)), ("models", models, sorted(names))):
        for name in asked:
            if name not in there:
                raise UserError(f"--{key} {name}: choose of {', '.join(there)}.{closest(name, there)}")
    for seed in seeds:
        for name, row in known.items():
            if rows and name not in rows:
                continue
            whole = joined([folder / file for file in row["files"]], runs / f"{name}.csv")
            for model, own in row["models"].items():
                if models and model not in models:
                    continue
                path = whole
                if "data.static" in own:
                    beside, left, right = row["facts"]
                    path = with_facts(whole, folder / beside, left, right, runs / f"{name}_facts.parquet")
                values = {**row["every"], **own, "data.path": str(path.absolute()), "seed": seed}
                words = tuple(f"{key}={hydra_value(value)}" for key, value in values.items()) + tuple(extra)
                # the path of a file is no part of an identity, and the same words are for several files
                identity = f"{name}-{composed(words).identity}"
                yield Job(table=TABLE, row=name, model=model, seed=seed, overrides=words, identity=identity)


def joined(files: Sequence[Path], target: Path) -> Path:
    """The file itself, or one made of two: the cells of each line of the first and of the second, a row for each.

    Raises UserError for a file that is not there.
    """
    for file in files:
        if not file.is_file():
            raise UserError(f"{file}: there is no such file. Say where the panels lie: --root FOLDER")
    if len(files) == 1:
        return files[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = pd.concat([pd.read_csv(file, index_col=0) for file in files], axis=1, ignore_index=True)
    lines.stack().dropna().droplevel(1).rename("value").to_csv(target, index_label="unique_id")
    return target


def with_facts(panel: Path, facts: Path, left: str, right: str, target: Path) -> Path:
    """A file of a panel with the columns of another, whose row is the one that has in `right` what is in `left`."""
    table = pd.read_parquet(panel).merge(pd.read_parquet(facts), "left", left_on=left, right_on=right)
    target.parent.mkdir(parents=True, exist_ok=True)
    table.drop(columns=[left, right]).to_parquet(target, index=False)
    return target


def panel_lines(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The table of each row as Markdown: ours, with deviation and number of seeds, then what others have."""
    text = []
    for name, row in panel_rows().items():
        ours = [line for line in lines if (line["table"], line["row"]) == (TABLE, name)]
        names = [NAMES[metric] for metric in row["metrics"]]
        table = [["model", *names, "val MASE", "windows", "training, s", "code"]]
        for model in row["models"]:
            of_model = [line for line in ours if line["contender"] == model]
            if not of_model:
                continue
            spreads = [plus_minus(SeedSpread.over([line["test"][key] for line in of_model])) for key in row["metrics"]]
            val = plus_minus(SeedSpread.over([line["val"]["mase"] for line in of_model if line.get("val")]))
            seconds = sum(line["cost"]["train_seconds"] or 0 for line in of_model) / len(of_model)
            commits = ", ".join(dict.fromkeys(str(line.get("commit")) for line in of_model))
            table.append([model, *spreads, val, f"{of_model[0]['test']['windows']:,}", f"{seconds:.0f}", commits])
        for other, figures in row["known"].items():
            table.append([f"{other}, printed", *(f"{figure:g}" for figure in figures), "-", "-", "-", "-"])
        text += [f"### {row['title']}", "", *markdown(table), ""]
        if missing := [model for model in row["models"] if all(line["contender"] != model for line in ours)]:
            text += [f"Not run yet: {', '.join(missing)}. `forecast reproduce --table panels --rows {name}`", ""]
    return text
