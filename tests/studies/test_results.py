"""docs/results.md is what results/ gives."""

import json
import re

from script import SCRIPTS, call_script, load_script
from studies_lines import line

from studies.published.document import CODE
from studies.published.outcome import RULE

RESULTS = SCRIPTS.parent / "results"


def test_the_document_is_up_to_date(capsys):
    assert call_script(capsys, "results", "--check")[0] == 0


def test_every_result_has_its_versions_data_and_cost():
    lines = (RESULTS / "runs.jsonl").read_text().splitlines()
    assert lines
    for text in lines:
        result = json.loads(text)
        assert result["versions"].keys() >= {"forecast", "torch", "lightning", "python"}
        assert result["data_read"]["checksum"] and result["status"] == "finished"
        assert result["cost"]["device"] and result["cost"]["train_seconds"] > 0


def test_tables_and_comparisons_become_one_text(tmp_path):
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("script_results", SCRIPTS / "results.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("published.csv", "wins.yaml"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    (tmp_path / "runs.jsonl").write_text(json.dumps(line("etth1_m", "24", "informer2020", mse=0.5)) + "\n")
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "report.md").write_text("# sweep\n\n## ETTh1\n\n![](errors.png)\n")
    (tmp_path / "sweep" / "runs.jsonl").write_text('{"commit": "1a2b3c4"}\n{}\n')
    (tmp_path / "sweep" / "note.md").write_text("Before the fast step.\n")
    text = module.document(tmp_path)
    assert RULE in text and CODE in text
    assert "1 training, 0.0 hours on cpu, torch 2.13.0." in text
    errors = "0.577 | 0.5000 (1) | -13.3 % | 0.549 | 0.6000 (1) | +9.3 %"
    assert f"| 24 | 48 | 2,857 | informer2020 | {errors} | one seed, outside | not recorded |" in text
    made_by = "Code: 1a2b3c4, not recorded. Before the fast step."
    assert text.endswith(f"## sweep\n\n{made_by}\n\n### ETTh1\n\n![](../results/sweep/errors.png)\n")


def test_ours_is_bold_where_it_errs_less_than_the_best_of_others_and_what_is_behind_everywhere_is_named():
    module = load_script("results")
    run = {"command": "forecast train experiment=epf_plus data.target=OT", "figure": "0.685", "commit": "1a2b3c4"}
    ahead = {"data": "NP", "error": "MASE", "best": ["0.783", "TFT"], "recipe": run, "auto": run | {"figure": "0.993"}}
    behind = {"data": "DE", "error": "MASE", "best": ["0.685", "TFT"], "recipe": run}
    assert module.where_it_wins([ahead, behind])[2:] == [
        "| NP, MASE | `experiment=epf_plus` **0.685** (1a2b3c4) | 0.993 (1a2b3c4) | 0.783, TFT |",
        "| DE, MASE | `experiment=epf_plus` 0.685 (1a2b3c4) | - | 0.685, TFT |",
        "",
        "Behind in every run: DE.",
    ]
    first = module.where_it_wins([ahead, behind], 1)
    assert not [line for line in first if line.startswith("| DE")] and "Behind in every run: DE." in first


def test_each_figure_of_where_it_wins_stands_where_its_run_is_recorded():
    """Ours in a section with its commit, the best of others in that of theirs."""
    module, docs = load_script("results"), SCRIPTS.parent / "docs"
    sections = (docs / "experiments.md").read_text().split("\n## ")
    panels = (docs / "results.md").read_text().partition("\n## Panels\n")[2].partition("\n## ")[0]
    (others,) = [section for section in sections if section.startswith("What others reach")]
    rows = module.read_wins(RESULTS)
    assert {"EPF DE", "EPF BE", "EPF FR"} <= {row["data"] for row in rows}, "they chose nothing"
    for row in rows:
        assert "best" not in row or stands(row["best"][0], others), row
        for run in (row["recipe"], row["auto"]):
            where = [text for text in [*sections, panels] if run.get("commit", "") in text]
            assert any(stands(run["figure"], text) for text in where), run


def stands(figure, text):
    return re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", text)


def test_the_readme_is_short():
    """Its readers want the first forecast; everything else is in docs/."""
    lines = (RESULTS.parent / "README.md").read_text().splitlines()
    assert sum(len(line.split()) for line in lines) <= 900
    assert max(len(line) for line in lines if not line.startswith("|")) <= 120
