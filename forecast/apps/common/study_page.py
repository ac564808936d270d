"""report.html of a study, made anew from its trials.json. Without Optuna, which only trials need."""

from pathlib import Path

from forecast.apps.common.command import Answer
from forecast.apps.common.outputs import remake_page
from forecast.documents import check_document, read_document
from forecast.errors import UserError
from forecast.run_folder.shapes import StudyDocument, StudyFigures

# In the folder of a study: what it is of, and its trials.
OF, TRIALS = "study.json", "trials.json"


def is_study(folder: Path) -> bool:
    """Whether a folder is that of a study, finished or not."""
    return (folder / OF).is_file() or (folder / TRIALS).is_file()


def remake(folder: Path, *, overwrite: bool) -> Answer:
    """Writes report.html of a study, and its checksum into trials.json. UserError for one that has not ended."""
    from forecast.comparison.study_page import study_page

    again = f"The same forecast tune command, with hydra.run.dir={folder}, goes on with it and writes the page."
    document = read_document(folder / TRIALS, StudyDocument)
    if document is None:
        raise UserError(f"{folder} has no {TRIALS}: its study runs, or was killed. {again}")
    check_document(folder / TRIALS, document, StudyFigures)
    return remake_page(folder, TRIALS, document, lambda: study_page(document), of="study", overwrite=overwrite)
