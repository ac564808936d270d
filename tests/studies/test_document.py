"""Published beside ours: the rows, the verdicts, what is still to be run."""

import pytest
from studies_lines import line

from forecast.errors import UserError
from studies.published.document import read_notes, table_lines
from studies.published.published import read_published
from studies.published.tables import TABLES

PRINTED = read_published()


def section(table, *lines, **notes):
    return table_lines(TABLES[table], lines, PRINTED, notes)


def row(text, *start):
    (match,) = [cells for line in text if (cells := line.strip("| ").split(" | "))[: len(start)] == list(start)]
    return match


def informer(mse, **more):
    """A result of the row that the tests are about."""
    return line("etth1_m", "24", "informer2020", mse=mse, **more)


def test_a_row_is_the_mean_over_its_seeds_beside_the_printed_one():
    text = section("etth1_m", informer(0.57), informer(0.59, seed=2))
    mse, mae = ["0.577", "0.5800 ± 0.0141 (2)", "+0.5 %"], ["0.549", "0.6800 ± 0.0141 (2)", "+23.9 %"]
    place, last = ["24", "48", "2,857"], ["two seeds, within", "not recorded"]
    assert row(text, *place, "informer2020") == [*place, "informer2020", *mse, *mae, *last]
    assert row(text, *place, "1.222 / 1.222") == [*place, "1.222 / 1.222", "0.424 / 0.424", "0.318 / 0.318"]


def test_each_model_stands_beside_its_own_column_and_rows_in_their_order():
    lines = [
        line("etth1_m", "168", "informer2020", mse=0.9, pred_len=168),
        line("etth1_m", "24", "informer, full attention", mse=0.6),
        line("etth1_m", "24", "informer", mse=0.5),
        line("etth2_m", "24", "informer", mse=0.1, data="ETTh2"),
    ]
    text = section("etth1_m", *lines)
    rows = [line.strip("| ").split(" | ") for line in text if line.startswith("|") and "informer" in line]
    assert [(cells[0], *cells[3:5]) for cells in rows] == [
        ("24", "informer", "0.577"),
        ("24", "informer, full attention", "0.620"),
        ("168", "informer2020", "0.931"),
    ]


def test_a_training_with_other_settings_is_a_row_of_its_own():
    half, count = "trainer.precision=bf16-mixed", "protocol=informer2021"
    others = [informer(0.53, extra=[half]), informer(0.54, extra=[half, count])]
    text = section("etth1_m", informer(0.57), *others, informer(0.90, extra=["trainer.max_epochs=1"], seed=2))
    errors = {cells[3]: cells[5] for line in text if "2,857" in line and len(cells := line.split(" | ")) == 12}
    assert errors == {
        "informer2020": "0.5700 (1)",
        f"informer2020 ({half})": "0.5300 (1)",
        f"informer2020 ({half}, {count})": "0.5400 (1)",
        "informer2020 (trainer.max_epochs=1)": "0.9000 (1)",
    }


def test_a_seed_that_was_run_again_counts_once_the_last_one():
    again = [informer(mse, versions={"torch": mse}) for mse in (0.5, 0.57)]
    assert row(section("etth1_m", *again), "24", "48", "2,857", "informer2020")[5] == "0.5700 (1)"


def test_offsets_are_rows_and_a_model_that_cannot_has_none():
    later = {"12": {"windows": 2533, "scaled": {"mse": 0.2, "mae": 0.3}}}
    more = {"seq_len": 720, "pred_len": 336, "features": "S"}
    able = line("decoder", "336", "informer2020", mse=0.21, offsets=later, **more)
    unable = line("decoder", "336", "informer, full attention, dynamic", mse=0.22, offsets={"12": None}, **more)
    text = section("decoder", able, unable)
    errors = ["0.209", "0.2000 (1)", "-4.3 %", "0.387", "0.3000 (1)", "-22.5 %"]
    cells = ["informer2020, offset 12", *errors, "one seed, outside", "not recorded"]
    assert row(text, "336", "720", "2,533")[3:] == cells
    assert sum("dynamic |" in line for line in text) == 1


def test_the_closed_form_stands_beside_nlinear_exact_and_without_seeds():
    """Errors of 0.318 in the lines of these tests: 15 % below the printed one."""
    lines = [line("dlinear", "etth1_m_96", "nlinear", mse=0.374, seed=s, seq_len=336, pred_len=96) for s in (1, 2, 3)]
    text, place = section("dlinear", *lines), ("etth1_m_96", "336", "2,857")
    assert row(text, *place, "closed-form NLinear")[4:7] == ["0.374", "0.3180", "-15.0 %"]
    assert row(text, *place, "closed-form NLinear")[10] == "exact, outside"
    assert row(text, *place, "nlinear")[5:7] == ["0.3740 ± 0.0000 (3)", "+0.0 % [+0.0, +0.0]"]
    assert row(text, *place, "nlinear")[10] == "reproduced"


def test_verdicts_are_counted_apart_for_the_recipe_and_for_other_settings():
    lines = [
        *(line("dlinear", "etth1_m_96", "nlinear", mse=0.374, seed=s, seq_len=336, pred_len=96) for s in (1, 2, 3)),
        line("dlinear", "etth1_m_96", "dlinear", mse=0.370, seq_len=336, pred_len=96),
        line("dlinear", "etth1_m_192", "dlinear", mse=0.5, seq_len=336, pred_len=192),
        line("dlinear", "etth1_m_192", "nlinear", mse=0.5, seq_len=336, pred_len=192, extra=["optim.lr=1"]),
    ]
    own = "With the recipe itself: 1 *one seed, outside*; 1 *one seed, within*; 1 *reproduced*."
    others = "With other settings: 1 *one seed, outside*."
    assert f"{own} {others}" in section("dlinear", *lines)
    assert others in section("dlinear", lines[-1])


@pytest.mark.parametrize(
    ("made_by", "expected"),
    [
        ([{}], "not recorded"),
        ([{"commit": "1a2b3c4"}], "1a2b3c4"),
        ([{"commit": "1a2b3c4"}, {"commit": "5d6e7f8"}, {"commit": "1a2b3c4"}, {}], "1a2b3c4, 5d6e7f8, not recorded"),
    ],
)
def test_a_row_says_which_commits_made_it(made_by, expected):
    lines = [informer(0.577, seed=seed, **keys) for seed, keys in enumerate(made_by, start=1)]
    assert row(section("etth1_m", *lines), "24", "48", "2,857", "informer2020")[11] == expected


OTHER_SETTINGS = [informer(0.5, seed=seed, extra=["data=demo"]) for seed in (1, 2, 3)]
ALL_SEEDS = [informer(0.5, seed=seed) for seed in (1, 2, 3)]


@pytest.mark.parametrize(
    ("table", "lines", "expected"),
    [
        (
            "etth1_m",
            [informer(0.5)],
            "Not run yet with the recipe itself: informer2020 (24: 1 of 3 seeds; 48, 168, 336, 720), "
            "informer (all rows), informer, full attention (all rows). "
            "`forecast reproduce --table etth1_m` goes on with them.",
        ),
        ("probsparse", [], "informer, full attention (336_336, 336_720, 720_720)"),  # the others print nothing
        ("etth1_m", OTHER_SETTINGS, "informer2020 (all rows)"),
        ("etth1_m", ALL_SEEDS, "informer2020 (48, 168, 336, 720)"),
    ],
)
def test_what_has_not_been_run_with_the_recipe_itself_is_listed_with_the_command(table, lines, expected):
    (sentence,) = [text for text in section(table, *lines) if text.startswith("Not run yet")]
    assert expected in sentence


def test_a_row_outside_never_goes_without_a_remark_nor_the_source_without_its_own():
    text = section("etth1_m", informer(0.5), line("etth1_m", "24", "informer", mse=0.577))
    assert "- Not explained: 24 (informer2020)." in text
    assert "Of the published figures: look-back chosen per cell; made with 2021-03 code." in text
    assert not any("Not explained" in part for part in section("etth1_m", informer(0.58)))
    remark = "Tried lr 2e-4: no better."
    text = section("etth1_m", *(informer(0.5, seed=seed) for seed in (1, 2, 3)), **{"etth1_m/24": remark})
    assert f"- 24: {remark}" in text and not any("Not explained" in part for part in text)
    missed = section("etth1_m", *(informer(0.5, seed=seed) for seed in (1, 2, 3)))
    assert "- Not explained: 24 (informer2020)." in missed


def test_a_table_without_rows_has_its_remark_too():
    assert "- Tried by hand." in section("patchtst", patchtst="Tried by hand.")


def test_a_note_on_a_table_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "notes.yaml").write_text("etth9_m: x\n")
    with pytest.raises(UserError, match="'etth9_m' is no table"):
        read_notes(tmp_path / "notes.yaml")
    assert read_notes(tmp_path / "none.yaml") == {}
