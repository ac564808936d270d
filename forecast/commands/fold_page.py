"""report.html of a backtest: written with its results, or anew from the files of its folder."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from forecast.checkpoint.load import load_checkpoint
from forecast.commands import Answer
from forecast.commands.fold_files import (
    DOCUMENT,
    OF,
    PARTS,
    SCALES,
    TABLE,
    OfBacktest,
    part_path,
    read_part,
    saved_scales,
)
from forecast.commands.fold_runs import best_of
from forecast.commands.outputs import keep_others
from forecast.commands.page import origin_of
from forecast.comparison.backtest_page import backtest_page
from forecast.comparison.backtests import cell_errors
from forecast.comparison.fold_sums import FoldSums
from forecast.documents import DocumentError, fitting, read_json
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.run_folder import FILES, PAGE, sha256
from forecast.run_folder.shapes import Backtest, Origin
from forecast.text.terminal import say


def page_of(folder: Path, document: Backtest, sums: FoldSums, parts: Sequence[int], origin: Origin) -> str:
    """The page, from backtest.json, sums over all parts, and the parts in the folder. origin: see `origin_of`."""
    paths = [part_path(folder, number) for number in parts]
    return backtest_page(document, sums, partial(map, read_part, paths), origin)


def remake(folder: Path, *, overwrite: bool) -> Answer:
    """Writes report.html of a backtest whose results stand, and its checksum into backtest.json.

    UserError for one that has not finished, whose files are not those of its results, or whose checkpoint is gone.
    """
    try:
        found = read_json(folder / DOCUMENT, Backtest)
        of = read_json(folder / OF, OfBacktest)
    except DocumentError as error:
        raise UserError(f"{folder}: {error.name}: {error.reason}. Run the same backtest again.") from error
    if found is None or found["status"] != "finished":
        raise UserError(
            f"{folder} has no results to report: this backtest has not finished. The same forecast backtest command, "
            f"with hydra.run.dir={folder}, goes on with it."
        )
    parts = [0] if found["refit"] == "never" else list(range(found["folds"]))
    needed = [folder / TABLE, folder / PARTS / SCALES, *(part_path(folder, number) for number in parts)]
    if lost := next((path for path in needed if not path.is_file()), None):
        raise UserError(f"{lost} is gone, from which the page is made. The same backtest in another folder makes both.")
    if sha256(folder / TABLE) != found[FILES].get(TABLE):
        raise UserError(f"{folder}: {TABLE} is not the one that {DOCUMENT} was written with. Run the backtest again.")
    first = None if found["refit"] == "never" else 0
    checkpoint = Path(of["ckpt_path"]) if of and of["ckpt_path"] else best_of(folder, first)
    if not checkpoint.is_file():
        raise UserError(
            f"{folder}: its checkpoint, {checkpoint}, is not there. The same backtest in another folder trains it."
        )
    origin, scales = origin_of(load_checkpoint(checkpoint)), saved_scales(folder)
    ours = overwrite or PAGE in found[FILES]
    fix = "move it away, or say --overwrite"
    keep_others([folder / PAGE], ours=ours, key=str(folder), like="a page of this backtest", fix=fix)
    sums = FoldSums(scales, pred_len=found["pred_len"])
    with fitting(folder):
        for part in map(read_part, needed[2:]):
            sums.add(part, cell_errors(part, scales))
        page = page_of(folder, found, sums, parts, origin)
    with together(folder) as beside:
        beside(PAGE).write_text(page, encoding="utf-8")
        found[FILES] = {**found[FILES], PAGE: sha256(beside(PAGE))}
        beside(DOCUMENT).write_text(json_text(found), encoding="utf-8")
    say(f"{folder / PAGE}: {len(page.encode()) / 1e6:.2f} MB")
    return Answer({"folder": str(folder), "files": [PAGE]})
