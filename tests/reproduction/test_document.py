"""Published beside ours: the rows, the verdicts, what is still to be run."""

import pytest
from reproduction.lines import line

from forecast.comparison.rows import Spread
from forecast.errors import UserError
from forecast.reproduction.document import read_notes, table_lines, verdict
from forecast.reproduction.published import read_published
from forecast.reproduction.tables import TABLES

PRINTED = read_published()


def section(table, *lines, **notes):
    return table_lines(TABLES[table], lines, PRINTED, notes)


def row(text, *start):
    (match,) = [cells for line in text if (cells := line.strip("| ").split(" | "))[: len(start)] == list(start)]
    return match


@pytest.mark.parametrize(
    ("mean", "sd", "expected"),
    [
        (0.577, None, "reproduced"),
        (0.5969, None, "reproduced"),
        (0.5571, 0.001, "reproduced"),
        (0.5975, None, "missed: ours is higher"),
        (0.5565, 0.010, "missed: ours is lower, so better"),
        (0.540, 0.020, "reproduced"),  # two deviations
        (0.540, 0.018, "missed: ours is lower, so better"),
    ],
)
def test_reproduced_is_within_two_hundredths_or_two_deviations(mean, sd, expected):
    assert verdict(0.577, Spread(mean, sd, 1 if sd is None else 3)) == expected


def test_a_row_is_the_mean_over_its_seeds_beside_the_printed_one():
    seeds = [line("etth1_m", "24", "informer2020", mse=mse, seed=seed) for seed, mse in ((1, 0.57), (2, 0.59))]
    text = section("etth1_m", *seeds)
    mse, mae = ("0.577", "0.5800 ± 0.0141 (2)", "+0.003"), ("0.549", "0.6800 ± 0.0141 (2)")
    assert row(text, "24", "48", "2,857", "informer2020") == [
        "24",
        "48",
        "2,857",
        "informer2020",
        *mse,
        *mae,
        "reproduced",
    ]
    baselines = ("1.222 / 1.222", "0.424 / 0.424", "0.318 / 0.318")
    assert row(text, "24", "48", "2,857", "1.222 / 1.222") == ["24", "48", "2,857", *baselines]


def test_each_model_stands_beside_its_own_column_and_rows_in_their_order():
    text = section(
        "etth1_m",
        line("etth1_m", "168", "informer2020", mse=0.9, pred_len=168),
        line("etth1_m", "24", "informer, full attention", mse=0.6),
        line("etth1_m", "24", "informer", mse=0.5),
        line("etth2_m", "24", "informer", mse=0.1, data="ETTh2"),
    )
    found = [said.strip("| ").split(" | ") for said in text if said.startswith("|") and "informer" in said]
    assert [(cells[0], *cells[3:5]) for cells in found] == [
        ("24", "informer", "0.577"),
        ("24", "informer, full attention", "0.620"),
        ("168", "informer2020", "0.931"),
    ]


def test_a_training_with_other_settings_is_a_row_of_its_own():
    half, count = "trainer.precision=bf16-mixed", "protocol=informer2021"
    text = section(
        "etth1_m",
        line("etth1_m", "24", "informer2020", mse=0.57),
        line("etth1_m", "24", "informer2020", mse=0.53, extra=[half]),
        line("etth1_m", "24", "informer2020", mse=0.54, extra=[half, count]),
        line("etth1_m", "24", "informer2020", mse=0.90, extra=["trainer.max_epochs=1"], seed=2),
    )
    found = {cells[3]: cells[5] for said in text if "2,857" in said and len(cells := said.split(" | ")) == 10}
    assert found == {
        "informer2020": "0.5700 (1)",
        f"informer2020 ({half})": "0.5300 (1)",
        f"informer2020 ({half}, {count})": "0.5400 (1)",
        "informer2020 (trainer.max_epochs=1)": "0.9000 (1)",
    }


def test_a_seed_that_was_run_again_counts_once_the_last_one():
    again = [line("etth1_m", "24", "informer2020", mse=mse, versions={"torch": mse}) for mse in (0.5, 0.57)]
    assert row(section("etth1_m", *again), "24", "48", "2,857", "informer2020")[5] == "0.5700 (1)"


def test_offsets_are_rows_and_a_model_that_cannot_has_none():
    blocks = {"336": None, "12": {"windows": 2533, "scaled": {"mse": 0.2, "mae": 0.3}}}
    kept = {"offsets": {"12": blocks["12"]}, "seq_len": 720, "pred_len": 336, "features": "S"}
    text = section(
        "decoder",
        line("decoder", "336", "informer2020", mse=0.21, **kept),
        line("decoder", "336", "informer, full attention, dynamic", mse=0.22, **{**kept, "offsets": {"12": None}}),
    )
    later = row(text, "336", "720", "2,533")
    assert later[3:] == [
        *("informer2020, offset 12", "0.209", "0.2000 (1)", "-0.009", "0.387", "0.3000 (1)", "reproduced"),
    ]
    assert sum("dynamic |" in said for said in text) == 1


def test_the_closed_form_stands_beside_nlinear_without_a_spread():
    lines = [line("dlinear", "etth1_m_96", "nlinear", mse=0.38, seed=s, seq_len=336, pred_len=96) for s in (1, 2)]
    text = section("dlinear", *lines)
    assert row(text, "etth1_m_96", "336", "2,857", "closed-form NLinear")[4:7] == ["0.374", "0.3180 (1)", "-0.056"]


def test_what_has_not_been_run_is_said_with_the_command():
    text = section("etth1_m", line("etth1_m", "24", "informer2020", mse=0.5))
    (said,) = [part for part in text if part.startswith("Not run yet")]
    assert said == (
        "Not run yet: informer2020 (24: 1 of 3 seeds; 48, 168, 336, 720), informer (all rows), "
        "informer, full attention (all rows). "
        "`python scripts/reproduce.py --table etth1_m` goes on with them."
    )


def test_rows_that_print_nothing_are_not_in_the_queue():
    (said,) = [part for part in section("probsparse") if part.startswith("Not run yet")]
    assert "informer, full attention (336_336, 336_720, 720_720)" in said


def test_trainings_with_other_settings_leave_the_recipe_in_the_queue():
    lines = [line("etth1_m", "24", "informer2020", mse=0.5, seed=seed, extra=["data=demo"]) for seed in (1, 2, 3)]
    assert any("informer2020 (all rows)" in part for part in section("etth1_m", *lines))
    lines = [line("etth1_m", "24", "informer2020", mse=0.5, seed=seed) for seed in (1, 2, 3)]
    assert any("informer2020 (48, 168, 336, 720)" in part for part in section("etth1_m", *lines))


def test_a_missed_row_is_never_without_a_word_nor_the_source_without_its_own():
    text = section("etth1_m", line("etth1_m", "24", "informer2020", mse=0.5))
    assert "- Missed, and nothing tried yet: 24." in text
    assert "Of the published figures: look-back chosen per cell; made with 2021-03 code." in text
    assert not any("Missed" in part for part in section("etth1_m", line("etth1_m", "24", "informer2020", mse=0.58)))


def test_what_was_tried_stands_below_the_table():
    text = section(
        "etth1_m", line("etth1_m", "24", "informer2020", mse=0.5), **{"etth1_m/24": "Tried lr 2e-4: no better."}
    )
    assert "- 24: Tried lr 2e-4: no better." in text


def test_a_note_on_a_table_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "notes.yaml").write_text("etth9_m: x\n")
    with pytest.raises(UserError, match="'etth9_m' is no table"):
        read_notes(tmp_path / "notes.yaml")
    assert read_notes(tmp_path / "none.yaml") == {}
