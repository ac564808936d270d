"""docs/performance.md and its picture are what results/performance gives."""

import json
import shutil

import pytest
from PIL import Image, PngImagePlugin
from script import call_script, load_script

from benchmarks import document
from forecast.errors import UserError

MARKS = "<!-- made by scripts/performance.py -->", "<!-- until here -->"


def contender(seconds, **more):
    return {"seconds": seconds, "low": seconds, "high": seconds, "rounds": 3, "ratios": {}, **more}


def figures():
    """A small file of every part."""
    ratio = {"theirs fp32": {"median": 1.75, "low": 1.5, "high": 2.25}}
    pair = {
        "ours": contender(0.2, ratios=ratio, share=0.5, megabytes=11.0),
        "theirs fp32": contender(0.35),
    }
    rows = [{"L": n, "forward+backward": {"seconds": n * 1e-3, "megabytes": n * 2.0}} for n in (1024, 4096)]
    sizes = {"seq_len": 13, "label_len": 7, "pred_len": 5, "batch": 3}
    machine = {"device": "a CPU", "kind": "cpu", "threads": 3, "torch": "2.0", "python": "3", "date": "today"}
    rates = {"before": {"fp32": 211.0}, "after": {"fp32": 199.0}, "date": "today", "commit": "abc"}
    return {
        "machine": {**machine, "commit": "abc", "rates": {"step": rates}},
        "parts": {
            "step": [{**sizes, "gflop": 1.5, "contenders": pair}],
            "duel": [{"L": 96, "causal": True, "contenders": pair}],
            "attention": {"full": {"rows": rows, "growth": {"forward+backward": 2.0}}},
            "data": {**sizes, "contenders": {"ours": contender(0.1, windows_per_second=12345.6)}},
            "epoch": {**sizes, "fraction": 0.25, "contenders": pair},
            "decoding": [{"of": "an earlier release, which nothing reads"}],
        },
    }


def script_in(folder):
    """The script's module on a project of its own."""
    module = load_script("performance")
    for name in ("RESULTS", "DOCUMENT", "PICTURE"):
        setattr(module, name, folder / getattr(module, name).name)
    return module


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A project with figures of a CPU and what the script makes of them: a picture takes half a second."""
    module = script_in(tmp_path_factory.mktemp("performance"))
    module.RESULTS.mkdir()
    (module.RESULTS / "cpu.json").write_text(json.dumps(figures()))
    module.DOCUMENT.write_text("\n".join(["# Title", *MARKS, "By hand.\n"]))
    module.work(check=False)
    module.work(check=True)
    return module.DOCUMENT.parent


@pytest.fixture
def folder(written, tmp_path):
    """The script's module on a copy of it."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return script_in(tmp_path)


def test_the_project_s_own_document_is_up_to_date(capsys):
    status, _, error = call_script(capsys, "performance", "--check")
    assert status == 0, error


def test_the_tables_stand_between_the_marks_and_what_is_written_by_hand_stays(folder):
    text = folder.DOCUMENT.read_text()
    assert text.startswith("# Title\n<!-- made") and text.endswith("until here -->\nBy hand.\n")
    assert "| 13/7/5, 3 | ours | 0.2 s | 1.75 (1.50 to 2.25) | 50% | 11 MB |" in text
    assert "| causal | 96 | theirs fp32 | 0.35 s | - | - |" in text
    assert "| full | 1.02 s, 2,048 MB | 4.1 s, 8,192 MB | L^2.00 |" in text
    assert "| ours | 0.1 s | 12,346 |" in text
    assert "From the CSV file to the first validation metric, 25% of its batches." in text
    assert "GFLOP/s: 211 and 199 in fp32. today, commit abc." in text


def test_a_part_that_was_not_run_is_named_with_its_command(folder):
    text = folder.DOCUMENT.read_text()
    command = "python scripts/benchmark.py panels --peer neuralforecast --json results/performance/cpu.json"
    assert f"### Many series\n\nNot run yet: `{command}`." in text
    assert "Many series beside neuralforecast" not in text


def test_the_panels_table_says_what_was_measured_and_with_which_sizes():
    sizes = {"seq_len": 13, "label_len": 7, "pred_len": 5, "batch": 3, "d_model": 22, "n_heads": 2, "d_ff": 23}
    predicted = {f"predicted_{name}": value for name, value in {"seq_len": 29, "label_len": 17, "pred_len": 11}.items()}
    sample = {"series": 1234, "rows": 101, "windows": 5678, "predicted": 4321, "predicted_rows": 211}
    epoch = contender(0.5, rate=98765.4, of="windows", megabytes=1500.0)
    figures = {**sizes, **predicted, **sample, "contenders": {"an epoch": epoch}}
    text = document.described("panels", figures)
    for part in ("1,234 made-up", "of 101 rows", "13/7/5 in batches of 3", "5,678 windows", "4,321 series of 211 rows"):
        assert part in text
    assert "at 29/17/11" in text and "d_model 22, 2 heads, d_ff 23" in text
    assert document.part_table("panels", figures)[-1] == "| an epoch | 0.5 s | 98,765 windows/s | 1,500 MB |"
    ratio = {"neuralforecast": {"median": 1.75, "low": 1.5, "high": 2.25}}
    both = {"ours": contender(0.2, ratios=ratio), "neuralforecast": contender(0.35)}
    rows = [{**sizes, "stage": "train", "series": 1234, "rows": 101, "steps": 7, "contenders": both}]
    assert "1,234 made-up daily series of 101 rows" in document.described("panel_peer", rows)
    assert "7 steps of 3 windows 13/7/5" in document.described("panel_peer", rows)
    assert document.part_table("panel_peer", rows)[2] == "| train | ours | 0.2 s | 1.75 (1.50 to 2.25) | - |"


def test_writing_twice_changes_nothing(folder):
    before = folder.DOCUMENT.read_text(), folder.PICTURE.read_bytes()
    folder.work(check=False)
    assert (folder.DOCUMENT.read_text(), folder.PICTURE.read_bytes()) == before


def edit_picture(path):
    with Image.open(path) as image:
        image.putpixel((17, 19), (1, 2, 3, 255))
        digests = PngImagePlugin.PngInfo()
        for name in ("Source", "Pixels"):
            digests.add_text(name, image.info[name])
        image.save(path, pnginfo=digests)


def edit(path, before, after):
    path.write_text(path.read_text().replace(before, after, 1))


STALE = {
    "an edited number": (lambda module: edit(module.DOCUMENT, "1.75 (", "3.75 ("), "performance.md"),
    "an edited picture": (lambda module: edit_picture(module.PICTURE), "performance.png"),
    "other figures": (lambda module: edit(module.RESULTS / "cpu.json", ": 2048.0", ": 2048.25"), "performance.png"),
    "no picture": (lambda module: module.PICTURE.unlink(), "performance.png"),
}


@pytest.mark.parametrize("case", STALE)
def test_check_notices(folder, case):
    damage, file = STALE[case]
    damage(folder)
    with pytest.raises(UserError, match=f"{file} is not what results/performance gives: run python scripts/perf"):
        folder.work(check=True)
    folder.work(check=False)
    folder.work(check=True)


def test_a_document_without_the_marks_is_refused(folder):
    folder.DOCUMENT.write_text("# Title\n")
    message = "needs the two lines <!-- made by scripts/performance.py --> and <!-- until here -->"
    with pytest.raises(UserError, match=message):
        folder.work(check=True)


def test_the_short_table_has_the_medians_beside_the_authors_code():
    def step(seq_len, batch, fp32, megabytes):
        ratios = {"informer2020 fp32": {"median": fp32}}
        ours = {"ours informer2020 fp32": {"ratios": ratios, "megabytes": megabytes[0]}}
        theirs = {"informer2020 fp32": {"ratios": {}, "megabytes": megabytes[1]}}
        return {"seq_len": seq_len, "label_len": 5, "pred_len": 3, "batch": batch, "contenders": {**ours, **theirs}}

    def duel(length, prob, full):
        ours = {"ours prob": {"seconds": prob, "ratios": {"informer2020": {"median": 4.5}}}}
        return {"L": length, "causal": False, "contenders": {**ours, "ours full": {"seconds": full}}}

    parts = {
        "step": [step(7, 2, 1.234, (10.0, 25.0)), step(11, 3, 2.0, (30.0, 40.0))],
        "duel": [duel(96, 0.5, 1.0), duel(1440, 0.5, 3.5)],
        "attention": {"prob": {"growth": {"forward+backward": 1.125}}},
    }
    assert [tuple(line.strip("| ").split(" | ")) for line in document.summary_lines(parts)[2:]] == [
        ("training step 7/5/3 x 2, 11/5/3 x 3, fp32", "1.23, 2.00"),
        ("`attention=prob`, L 96, 1,440", "4.50, 4.50"),
        ("`attention=prob` beside our full attention, the same", "2.0, 7.0"),
        ("memory of a step 11/5/3 x 3 by theirs, fp32", "0.750"),  # of the longest window
        ("exponent with which prob's time grows with the length", "1.12"),
    ]
    assert document.summary_lines({}) == []
