"""report.html of a study, made anew from its trials.json. Without Optuna, which only trials need."""

from pathlib import Path

from forecast.commands import Answer
from forecast.commands.outputs import keep_others
from forecast.documents import DocumentError, fitting, read_json
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.run_folder import FILES, PAGE, sha256
from forecast.run_folder.shapes import StudyDocument
from forecast.text.terminal import say

# In the folder of a study: what it is of, and its trials.
OF, TRIALS = "study.json", "trials.json"


def is_study(folder: Path) -> bool:
    """Whether a folder is that of a study, finished or not."""
    return (folder / OF).is_file() or (folder / TRIALS).is_file()


def remake(folder: Path, *, overwrite: bool) -> Answer:
    """Writes report.html of a study, and its checksum into trials.json. UserError for one that has not ended."""
    from forecast.comparison.study_page import study_page

    again = f"The same forecast tune command, with hydra.run.dir={folder}, goes on with it and writes the page."
    try:
        document = read_json(folder / TRIALS, StudyDocument)
    except DocumentError as error:
        raise UserError(f"{folder / TRIALS} is not of a study: {error.reason}. {again}") from error
    if document is None:
        raise UserError(f"{folder} has no {TRIALS}: its study runs, or was killed. {again}")
    ours = overwrite or PAGE in document.get("files", {})
    fix = "move it away, or say --overwrite"
    keep_others([folder / PAGE], ours=ours, key=str(folder), like="a page of this study", fix=fix)
    try:
        with fitting(folder / TRIALS):
            page = study_page(document)
    except DocumentError as error:
        raise UserError(f"{folder / TRIALS} is damaged: {error.reason}. {again}") from error
    with together(folder) as beside:
        beside(PAGE).write_text(page, encoding="utf-8")
        document[FILES] = {PAGE: sha256(beside(PAGE))}
        beside(TRIALS).write_text(json_text(document), encoding="utf-8")
    say(f"{folder / PAGE}: {len(page.encode()) / 1e6:.2f} MB")
    return Answer({"folder": str(folder), "files": [PAGE]})
