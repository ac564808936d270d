"""Which trainings a published table is, and that each is what its paper says."""

import pytest
from config.composed import composed

from forecast.config.check import check_config
from forecast.config.compose import natural, recipe
from forecast.errors import UserError
from studies.published.published import PUBLISHED, read_published
from studies.published.tables import TABLES, cells, has_part, jobs, printed_rows

PRINTED = read_published()


def jobs_of(*tables, seeds=(1,), extra=(), **which):
    return list(jobs(cells([TABLES[name] for name in tables], PRINTED, **which), seeds=seeds, extra=extra))


def test_a_row_is_a_training_for_each_printed_model():
    actual = jobs_of("etth1_m", rows=["24"])
    assert [(job.row, job.model, job.overrides) for job in actual] == [
        ("24", "informer2020", ("experiment=etth1_m/24", "seed=1")),
        ("24", "informer", ("experiment=etth1_m/24", "model=informer", "seed=1")),
        (
            "24",
            "informer, full attention",
            ("experiment=etth1_m/24", "model=informer", "attention=full", "~attention.mechanism.factor", "seed=1"),
        ),
    ]
    assert len({job.identity for job in actual}) == 3
    without_factor = ("experiment=etth1_m/48", "model=informer", "attention=full", "seed=1")
    assert jobs_of("etth1_m", rows=["48"])[2].overrides == without_factor  # nothing to drop


def test_all_rows_get_a_seed_before_the_next_one():
    actual = jobs_of("decoder", seeds=(1, 2))
    expected = [(row, seed) for seed in (1, 2) for row in ("336", "480") for _ in range(3)]
    assert [(job.row, job.seed) for job in actual] == expected


def test_what_the_command_adds_is_part_of_the_identity():
    row = {"rows": ["etth1_m_96"], "models": ["nlinear"]}
    (plain,), (half,) = jobs_of("dlinear", **row), jobs_of("dlinear", **row, extra=["trainer.precision=bf16-mixed"])
    assert half.overrides[-1] == "trainer.precision=bf16-mixed" and plain.identity != half.identity


def test_a_row_may_be_named_in_parts():
    for name, part in (("etth1_m_96", "etth1"), ("etth1_m_96", "96"), ("336_720", "720"), ("24", "24")):
        assert has_part(name, part)
    assert not has_part("etth1_m_96", "h1") and not has_part("240", "24")


def test_rows_are_sorted_by_number():
    assert sorted(["a_720", "a_96", "b_96", "a_192"], key=natural) == ["a_96", "a_192", "a_720", "b_96"]
    assert all(list(table.rows) == sorted(table.rows, key=natural) for table in TABLES.values())


# What results/runs.jsonl knows two trainings by.
IDENTITIES = {
    ("etth1_m", "24", "informer2020"): "c8988d246424",
    ("dlinear", "etth1_m_96", "nlinear"): "4123323937d0",
}


@pytest.mark.parametrize("place", IDENTITIES)
def test_a_training_keeps_the_identity_under_which_its_result_was_written(place):
    table, row, contender = place
    (job,) = jobs_of(table, rows=[row], models=[contender])
    assert job.identity == IDENTITIES[place]


def test_an_unknown_row_or_model_is_refused_with_those_there_are():
    with pytest.raises(UserError, match=r"--rows 25: etth1_m has no such row\. Rows: 24, 48, 168, 336, 720"):
        jobs_of("etth1_m", rows=["25"])
    message = r"--models informr: choose of informer2020; informer; .*Did you mean 'informer'"
    with pytest.raises(UserError, match=message):
        jobs_of("etth1_m", models=["informr"])


def test_of_several_tables_a_row_need_be_in_one():
    actual = jobs_of("etth1_m", "decoder", rows=["24", "480"], models=["informer2020"])
    assert [(job.table, job.row) for job in actual] == [("etth1_m", "24"), ("decoder", "480")]


def test_a_setting_that_one_of_them_cannot_take_is_refused_before_anything_runs():
    chosen = cells([TABLES["dlinear"]], PRINTED, rows=["etth1_m_96"])
    with pytest.raises(UserError, match=r"Could not override 'model\.kernel_size'"):
        jobs(chosen, seeds=(1,), extra=["model.kernel_size=5"])


def test_two_tables_may_hold_the_same_training():
    first, second = jobs_of("etth1_s", rows=["336"], models=["informer2020"]), jobs_of("distilling", rows=["336_720"])
    assert first[0].identity == second[0].identity


def test_every_printed_row_of_the_papers_has_its_experiment():
    counts = {name: len(printed_rows(table, PRINTED)) for name, table in TABLES.items()}
    assert counts == {
        **{f"{data}_{features}": 15 for data in ("etth1", "etth2", "ettm1") for features in "ms"},
        "probsparse": 6 + 6 + 3,
        "distilling": 10 + 3,
        "decoder": 6,
        "dlinear": 2 * 24 - 4,  # no DLinear for ETTm1 alone
        "patchtst": 24,
    }
    assert PUBLISHED.parent.name == "results"


# the authors' scripts at 29f2a73: pred_len seq_len/label_len/encoder layers/decoder layers
SCRIPTS = {
    "etth1_m": "24 48/48/2/1, 48 96/48/2/1, 168 168/168/2/1, 336 168/168/2/1, 720 336/336/2/1",
    "etth1_s": "24 720/168/2/1, 48 720/168/2/1, 168 720/336/2/1, 336 720/336/2/1, 720 720/336/2/1",
    "etth2_m": "24 48/48/2/1, 48 96/96/2/1, 168 336/336/3/2, 336 336/168/3/2, 720 720/336/3/2",
    "etth2_s": "24 48/48/2/1, 48 96/96/2/1, 168 336/336/2/1, 336 336/168/3/2, 720 336/336/3/2",
    "ettm1_m": "24 672/96/2/1, 48 96/48/2/1, 96 384/384/2/1, 288 672/288/2/1, 672 672/384/2/1",
    "ettm1_s": "24 96/48/2/1, 48 96/48/2/1, 96 384/384/2/1, 288 384/384/2/1, 672 384/384/2/1",
}


@pytest.mark.parametrize("table", SCRIPTS)
def test_the_informers_rows_are_those_of_the_authors_scripts(table):
    rows = []
    for row in TABLES[table].rows:
        cfg = composed(f"experiment={table}/{row}")
        check_config(cfg)
        sizes = (cfg.seq_len, cfg.label_len, cfg.model.encoder_layers, cfg.model.decoder_layers)
        rows.append(f"{cfg.pred_len} {'/'.join(map(str, sizes))}")
        assert (cfg.data.name.lower(), cfg.data.features.lower()) == tuple(table.split("_"))
        factor = 3 if (table, cfg.pred_len) in {("etth1_m", 24), ("etth2_s", 24)} else 5
        assert cfg.attention.mechanism.factor == factor
        model = cfg.model
        common = (model.d_model, model.n_heads, model.d_ff, model.dropout, model.mix, model.distil)
        assert common == (512, 8, 2048, 0.05, True, True)
        assert (cfg.optim.lr, cfg.data.batch_size, cfg.trainer.max_epochs) == (1e-4, 32, 6)
        assert (cfg.callbacks.early_stopping.patience, cfg.schedule._target_.split(".")[-1]) == (3, "halve_each_epoch")
    assert ", ".join(rows) == SCRIPTS[table]


@pytest.mark.parametrize("table", ["probsparse", "distilling", "decoder", "dlinear", "patchtst"])
def test_the_other_rows_are_what_their_names_say(table):
    for row in TABLES[table].rows:
        keys = recipe(table, row)
        data = keys["data"].lower()
        parts = {
            "probsparse": (keys["pred_len"], keys["seq_len"]),
            "distilling": (keys["pred_len"], keys["seq_len"]),
            "decoder": (keys["pred_len"],),
            "dlinear": (data, keys["data.features"].lower(), keys["pred_len"]),
            "patchtst": (data, keys["pred_len"]),
        }
        assert row == "_".join(map(str, parts[table]))
        assert keys["data.features"] == ("M" if table == "patchtst" or "_m_" in row else "S")


def test_the_recipes_follow_their_papers():
    linear = {row: recipe("dlinear", row) for row in TABLES["dlinear"].rows}
    rates = {"etth1": (5e-3, 32), "etth2": (5e-2, 32), "ettm1": (1e-4, 8)}
    for row, keys in linear.items():
        assert (keys["optim.lr"], keys["data.batch_size"]) == rates[row.split("_")[0]]
        assert (keys["seq_len"], keys["trainer.max_epochs"]) == (336, 10)
    for row in TABLES["patchtst"].rows:
        keys = recipe("patchtst", row)
        sizes = {"model.d_model": 128, "model.n_heads": 16, "model.d_ff": 256, "model.dropout": 0.2}
        assert keys.items() >= sizes.items() if row.startswith("ettm1") else not sizes.keys() & keys.keys()
        assert (keys["seq_len"], keys["data.batch_size"], keys["optim.lr"]) == (336, 128, 1e-4)
    for pred_len, offsets in ((336, [12, 24, 48, 72]), (480, [48, 96, 144, 168])):
        assert recipe("decoder", str(pred_len))["protocol.horizon_offsets"] == offsets
    assert {recipe("probsparse", row)["data.batch_size"] for row in TABLES["probsparse"].rows} == {8}
