"""forecast report on folders of all kinds: what it writes, what it makes bold, and what it says of failed runs."""

import csv
import errno
import hashlib
import json
import os

import numpy as np
import pytest
from comparison.folders import edit_json, make_run, make_runs, wave
from script import call_script


@pytest.fixture
def sweep(tmp_path):
    """prob errs as full does, give or take noise; lsh errs 0.02 more, surely."""
    noise = wave(0.0, seed=5)
    extra = {"full": 0.0, "prob": noise - noise.mean(), "lsh": 0.02}
    for seed in (1, 2, 3):
        make_runs(tmp_path, {name: wave(0.5 + 1e-4 * seed) + more for name, more in extra.items()}, seed=seed)
    return tmp_path


@pytest.fixture
def report(capsys):
    """The script: what it prints when it ends with that status, on stderr where it fails."""

    def run(*arguments, status=0):
        actual, output, error = call_script(capsys, "report", *arguments)
        assert actual == status
        return error if status else output

    return run


def cells(text, row):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {row} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_sweep_becomes_a_table_a_csv_and_a_page(report, sweep):
    output = report(sweep)
    assert (sweep / "report.md").read_text().startswith(output[: output.index("In ")].rstrip())
    names = ["report.md", "report.csv", "report.html", "runs.jsonl"]
    assert output.splitlines()[-1] == f"In {sweep}: {', '.join(names)}"
    assert all((sweep / name).stat().st_size for name in names)
    assert f"# {sweep.name}\n\n9 runs: 9 finished.\n\n## ETTh1, features M, 3 steps ahead" in output
    mse = wave(0.5002).mean()
    full = cells(output, "full")
    assert full[:2] == ["full", f"{mse:.4f} ± 0.0001 (3)"]
    assert full[3:] == ["1.5000 ± 0.0000 (3)", "the row compared with", "0.250", "10", "5", "100", "1,234,567"]
    assert cells(output, "*seasonal naive*")[1:5] == ["0.7000", "0.6000", "1.1000", ""]
    assert cells(output, "*ridge*")[1:4] == ["0.3500", "0.2500", ""]  # a baseline that no table names


def test_overrides_that_all_runs_share_are_listed(report, tmp_path):
    make_runs(tmp_path, {"full": wave(0.5), "lsh": wave(0.5)}, model__d_model=64)
    assert "\n\nAll runs: `model.d_model=64 seed=1`.\n\n" in report(tmp_path)


def test_only_a_difference_whose_interval_leaves_zero_out_is_bold(report, sweep):
    output = report(sweep)
    assert cells(output, "lsh")[4].startswith("**+0.0200 [+0.01")
    prob = cells(output, "prob")[4]
    assert "*" not in prob and prob.split("[")[1].startswith("-")
    assert output.count("**") == 2


def test_the_csv_has_the_same_figures(report, sweep):
    report(sweep)
    with (sweep / "report.csv").open() as lines:
        full, _, lsh = list(csv.DictReader(lines))
    assert (full["row"], full["seeds"], full["compared_with"]) == ("full", "3", "")
    assert float(full["mse_scaled_mean"]) == pytest.approx(wave(0.5002).mean())
    assert (float(full["mase_mean"]), full["smape_mean"], full["mse_original_mean"]) == (1.5, "", "")
    assert (lsh["compared_with"], lsh["blocks"]) == ("full", "21")
    assert float(lsh["mse_difference"]) == pytest.approx(0.02)
    assert float(lsh["low"]) < 0.02 < float(lsh["high"])


def test_the_row_to_compare_with_can_be_chosen(report, sweep, tmp_path):
    output = report(sweep, "--against", "lsh", "--to", tmp_path / "new" / "place")
    assert cells(output, "full")[4].startswith("**-0.0200")
    assert (tmp_path / "new" / "place" / "report.md").is_file() and not (sweep / "report.md").exists()
    message = "--against=fulll: that is no row. Rows with results: full, prob, lsh\n"
    assert report(sweep, "--against", "fulll", status=1) == message


def test_one_run(report, tmp_path):
    make_run(tmp_path / "only", errors=wave(0.5), attention="full")
    output = report(tmp_path)
    assert "1 run: 1 finished." in output
    assert "One row: there is nothing to compare it with." in output
    assert "**" not in output


def test_failed_nan_killed_and_foreign_runs_are_named_with_their_reason(report, sweep):
    (sweep / "prob2" / "run.json").write_text(
        '{"status": "failed", "error": "the loss is not finite at step 7\\nmore"}'
    )
    metrics = sweep / "lsh1" / "metrics.json"
    metrics.write_text(metrics.read_text().replace('"mse": 0.5', '"mse": null, "was": 0.5', 1))
    (sweep / "full3" / "run.json").write_text('{"status": "running"}')
    (sweep / "notes").mkdir()
    output = report(sweep)
    assert "9 runs: 6 finished, 2 failed, 1 unfinished." in output
    listed = output[output.index("## Not finished") :].splitlines()[2:6]
    assert listed == [
        "- full3 (attention=full seed=3): unfinished: it is running, or was killed",
        "- prob2 (attention=prob seed=2): failed: the loss is not finite at step 7",
        "- lsh1 (attention=lsh seed=1): failed: its test error is not a finite number",
        "- notes: foreign: there is no .hydra/overrides.yaml: no run of forecast train",
    ]


def test_nothing_but_failures(report, tmp_path):
    folder = make_run(tmp_path / "run", errors=wave(0.5), attention="full")
    (folder / "run.json").write_text('{"status": "failed", "error": "no room"}')
    output = report(tmp_path)
    assert "1 run: 1 failed." in output and "- run (attention=full seed=1): failed: no room" in output


def test_different_versions_are_named(report, sweep):
    edit_json(sweep / "prob2" / "run.json", lambda info: info["versions"].update(torch="2.12.0"))
    assert "made with different versions: torch 2.12.0, 2.13.0." in report(sweep)


def test_it_says_which_rows_are_of_which_code(report, sweep):
    finished = [path.parent for path in sweep.glob("*/metrics.json")]
    for run in finished:
        edit_json(run / "run.json", lambda info: info["versions"].update(commit="aaaaaaa"))
    assert "different code" not in report(sweep)
    edit_json(sweep / "prob2" / "run.json", lambda info: info["versions"].update(commit="bbbbbbb"))
    edit_json(sweep / "lsh1" / "run.json", lambda info: {**info, "versions": {}})
    output = report(sweep)
    (line,) = [line for line in output.splitlines() if line.startswith("Made by different code")]
    assert line.startswith("Made by different code, so that a difference may be the code's. aaaaaaa: full seed 1")
    assert "; bbbbbbb: prob seed 2" in line and "; unknown code: lsh seed 1" in line
    with (sweep / "report.csv").open() as file:
        codes = {row["row"]: row["code"] for row in csv.DictReader(file)}
    assert codes["full"] == "aaaaaaa" and codes["prob"] == "aaaaaaa bbbbbbb"


def test_baselines_stand_there_for_each_look_back(report, tmp_path):
    for number, (seq_len, error) in enumerate({7: 0.4, 13: 0.3}.items()):
        options = {"seq_len": seq_len, "model__seq_len": seq_len}
        folder = make_run(tmp_path / str(seq_len), errors=wave(0.5), number=number, **options)
        nlinear = {"scaled": {"mse": error, "mae": error}}
        edit_json(folder / "metrics.json", lambda m, new=nlinear: m["baselines"].update(closed_form_nlinear=new))
    output = report(tmp_path)
    assert cells(output, "*last value*")[1] == "0.9000"
    assert cells(output, "*closed-form NLinear, look-back 7*")[1] == "0.4000"
    assert cells(output, "*closed-form NLinear, look-back 13*")[1] == "0.3000"


def test_offsets_have_a_table_of_their_own(report, tmp_path):
    later = {"12": {"windows": 5, "scaled": {"mse": 0.7, "mae": 0.6}}}
    for number, (name, offsets) in enumerate({"one_shot": later, "autoregressive": {"12": None}}.items()):
        folder = make_run(tmp_path / name, errors=wave(0.5), number=number, model__decode=name)
        edit_json(folder / "metrics.json", lambda metrics, offsets=offsets: metrics.update(offsets=offsets))
    output = report(tmp_path)
    assert "| MSE at offset | 0 | 12 |" in output
    assert f"| model.decode=one_shot | {wave(0.5).mean():.4f} (1) | 0.7000 (1) |" in output
    assert f"| model.decode=autoregressive | {wave(0.5).mean():.4f} (1) | - |" in output


def test_few_windows_give_differences_without_an_interval(report, tmp_path):
    make_runs(tmp_path, {"full": np.full(49, 0.5), "lsh": np.full(49, 0.6)})
    output = report(tmp_path)
    assert cells(output, "lsh")[4] == "+0.1000 (only 4 blocks)"
    assert "Fewer than 5 blocks give no interval." in output
    assert "A row of one seed knows nothing of the spread over seeds" in output


@pytest.mark.parametrize("name", ["report.md", "runs.jsonl"])
def test_a_file_that_no_report_has_written_is_replaced_only_on_request(report, sweep, tmp_path_factory, name):
    to = tmp_path_factory.mktemp("results")
    (to / name).write_text("# Mine\n\nfor ever\n")
    error = report(sweep, "--to", to, status=1)
    assert error == (
        f"--to {to}: {to}/{name} is there and is not a file of a report. Nothing is overwritten: choose another "
        "folder, or say --overwrite\n"
    )
    assert [path.name for path in to.iterdir()] == [name] and (to / name).read_text().startswith("# Mine")
    report(sweep, "--to", to, "--overwrite")
    assert (to / name).read_bytes()[:6] != b"# Mine"
    report(sweep, "--to", to)  # what a report has written is replaced without a word


def test_a_report_that_cannot_write_one_file_leaves_the_one_of_before(report, sweep, monkeypatch):
    report(sweep)
    before = {path.name: path.read_bytes() for path in sweep.iterdir() if path.is_file()}

    def no_room(path, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("pathlib.Path.write_text", no_room)
    error = report(sweep, "--against", "lsh", status=1)
    assert error.endswith(
        "runs.jsonl: No space left on device. Make room, or choose a place that you can write to: --to DIR\n"
    )
    assert {path.name: path.read_bytes() for path in sweep.iterdir() if path.is_file()} == before


def test_results_that_do_not_belong_together_are_listed_as_such(report, sweep):
    for run in ("full1", "full2"):
        names = ("errors_by_window.npz", "forecasts.npz", "metrics_by_step.csv")
        files = {name: hashlib.sha256((sweep / run / name).read_bytes()).hexdigest() for name in names}
        edit_json(sweep / run / "metrics.json", lambda metrics, files=files: metrics.update(files=files))
    (sweep / "full2" / "errors_by_window.npz").write_bytes((sweep / "lsh2" / "errors_by_window.npz").read_bytes())
    output = report(sweep)
    assert "9 runs: 8 finished, 1 unfinished." in output
    last = sweep / "full2" / "checkpoints" / "last.ckpt"
    assert (
        "- full2 (attention=full seed=2): unfinished: errors_by_window.npz is not the one that metrics.json was "
        f"written with: forecast train ckpt_path={last} writes both anew" in output
    )
    assert not {"files", "same_data"} & json.loads((sweep / "runs.jsonl").read_text().splitlines()[0]).keys()


def test_names_are_no_formulas_in_a_csv_for_a_spreadsheet(report, tmp_path):
    make_runs(tmp_path, {"full": wave(0.5), "prob": wave(0.6)})
    for path in tmp_path.glob("*/metrics.json"):
        edit_json(path, lambda metrics: metrics.update(data="=cmd|' /C calc'!A0"))
    report(tmp_path)
    assert "'=cmd" not in (tmp_path / "report.csv").read_text()  # programs read what was written
    report(tmp_path, "--output-safe")
    with (tmp_path / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["data"].startswith("'=cmd|") for row in rows)
    assert any(float(row["mse_difference"] or 0) for row in rows)  # a negative number is no formula
