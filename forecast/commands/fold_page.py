"""report.html of a backtest: written with its results, or anew from the files of its folder."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from forecast.checkpoint.load import load_checkpoint
from forecast.commands import Answer
from forecast.commands.fold_files import (
    DOCUMENT,
    OF,
    PARTS,
    SCALES,
    TABLE,
    Backtest,
    OfBacktest,
    part_path,
    read_part,
    saved_scales,
)
from forecast.commands.fold_runs import best_of
from forecast.commands.outputs import remake_page
from forecast.commands.page import told_of
from forecast.comparison.backtest_page import backtest_page
from forecast.comparison.backtests import cell_errors
from forecast.comparison.fold_sums import FoldSums
from forecast.documents import DocumentError, read_json
from forecast.errors import UserError
from forecast.run_folder import FILES, sha256


def page_of(
    folder: Path, document: Mapping[str, Any], sums: FoldSums, parts: Sequence[int], record: Mapping[str, Any]
) -> str:
    """The page, from backtest.json, sums over all parts, and the parts in the folder. record: see `told_of`."""
    paths = [part_path(folder, number) for number in parts]
    return backtest_page(document, sums, partial(map, read_part, paths), record)


def remake(folder: Path, *, overwrite: bool) -> Answer:
    """Writes report.html of a backtest whose results stand, and its checksum into backtest.json.

    UserError for one that has not finished, whose files are not those of its results, or whose checkpoint is gone.
    """
    try:
        document: dict[str, Any] = {**(read_json(folder / DOCUMENT, Backtest) or {})}
        of = read_json(folder / OF, OfBacktest)
    except DocumentError as error:
        raise UserError(f"{folder}: {error.name}: {error.reason}. Run the same backtest again.") from error
    if document.get("status") != "finished":
        raise UserError(
            f"{folder} has no results to report: this backtest has not finished. The same forecast backtest command, "
            f"with hydra.run.dir={folder}, goes on with it."
        )
    parts = [0] if document["refit"] == "never" else list(range(document["folds"]))
    needed = [folder / TABLE, folder / PARTS / SCALES, *(part_path(folder, number) for number in parts)]
    if lost := next((path for path in needed if not path.is_file()), None):
        raise UserError(f"{lost} is gone, from which the page is made. The same backtest in another folder makes both.")
    if sha256(folder / TABLE) != document[FILES].get(TABLE):
        raise UserError(f"{folder}: {TABLE} is not the one that {DOCUMENT} was written with. Run the backtest again.")
    first = None if document["refit"] == "never" else 0
    checkpoint = Path(of["ckpt_path"]) if of and of["ckpt_path"] else best_of(folder, first)
    if not checkpoint.is_file():
        raise UserError(
            f"{folder}: its checkpoint, {checkpoint}, is not there. The same backtest in another folder trains it."
        )
    record, scales = told_of(load_checkpoint(checkpoint)), saved_scales(folder)

    def make() -> str:
        sums = FoldSums(scales, pred_len=document["pred_len"])
        for part in map(read_part, needed[2:]):
            sums.add(part, cell_errors(part, scales))
        return page_of(folder, document, sums, parts, record)

    return remake_page(folder, DOCUMENT, document, make, of="backtest", overwrite=overwrite)
