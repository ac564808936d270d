"""report.html of a backtest: written with its results, or anew from the files of its folder."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from forecast.apps.common.backtest_files import (
    DOCUMENT,
    OF,
    PARTS,
    SCALES,
    TABLE,
    MarkOfBacktest,
    best_of,
    part_path,
    read_part,
    saved_scales,
)
from forecast.apps.common.command import Answer
from forecast.apps.common.outputs import remake_page
from forecast.apps.common.page import origin_of
from forecast.checkpoint.load import load_checkpoint
from forecast.comparison.backtest_page import backtest_page
from forecast.comparison.backtests import FoldSums, cell_errors
from forecast.documents import check_document, read_document
from forecast.errors import UserError
from forecast.run_folder import FILES, sha256
from forecast.run_folder.shapes import Backtest, BacktestFigures, Origin


def page_of(folder: Path, document: Backtest, sums: FoldSums, parts: Sequence[int], origin: Origin) -> str:
    """The page, from backtest.json, sums over all parts, and the parts in the folder. origin: of its model."""
    paths = [part_path(folder, number) for number in parts]
    return backtest_page(document, sums, partial(map, read_part, paths), origin)


def remake(folder: Path, *, overwrite: bool) -> Answer:
    """Writes report.html of a backtest whose results stand, and its checksum into backtest.json.

    UserError for one that has not finished, whose files are not those of its results, or whose checkpoint is gone.
    """
    document, of = read_document(folder / DOCUMENT, Backtest), read_document(folder / OF, MarkOfBacktest)
    if document is None or check_document(folder / DOCUMENT, document, BacktestFigures).status != "finished":
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
    checkpoint = Path(of.ckpt_path) if of and of.ckpt_path else best_of(folder, first)
    if not checkpoint.is_file():
        raise UserError(
            f"{folder}: its checkpoint, {checkpoint}, is not there. The same backtest in another folder trains it."
        )
    origin, scales = origin_of(load_checkpoint(checkpoint)), saved_scales(folder)

    def make() -> str:
        sums = FoldSums(scales, pred_len=document["pred_len"])
        for part in map(read_part, needed[2:]):
            sums.add(part, cell_errors(part, scales))
        return page_of(folder, document, sums, parts, origin)

    return remake_page(folder, DOCUMENT, document, make, of="backtest", overwrite=overwrite)
