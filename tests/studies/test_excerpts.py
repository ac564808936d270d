"""What documents show is what was recorded: each way in which they can differ is found, and told with its place."""

import re
from dataclasses import replace

import pytest
from script import SCRIPTS, call_script

from forecast.errors import UserError
from studies.documents.blocks import blocks
from studies.documents.check import problems
from studies.documents.command_line import check, made_otherwise, record
from studies.documents.records import Recipe, Record, read_recipes, read_record, record_path, write_record

PRINTED = """\
$ forecast train experiment=quickstart
model informer, data demo
                  MSE      MAE
 ────────────────────────────────
  informer     0.2634   0.4104
  last value   1.7925   1.0767

The model beats all baselines.
$ head -2 forecast.csv
date,load
2021-01-01 00:00:00,3.25
""".splitlines()
ROOT = SCRIPTS.parent
RECORDS = {"quickstart": Record(["# recorded: code 0123456789ab"], PRINTED)}
TABLE = PRINTED[2:6]


@pytest.fixture
def told(tmp_path):
    """What the check says of README.md, or of another document, with this text."""

    def what_is_told(*lines, name="README.md", of=RECORDS):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        return problems(path, tmp_path, of)

    return what_is_told


def fenced(*lines, mark="<!-- excerpt: quickstart -->", language=""):
    return [*([mark] if mark else []), f"```{language}", *lines, "```"]


def test_lines_of_the_output_in_their_order_agree(told):
    assert told("# Title", "", *fenced(*TABLE)) == []
    assert told(*fenced(PRINTED[0], PRINTED[1], "...", *PRINTED[4:6], "...", *PRINTED[8:])) == []


def test_a_planted_digit_is_told_with_file_line_and_what_was_printed(told):
    wrong = [line.replace("1.0767", "1.0768") for line in TABLE]
    assert told("# Title", "", *fenced(*wrong)) == [
        "README.md:8: '  last value   1.7925   1.0768' does not follow in the output of quickstart, which has "
        "'  last value   1.7925   1.0767'; paste it again, or record it: --run quickstart"
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([TABLE[2], TABLE[0]], "README.md:4", id="another order"),
        pytest.param([TABLE[0], TABLE[2]], "README.md:4", id="a line left out without ..."),
        pytest.param([TABLE[2], "...", TABLE[0]], "README.md:5", id="another order behind ..."),
        pytest.param([TABLE[2], "...", TABLE[2]], "README.md:5", id="a line twice"),
        pytest.param([*TABLE, "", "The model loses."], "README.md:8", id="another end"),
        pytest.param(["$ forecast train experiment=quickstar"], "README.md:3", id="another command"),
        pytest.param([PRINTED[-1], "2021-01-01 01:00:00,3.26"], "README.md:4", id="a line after the last"),
    ],
)
def test_lines_that_do_not_follow_are_told(told, lines, expected):
    (problem,) = told(*fenced(*lines))
    assert problem.startswith(f"{expected}: ") and "does not follow in the output of quickstart" in problem


@pytest.mark.parametrize(
    "line",
    [
        "$ forecast check-data my.csv",
        " ───────────────────────────",
        "  informer (this run)   0.2634   0.4104",
        '    "mse": 0.263412,',
        "[2026-11-22 11:43:00,724][forecast][INFO] - Training.",
        "'model.dmodel' is no key of the config. Did you mean 'model.d_model'?",
        "24 steps from 2018-06-26 20:00:00 to 2018-06-27 19:00:00 are in forecast.csv.",
        "load           3       25.67       40.03       54.12         0",
        "Speed: 416 samples/s, 68 % of what the model alone allows",
    ],
)
@pytest.mark.parametrize("language", ["", "text", "console"])
def test_output_without_a_mark_is_told(told, line, language):
    (problem,) = told("Text.", "", *fenced(line, mark=None, language=language))
    assert problem.startswith(f"README.md:4: {line.strip()!r} looks like output") and "excerpt: NAME" in problem


def test_indented_output_without_a_mark_is_told(told):
    assert told("Text.", "", "    $ forecast check-data my.csv")[0].startswith("README.md:3: ")


def test_commands_code_and_trees_need_no_mark(told):
    commands = ["forecast train data=ETTh1 optim.lr=0.0005 # torch 2.13.0", "conf/   the config tree", "q (B,H,Q,E)"]
    assert told(*fenced(*commands, mark=None)) == []
    assert told(*fenced("optim:", "  lr: 0.0001", mark=None, language="yaml")) == []
    assert told(*fenced("date,load", "2024-01-01 00:00:00,3.251", mark=None, language="csv")) == []


@pytest.mark.parametrize(
    "text",
    [
        *("An MSE of 0.424.", "- An MSE of 0.424.", "An MSE of `0.424`.", "`code` before 0.424 and `more` after"),
        *("It takes 40 s.", "| a |\n|---|\n| 8.5 |", "<pre>\ninformer   0.2634\n</pre>"),
    ],
)
def test_a_figure_that_nothing_checks_is_told(told, text):
    (problem,) = told("## Errors", "", text)
    assert problem.startswith("README.md:3: the figure ") and "is checked by nothing" in problem
    assert told("## Errors", "", text, name="docs/limits.md") == [
        problem.replace("README.md", "docs/limits.md") + ", or its date or commit in its section"
    ]


def test_a_figure_of_the_past_names_its_date_or_commit_in_its_section(told):
    figure = "An MSE of 0.424."
    assert told("## Then", "Measured 2026-11-21.", "", figure, name="docs/experiments.md") == []
    assert told("## Then", f"{figure} (commit dfe7d05)", name="docs/experiments.md") == []
    assert len(told("## Then", "2026-11-21", "## Now", figure, name="docs/experiments.md")) == 1
    for name in ("README.md", "docs/tutorials/first.md"):
        assert len(told("## Then", "2026-11-21", "", figure, name=name)) == 1, "these are no history"


def test_settings_versions_and_names_are_no_figures(told):
    assert (
        told("`optim.lr=0.001`, L^1.5, torch 2.13.0, arXiv 2012.07436, at most 95 % of 0.02, results/a-0.123.md") == []
    )


def test_figures_of_a_marked_text_stand_in_the_output(told, tmp_path):
    mark = "<!-- figures: quickstart -->"
    assert told(mark, "The MSE is 0.2634, of the last value 1.7925.") == []
    assert told(mark, "The MSE is 0.263.") == ["README.md:2: the figure 0.263 does not stand in quickstart"]
    assert told(mark, "| a | b |", "|---|---|", "| 0.2634 | 1.79 |") == [
        "README.md:2: the figure 1.79 does not stand in quickstart"
    ]
    assert told(mark, "- 0.2634", "- 0.2635", "", "After 0.4104.") == [
        "README.md:3: the figure 0.2635 does not stand in quickstart",
        "README.md:5: the figure 0.4104 of this paragraph is checked by nothing: write <!-- figures: NAME --> above it",
    ]
    (tmp_path / "made.md").write_text("ours 0.317\n")
    assert told("<!-- figures: made.md -->", "It has 0.317, not 0.318.") == [
        "README.md:2: the figure 0.318 does not stand in made.md"
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            fenced(mark="<!-- excerpt: quickstar -->"),
            "is no excerpt of results/excerpts.yaml. Did you mean 'quickstart'?",
        ),
        (["<!-- figures: quick -->", "Text."], "quick is no recorded output and no file."),
        (["<!-- excerpt: quickstart -->", "Text."], "a paragraph block has the mark figures: NAME, not excerpt:"),
        (fenced(mark="<!-- figures: quickstart -->"), "a code block has the mark excerpt: NAME, not figures:"),
    ],
)
def test_a_mark_that_names_nothing_or_the_wrong_kind_is_told(told, lines, expected):
    (problem,) = told(*lines)
    assert problem.startswith("README.md:") and expected in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!-- excerpt quickstart -->\n```\n```", "README.md:1: '<!-- excerpt quickstart -->' is no mark; write"),
        ("<!-- excerpt: a -->\n<!-- figures: b -->\n\nText.", "README.md:2: two marks for one block"),
        (
            "<!-- made by hand -->\n\nAn MSE of 0.424.",
            "README.md: '<!-- made by hand -->': only scripts/results.py in README.md",
        ),
        (
            "<!-- made by scripts/results.py -->\n\nAn MSE.",
            "README.md: <!-- until here --> is missing after what scripts/",
        ),
        ("Text.\n<!-- excerpt: a -->", "README.md: nothing follows the mark excerpt: a at its end"),
    ],
)
def test_a_misspelt_mark_is_refused(text, expected):
    with pytest.raises(UserError, match=re.escape(expected)):
        blocks(text, "README.md")


def test_what_scripts_make_is_theirs(told):
    made = ["<!-- made by scripts/results.py -->", "", "An MSE of 0.424.", ""]
    assert told(*made, "<!-- until here -->", "", "Text.") == []
    assert told(*made, "<!-- until here -->", "", "Then 0.424.")[0].startswith("README.md:7: ")


def recipe(*commands, varies=(), after=None):
    patterns = [re.compile(pattern) for pattern in varies]
    return Recipe(name="demo", commands=list(commands), after=after, setup=[], reads=[], pictures={}, varies=patterns)


def test_run_records_what_a_terminal_shows_and_check_agrees(tmp_path):
    recipes = {"demo": recipe("echo 1.5; echo wrong >&2; false", "pwd; echo 2.5  ")}
    assert record(["demo"], recipes, tmp_path) == []
    kept = read_record(record_path(tmp_path, "demo"))
    assert kept.lines == ["$ echo 1.5; echo wrong >&2; false", "1.5", "wrong", "$ pwd; echo 2.5  ", "FOLDER", "2.5"]
    assert re.fullmatch(r"# recorded: 20\d\d-\d\d-\d\d, .*, commit \w+(-dirty)?", kept.header[0])
    (tmp_path / "README.md").write_text(
        "\n".join(["```", "```", *fenced("1.5", "wrong", mark="<!-- excerpt: demo -->")])
    )
    assert check(recipes, tmp_path) == []


def test_run_fails_on_other_output_and_keeps_it(tmp_path):
    recipes = {"demo": recipe("echo 1.5")}
    record(["demo"], recipes, tmp_path)
    path = record_path(tmp_path, "demo")
    before = read_record(path)
    write_record(path, Record(before.header, ["$ echo 1.5", "1.6"]))
    assert record(["demo"], {"demo": recipe("echo 1.5")}, tmp_path) == [
        "demo: '1.6' was recorded, '1.5' is printed now"
    ]
    assert read_record(path).lines == before.lines


def test_a_digit_planted_in_a_record_is_found_by_both_and_mended_by_run(tmp_path):
    recipes = {"demo": recipe("echo 1.5")}
    record(["demo"], recipes, tmp_path)
    (tmp_path / "README.md").write_text("\n".join(fenced("$ echo 1.5", mark="<!-- excerpt: demo -->")))
    path = record_path(tmp_path, "demo")
    path.write_text(path.read_text().replace("\n1.5", "\n1.6"))
    expected = "demo.txt does not have its own checksum: it was changed by hand, or a merge mixed two"
    with pytest.raises(UserError, match=expected):
        check(recipes, tmp_path)
    assert record(["demo"], recipes, tmp_path)[0].startswith(expected)
    assert check(recipes, tmp_path) == []


def test_what_varies_by_machine_keeps_the_recorded_text(tmp_path):
    recipes = {"demo": recipe("date +%N; echo 1.5", varies=[r"^\d{9}$"])}
    record(["demo"], recipes, tmp_path)
    before = read_record(record_path(tmp_path, "demo"))
    assert record(["demo"], recipes, tmp_path) == []
    after = read_record(record_path(tmp_path, "demo"))
    assert after.lines == before.lines
    assert after.header[0] == before.header[0] and after.header[1].startswith("# printed again: ")


def test_run_makes_the_picture_that_a_document_shows_anew(tmp_path):
    (tmp_path / "shown.png").write_text("old")
    drawn = replace(recipe("echo new > made.png"), pictures={"made.png": "shown.png"})
    record(["demo"], {"demo": drawn}, tmp_path)
    assert (tmp_path / "shown.png").read_text() == "new\n"


def test_a_recipe_goes_on_in_a_copy_of_the_folder_of_another_which_is_run_once(tmp_path):
    first = replace(recipe("echo 1.5 >> file", f"echo >> {tmp_path}/runs"), name="first")
    recipes = {"first": first, "demo": recipe("cat file; echo 2.5 >> file", after="first")}
    recipes["other"] = replace(recipes["demo"], name="other")
    record(["other"], recipes, tmp_path)
    record([*recipes], recipes, tmp_path)
    for name in ("demo", "other"):
        assert read_record(record_path(tmp_path, name)).lines == ["$ cat file; echo 2.5 >> file", "1.5"]
    assert (tmp_path / "runs").read_text() == "\n\n"


def test_a_record_is_of_the_commands_that_the_recipe_has(tmp_path):
    record(["demo"], {"demo": recipe("echo 1.5")}, tmp_path)
    (tmp_path / "README.md").write_text("\n".join(fenced("$ echo 1.5", mark="<!-- excerpt: demo -->")))
    assert check({"demo": recipe("echo 1.5", "true")}, tmp_path) == [
        "results/excerpts/demo.txt was recorded with other commands than excerpts.yaml has: --run demo"
    ]


def test_a_recorded_output_that_no_document_shows_is_told(tmp_path):
    (tmp_path / "README.md").write_text("Text.\n")
    recipes = {"demo": recipe("true")}
    record(["demo"], recipes, tmp_path)
    assert check(recipes, tmp_path) == ["results/excerpts.yaml: no document shows demo; remove it"]


def test_a_file_that_is_not_there_is_refused_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FORECAST_DATA", str(tmp_path))
    needs = Recipe(name="demo", commands=["true"], setup=[], reads=["ETTh1.csv"], pictures={}, varies=[])
    with pytest.raises(UserError, match=r"demo reads ETTh1\.csv: name the folder that has it in FORECAST_DATA"):
        record(["demo"], {"demo": needs}, tmp_path)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{commands: [a], vary: [b]}", "demo: vary is no key of an excerpt. Did you mean 'varies'?"),
        ("{commands: [a], varies: [second]}", "demo: varies: second has no pattern. Did you mean 'seconds'?"),
        ("{commands: [a], after: firs}", "demo: after: firs is no excerpt above it. Did you mean 'first'?"),
    ],
)
def test_a_wrong_recipe_is_refused(tmp_path, entry, expected):
    path = tmp_path / "excerpts.yaml"
    path.write_text(f"varies: {{seconds: '[0-9]+ s'}}\nexcerpts:\n  first: {{commands: [b]}}\n  demo: {entry}\n")
    with pytest.raises(UserError, match=re.escape(f"excerpts.yaml: {expected}")):
        read_recipes(path)


def test_a_missing_record_says_how_to_make_it(tmp_path):
    with pytest.raises(UserError, match=r"demo\.txt is not there: record it, python scripts/excerpts\.py --run demo"):
        check({"demo": recipe("true")}, tmp_path)


def test_what_scripts_say_of_their_documents_is_told(tmp_path):
    script = tmp_path / "maker.py"
    script.write_text(
        "import sys; sys.exit('results.md is not what results/ gives' if sys.argv[1:] == ['--check'] else 0)"
    )
    assert made_otherwise(script) == ["results.md is not what results/ gives"]
    script.write_text("")
    assert made_otherwise(script) == []


def test_this_repository_shows_what_was_recorded(capsys):
    assert call_script(capsys, "excerpts", "--check")[::2] == (0, "")


def test_a_digit_planted_in_any_excerpt_of_this_repository_is_told(told):
    records = {path.stem: read_record(path) for path in (ROOT / "results" / "excerpts").glob("*.txt")}
    planted = 0
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        name, lines = path.relative_to(ROOT).as_posix(), path.read_text().splitlines()
        excerpts = [block for block in blocks(path.read_text(), name) if block.mark and block.mark.kind == "excerpt"]
        for number, line in [(block.line - 1 + i, line) for block in excerpts for i, line in enumerate(block.lines)]:
            if digit := re.search(r"(?<=\.\d)\d", line):
                wrong = line[: digit.start()] + str((int(digit[0]) + 5) % 10) + line[digit.end() :]
                text = [*lines[:number], wrong, *lines[number + 1 :]]
                assert any(f":{number + 1}: " in problem for problem in told(*text, name=name, of=records)), (
                    path,
                    wrong,
                )
                planted += 1
    assert planted > 10


def test_an_unknown_excerpt_is_refused_with_the_nearest_name(capsys):
    status, _, message = call_script(capsys, "excerpts", "--run", "quickstar")
    assert status == 1
    assert message == "--run quickstar: no such excerpt in results/excerpts.yaml. Did you mean 'quickstart'?\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["typing-error", "two-mistakes", "slot-refused", "role-refused", "frequency-refused", "check-data"]
)
def test_commands_that_train_nothing_print_what_was_recorded(tmp_path, name):
    recipes = read_recipes(ROOT / "results" / "excerpts.yaml")
    write_record(record_path(tmp_path, name), read_record(record_path(ROOT, name)))
    assert record([name], recipes, tmp_path) == []
