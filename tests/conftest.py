"""Where reference files and the ETT data are, which reference file belongs to which test, and which tests are core."""

import gc
import io
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from mutants import MUTANTS
from shapes_once import each_shape_once

from forecast.run_folder.commit import commit

each_shape_once()
gc.disable()  # until the tests begin: it would look again and again through what imports and collection make

# Images of containers often forbid bytecode. Without it each process compiles all tests and the program anew, which in
# a fast run takes twenty seconds of a processor. __pycache__ is in .gitignore.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read before the first product on a GPU, of any test

# Folders and files of `pytest -m core`, less what is slow and NOT_CORE: it trains, starts a process or takes long.
CORE = (
    *("attention", "ops", "layers", "data", "config", "checkpoint"),
    *("models/test_model_laws.py", "models/test_base.py", "evaluation/test_metrics.py", "test_architecture.py"),
)
NOT_CORE = (
    "config/test_experiments.py",
    "config/test_lock.py",
    "config/test_odd_overrides.py",
    "ops/test_trees.py",  # scikit-learn asks lscpu for the processors, unless OMP_NUM_THREADS says how many
    "test_any_window_is_learned_from_and_forecast",
    "test_each_model_takes_a_role_or_names_those_that_do",
    "test_the_frequency_is_found_in_spite_of_gaps",
    "test_every_option_passes_the_check",
    "test_the_nn5_file_holds_111_daily_series_with_gaps",
    "test_a_run_goes_on_with_what_conf_has_and_with_names_of_its_own",
    "test_a_path_or_an_address_in_the_checkpoint_is_refused_with_what_to_type_instead",
    "test_a_check_finds_an_error_in_just_the_files_that_the_reader_refuses",
    "test_neither_gaps_nor_chunks_change_a_fault_and_a_check_lists_it_with_its_count",
    "test_no_attention_calls_what_a_gpu_refuses_in_deterministic_mode",
    "test_torch_is_to_use_large_pages_and_equal_products_unless_the_user_says_otherwise",
    "test_an_ablation_without_m_is_refused",
    "test_after_a_kill_the_next_conversion_begins_anew_to_the_same_bytes",
    "test_every_file_of_a_run_is_read_without_pickle",
    "test_every_program_says_that_the_weights_do_not_fit[train]",  # git is asked for the commit
    "test_weights_without_the_state_of_their_training_are_told_from_a_last_ckpt",
    "test_no_csv_is_committed",
    "test_no_entry_point_calls_a_hostile_target",
    "test_the_command_line_wins_over_an_experiment",
)


# Folders and files of `pytest -m full`, but for tests that planted faults name: they train, again and again.
FULL = (
    *("apps", "scripts", "benchmark"),
    *("attention/test_maps.py", "attention/test_pattern_forms.py", "checkpoint/test_damaged_checkpoints.py"),
    *(
        "checkpoint/test_no_pickle.py",
        "config/test_composition.py",
        "config/test_lock.py",
        "config/test_model_roles.py",
    ),
    *("data/test_panel_cache.py", "data/test_damaged_csv.py", "models/test_decoding.py"),
    *(
        "models/test_meta_device.py",
        "data/test_check_file.py",
        "data/test_check_choices.py",
        "data/test_calendars.py",
        "config/test_resume.py",
    ),
    *("data/test_read.py", "config/test_best_experiment.py", "config/test_experiments.py"),
    *("checkpoint/test_hostile_checkpoints.py", "checkpoint/test_trusted_checkpoints.py"),
    *("test_cuda.py", "test_determinism.py", "test_requirements.py", "test_works_for.py"),
    *(
        "comparison/test_backtest_page.py",
        "comparison/test_bootstrap.py",
        "comparison/test_comparison_page.py",
    ),
    *("evaluation/test_baselines.py", "evaluation/test_gaps_at_borders.py", "evaluation/test_leakage.py"),
    *(
        "laws/test_a_series_far_away_changes_nothing.py",
        "laws/test_a_training_of_a_panel_of_one.py",
        "laws/test_one_series_is_a_panel_of_one.py",
    ),
    *(
        "models/test_boosted_trees.py",
        "models/test_decoder_only.py",
        "models/test_ensemble.py",
        "models/test_features_of_trees.py",
        "models/test_roles_of_models.py",
        "models/test_smoothing.py",
        "models/test_spread_of_models.py",
    ),
    *("report/test_advised_roles.py", "report/test_figures.py"),
    *(
        "training/test_checkpoint.py",
        "training/test_compiled.py",
        "training/test_devices.py",
        "training/test_dry_step.py",
        "training/test_exact_resume.py",
        "training/test_first_validation.py",
        "training/test_loggers.py",
        "training/test_losses.py",
        "training/test_models.py",
        "training/test_other_code.py",
        "training/test_panel_models.py",
        "training/test_precision.py",
        "training/test_refit_steps.py",
        "training/test_run_folder.py",
        "training/test_spreads.py",
        "training/test_stopping.py",
        "training/test_throughput.py",
        "training/test_trial.py",
    ),
)
# Though planted faults name them: they, or what they begin with, take seconds.
FULL_THOUGH_PLANTED = (
    "test_stopped_at_any_write_the_state_is_whole_and_the_same_command_goes_on_to_the_same_bytes",
    "test_a_run_resumed_from_any_last_checkpoint_ends_with_the_same_bits",
    "test_the_cheap_form_and_its_gradients_are_those_of_the_mask",
    "test_the_program_draws_no_random_numbers_and_gives_one_answer",
    "test_what_a_checkpoint_cannot_do_is_refused",
    "test_where_nothing_is_trained_another_request_begins_anew",
    "test_a_kill_leaves_the_older_results_or_files_that_are_seen_not_to_belong_together",
    "test_what_is_not_there_may_be_a_zero_that_was_measured",
    "test_missed_days_count_as_far_as_they_were_forecast_and_hours_make_a_day_before_it_is_judged",
)


# They would keep one process busy after the other has ended.
# Some of their tests need a package of an extra.
EXTRAS = (
    *(
        "apps/test_exported_formats.py",
        "apps/test_on_ray.py",
        "apps/test_roles_of_a_run.py",
        "apps/test_statistical_models.py",
    ),
    *("data/test_midnights.py", "data/test_roles.py", "data/test_workbooks.py", "models/test_statistical.py"),
    *("test_works_for.py", "training/test_loggers.py", "training/test_panel_models.py"),
)
LONGEST = {
    "test_a_file_and_a_horizon_are_enough_for_a_forecast",
    "test_twenty_kills_at_random_moments_change_no_bit",
    "test_the_quickstart_beats_the_ridge",
    "test_training_with_compile_ends_with_the_figures_of_training_without",
    "test_a_killed_sweep_redoes_exactly_the_unfinished_jobs",
    "test_killed_at_nine_moments_it_ends_with_the_same_leaderboard",
    "test_killed_at_five_random_moments_it_ends_with_the_same_bytes",
    "test_the_minutes_are_kept_to_within_three_seconds",
    "test_a_damaged_file_is_read_as_it_is_or_refused_in_words",
    "test_a_check_and_the_reader_agree_on_many_files",
}


def pytest_addoption(parser):
    """--golden=DIR: other reference tensors than our own copy (`pytest tests --golden=DIR`)."""
    own = Path(__file__).parent / "golden"
    parser.addoption("--golden", default=str(own), metavar="DIR", help="folder of reference tensors (NAME.npz)")


def pytest_xdist_auto_num_workers(config):
    """Two processes; three for the slow tests, which wait for other processes a third of their time."""
    return 3 if config.option.markexpr.startswith("slow") else 2


def places(path):
    """A test file and the folders that it is in, as CORE names them."""
    path = path.relative_to(Path(__file__).parent)
    return {path.as_posix(), *map(str, path.parents)}


def pytest_ignore_collect(collection_path, config):
    """Files without a test that `-m core`, or plain pytest, chooses are not even imported."""
    chosen = {Path(place).name for place in config.args} != {"tests"} or config.option.keyword
    if collection_path.suffix != ".py" or (chosen and config.option.markexpr != "core"):
        return None
    inside, marks = places(collection_path), config.option.markexpr
    planted = {mutant_node.partition("::")[0] for mutant in MUTANTS for mutant_node in mutant.tests}
    full = inside & {*FULL} and not inside & {file.removeprefix("tests/") for file in planted}
    return True if (marks == "core" and not inside & {*CORE}) or (marks.startswith("not full") and full) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks the tests of CORE, FULL and studies, before pytest chooses by -m; LONGEST come first."""
    items.sort(key=lambda item: item.originalname not in LONGEST)
    planted = {node.partition("[")[0] for mutant in MUTANTS for node in mutant.tests}
    for item in items:
        inside, node = places(item.path), item.nodeid.partition("[")[0]
        left_out = item.get_closest_marker("slow") or {*inside, item.name, item.originalname} & {*NOT_CORE}
        if inside & {*CORE} and not left_out:
            item.add_marker("core")
        if inside & {*FULL} and (node not in planted or item.originalname in FULL_THOUGH_PLANTED):
            item.add_marker("full")
        for mark, files in {"study": ["studies"], "extras": EXTRAS, "gpu": ["test_cuda.py"]}.items():
            if inside & {*files}:
                item.add_marker(mark)


@pytest.fixture(autouse=True)
def no_process_in_core(request, monkeypatch):
    """A core test that starts a process fails."""
    if request.node.get_closest_marker("core") is None:
        return
    commit()  # by git, once in a process

    def refuse(*_, **__):
        pytest.fail("a core test starts a process: name it in NOT_CORE of tests/conftest.py")

    starters = [(subprocess, "Popen"), (multiprocessing.process.BaseProcess, "start"), (os, "fork")]
    for place, name in starters:
        monkeypatch.setattr(place, name, refuse)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Two threads beside another busy process are many times slower than one."""
    import torch  # here and not above: the process that hands out tests reads this file, and all wait for it

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def small_pictures(request):
    """A picture of forecasts has one panel and, for each set of names and shapes, is drawn once.

    Twelve panels take longer than the tiny training that they show, and one as long as its validations.
    """
    if request.config.option.markexpr == "core":
        yield  # trains nothing
        return
    from matplotlib.figure import Figure

    from forecast.apps.common import results
    from forecast.report import figures

    def plain(name):
        """True of short names in usual letters, whose pictures differ in nothing else; of others the name."""
        return re.fullmatch(r"[A-Za-z0-9 ._-]{0,60}", str(name)) is not None or name

    draw, savefig, drawn = figures.forecast_figure, Figure.savefig, {}

    def draw_once(**shown):
        found = {name: v for name, v in shown.items() if isinstance(v, np.ndarray)}
        arrays = {name: (*v.shape[:-1], v.shape[-1] > 1, np.isnan(v).any()) for name, v in found.items()}
        others = [name for name in shown["columns"] if plain(name) is not True]
        there = sorted(name for name, value in shown.items() if value is not None)
        key = str([there, arrays, others, plain(shown.get("title", "")), shown.get("baseline_name")])
        if key not in drawn:
            drawn[key] = draw(**{**shown, "max_columns": 1})
        return drawn[key]

    def save_once(figure, path, **options):
        if figure not in drawn.values() or hasattr(path, "write"):  # a logger's buffer
            return savefig(figure, path, **options)
        if not hasattr(figure, "written"):
            figure.written = io.BytesIO()
            savefig(figure, figure.written, **options)
        return Path(path).write_bytes(figure.written.getvalue())

    with (
        mock.patch.object(results, "DRAWN_WINDOWS", 1),
        mock.patch.object(figures, "forecast_figure", draw_once),
        mock.patch.object(Figure, "savefig", save_once),
    ):
        yield


@pytest.fixture(scope="session", autouse=True)
def fast_configs(small_pictures):
    """Hydra reads and composes nothing twice, and the garbage collector leaves alone what has been imported."""
    from config.composed import fast_hydra

    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)  # a config or a model is thousands of objects
    gc.enable()
    with fast_hydra():
        yield


@pytest.fixture(scope="session", autouse=True)
def sweeps_are_forked(request):
    """A backtest that trains anew starts a sweep: not for each an interpreter and its imports, see forked.py."""
    if request.config.option.markexpr == "core":
        yield  # starts no process
        return
    from forked import forked_by

    with forked_by("jobs.trainings"):
        yield


def pytest_generate_tests(metafunc):
    """A test marked golden_family(prefix, ...) runs once for each reference file whose name begins so."""
    marker = metafunc.definition.get_closest_marker("golden_family")
    if marker is None:
        return
    folder = Path(metafunc.config.getoption("--golden"))
    files = [f for prefix in marker.args for f in sorted(folder.glob(f"{prefix}*.npz"))]
    reason = f"no {' or '.join(marker.args)} file in {folder}"
    cases = files or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    metafunc.parametrize("golden_file", cases, ids=lambda f: f.stem if f else "none")


@pytest.fixture(scope="session")
def golden(request):
    """The folder of reference files."""
    folder = Path(request.config.getoption("--golden"))
    if not any(folder.glob("*.npz")):
        pytest.fail(f"--golden {folder} holds no .npz file: nothing would be compared")
    return folder


@pytest.fixture
def case(golden, golden_file):
    """The content of a reference file; its `config` is a JSON string."""
    with np.load(golden_file) as arrays:
        return dict(arrays)


@pytest.fixture(scope="session")
def ett_root():
    """The folder of ETTh1.csv and ETTh2.csv; they are licensed and not part of the project."""
    root = os.environ.get("FORECAST_DATA")
    if not root or not (Path(root) / "ETTh1.csv").exists():
        pytest.skip("FORECAST_DATA does not name a folder with ETTh1.csv and ETTh2.csv")
    return Path(root)
