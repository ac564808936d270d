"""docs/results.md is what results/ gives."""

import json

import pytest
from script import SCRIPTS, call_script, load_script
from studies_lines import line

from forecast.errors import UserError
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
    (tmp_path / "published.csv").write_bytes((RESULTS / "published.csv").read_bytes())
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


def test_the_excerpt_has_three_rows_of_results(tmp_path):
    """Of the README: printed, ours with its number of seeds, and the baselines of the same windows."""
    module = load_script("results")
    for name in ("published.csv", "runs.jsonl"):
        (tmp_path / name).write_bytes((RESULTS / name).read_bytes())
    rows = module.excerpt(tmp_path)
    assert rows[1] == (
        "| `experiment=` | `model=` | published | ours | last value | seasonal naive | closed-form NLinear |"
    )
    assert rows[4] == "| `dlinear/etth1_m_96` | `dlinear` | 0.375 | 0.3727 (1) | 1.294 | 0.512 | 0.370 |"
    assert len(rows) == 7
    (tmp_path / "runs.jsonl").write_text(json.dumps(line("etth1_m", "24", "informer2020", mse=0.5)) + "\n")
    with pytest.raises(UserError, match=r"runs\.jsonl has no dlinear of dlinear/etth1_m_96, which README.md shows"):
        module.excerpt(tmp_path)


def test_the_readme_is_short():
    """Its readers want the first forecast; everything else is in docs/."""
    assert len((RESULTS.parent / "README.md").read_text().split()) <= 1200
