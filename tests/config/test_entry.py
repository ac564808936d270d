"""The programs as a user meets them: fast answers, one message for a mistake, a traceback for a bug."""

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from program import call, refusal

from forecast.config.compose import options
from forecast.config.entry import help_text
from forecast.errors import closest

ROOT = Path(__file__).parents[2]
STUB = Path(__file__).parent / "stub.py"


def ran(folder, script, *arguments, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("FORECAST", "HYDRA"))} | environment
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


MODELS = ", ".join(options("model"))
NO_KEY = "is no key of the config."
WRONG = {
    "sed=1": f"'sed' {NO_KEY} Did you mean 'seed'?",
    "modell.d_model=64": f"'modell.d_model' {NO_KEY} Did you mean 'model.d_model'?",
    "data=demo data.roows=3": f"'data.roows' {NO_KEY} Did you mean 'data.rows'?",  # data=ETTh1 has no data.rows
    "modle=informer": f"'modle' {NO_KEY} Did you mean 'model'?",
    "model=informr": "model=informr: there is no such choice. Did you mean 'informer'?",
    "-m attention=full,prbo": "attention=prbo: there is no such choice. Did you mean 'prob'?",
    "-m hydra/launcher=ray hydra.launcher.thread=2": f"'hydra.launcher.thread' {NO_KEY} Did you mean 'hydra.launcher.t",
    "evaluate: ": "ckpt_path is missing: say ckpt_path=RUN/checkpoints/best.ckpt",
    "predict: data=x ckpt_path=x": "forecast predict takes its data from the checkpoint; another",
}
HYDRAS = {  # its own words, below what was typed
    "optim=null": "Config group override must be a string or a list. Got NoneType",
    "model=zzz": "In 'train': Could not find 'model/zzz'",
    "~optim.foo": "Could not delete from config. 'optim.foo' does not exist.",
    "attention=full,prob": "Ambiguous value for argument 'attention=full,prob'",
    "seq_len=[1": "no viable alternative at input '[1'",
    "-m attention=prob,full attention.mechanism.factor=3": "Could not override 'attention.mechanism.factor'",
}


def refused(capsys, command):
    """What `[PROGRAM:] OVERRIDES` prints on stderr."""
    program, _, rest = command.rpartition(": ")
    return refusal(capsys, program or "train", *rest.split())


@pytest.mark.parametrize("command", WRONG)
def test_what_is_typed_wrong_is_answered_in_one_line(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, command)
    assert WRONG[command] in said.splitlines()[-1]


@pytest.mark.parametrize("command", HYDRAS)
def test_what_hydra_refuses_is_said_in_its_own_words_below_what_was_typed(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, command)
    assert f"forecast train {command.removeprefix('-m ')}:\n{HYDRAS[command]}" in said


def test_what_models_share_is_no_model_of_the_help():
    assert f"model: {MODELS.split(', ')[0]}" in help_text("train") and "_base" not in help_text("train")


def test_nothing_near_gives_no_hint():
    assert closest("zzz", ["seed", "optim.lr"]) == ""


def times_of_children():
    used = os.times()
    return used.children_user + used.children_system


PROGRAMS = pytest.mark.parametrize("script", ["train.py", "evaluate.py", "predict.py"])


@pytest.mark.slow
@PROGRAMS
@pytest.mark.parametrize("question", [["--help"], ["--cfg", "job"]])
def test_questions_are_answered_fast_and_write_nothing(tmp_path, script, question):
    seconds = []  # of a processor: a busy core is not the program's
    for _ in range(3):
        start = times_of_children()
        answer = ran(tmp_path, ROOT / script, *question)
        seconds.append(times_of_children() - start)
        assert (answer.returncode, answer.stderr) == (0, "")
        if seconds[-1] < 1.5:
            break
    assert min(seconds) < 1.5
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("program", "commands"),
    [("train", 7), ("evaluate", 7), ("backtest", 6), ("tune", 5), ("predict", 10), ("update", 5)],
)
def test_help_shows_commands_that_name_the_program(program, commands, capsys):
    call(program, "--help")
    assert len(re.findall(rf"^  forecast {program} \S", capsys.readouterr().out, re.M)) == commands


@pytest.mark.slow
@pytest.mark.parametrize("question", ["--help", "--cfg=job"])
def test_a_question_loads_neither_torch_nor_pandas(tmp_path, question):
    code = f"""
import atexit, sys
sys.path.insert(0, {str(ROOT)!r})
from forecast.__main__ import start
atexit.register(lambda: print("HEAVY", [m for m in ("torch", "lightning", "pandas", "numpy") if m in sys.modules]))
start("train")
"""
    end = ran(tmp_path, "-c", code, question)
    assert (end.returncode, end.stdout.splitlines()[-1]) == (0, "HEAVY []")


@pytest.mark.parametrize(
    ("users", "pages", "workspace"),
    [({}, "1", ":4096:8"), ({"THP_MEM_ALLOC_ENABLE": "0", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}, "0", ":16:8")],
)
def test_torch_is_to_use_large_pages_and_equal_products_unless_the_user_says_otherwise(
    tmp_path, users, pages, workspace
):
    report = json.loads(ran(tmp_path, STUB, **users).stdout.splitlines()[-1].removeprefix("RAN "))
    assert (report["large pages"], report["workspace"]) == (pages, workspace)


REFUSED = {
    "sed=1": "'sed' is no key of the config. Did you mean 'seed'?\n",
    "--foo": "unrecognized arguments: --foo. Did you mean '--info'? Options such as -m stand before the first",
    "--multrun": "unrecognized arguments: --multrun. Did you mean '--multirun'?",
    "seed=1 -m seed=2": "Options such as -m stand before the first key=value",
    "~model logger.name=check": f"model is missing: say model=NAME, one of {MODELS}\n",
    "data=csv logger.name=check": "data.path=null: which file? Say data.path=FILE.csv\n",
    "ckpt_path=no.ckpt": "ckpt_path=no.ckpt: there is no such file. It is RUN/checkpoints/last.ckpt or best.ckpt\n",
    "logger.name=refuse": "refused inside main\n",
    "logger.name=build": "a: optimizer got an empty parameter list\n",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_mistake_ends_with_one_message_and_status_1_or_2_and_holds_no_folder(tmp_path, ran_here, arguments):
    end = ran_here(*arguments.split())
    assert end.returncode == (2 if " --" in f" {arguments}" or " -m" in arguments else 1)  # an option, or a value
    assert REFUSED[arguments] in end.stderr
    assert len(end.stderr.splitlines()) == 1
    assert "Traceback" not in end.stdout + end.stderr
    assert not list(tmp_path.rglob(".lock.holder"))


@pytest.mark.slow
@pytest.mark.parametrize("script", ["evaluate.py", "predict.py"])
@pytest.mark.parametrize(
    ("arguments", "message"), [([], "ckpt_path is missing: say"), (["ckpt_path=no"], "ckpt_path=no: ")]
)
def test_a_missing_checkpoint_is_refused_before_a_folder_is_made(tmp_path, script, arguments, message):
    end = forked.run([sys.executable, str(ROOT / script), *arguments], cwd=tmp_path, capture_output=True)
    assert end.returncode == 1 and end.stderr.startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "environment", "status", "text"),
    [
        ("logger.name=refuse", {"FORECAST_TRACEBACK": "1"}, 1, ".*Traceback.*, in main\n.*refuse.*"),
        ("sed=1", {"FORECAST_TRACEBACK": "1"}, 1, ".*Traceback.*"),
        ("logger.name=bug", {}, 1, ".*This is a bug of forecast .*Traceback.*RuntimeError: a bug\n"),
        ("logger.name=interrupt", {}, 130, "Interrupted.\n"),
    ],
)
def test_a_bug_shows_its_traceback_a_mistake_on_demand_an_interruption_none(
    tmp_path, argument, environment, status, text
):
    end = ran(tmp_path, STUB, argument, **environment)
    assert end.returncode == status
    assert re.fullmatch(text, end.stderr, re.DOTALL)


def reports(end):
    return [json.loads(line.removeprefix("RAN ")) for line in end.stdout.splitlines() if line.startswith("RAN ")]


def test_main_runs_in_its_folder_and_knows_the_command(tmp_path, ran_here):
    end = ran_here("seed=3", "hydra.verbose=false")
    (report,) = reports(end)
    assert end.stderr == ""
    assert (report["overrides"], report["seed"], report["model"]) == (["seed=3"], 3, "informer")
    assert Path(report["folder"]).relative_to(tmp_path).parts[0] == "outputs"
    assert {path.name for path in Path(report["folder"]).iterdir()} == {".hydra", ".lock", "train.log"}


def test_a_continued_run_keeps_its_folder_and_its_first_config(tmp_path, ran_here):
    (first,) = reports(ran_here("seed=3"))
    folder = Path(first["folder"])
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "last.ckpt").touch()
    before = (folder / ".hydra" / "config.yaml").read_text()
    (second,) = reports(ran_here(f"ckpt_path={folder}/checkpoints/last.ckpt"))
    assert second["folder"] == first["folder"]
    assert (folder / ".hydra" / "config.yaml").read_text() == before


def test_a_sweep_has_one_folder_for_each_identity_and_is_repeatable(tmp_path, ran_here):
    command = ["-m", "attention=full,prob", "seed=1,2", "data=demo"]
    folders = {report["folder"] for report in reports(ran_here(*command))}
    assert len(folders) == 4
    (folder,) = {Path(folder).parent for folder in folders}
    assert folder.parent == tmp_path / "multirun" and folder.name.startswith(str(datetime.date.today()))
    assert {report["folder"] for report in reports(ran_here(*command))} == folders


def test_a_failing_job_of_a_sweep_is_reported_and_the_others_run(tmp_path, ran_here):
    end = ran_here("-m", "experiment=quickstart", "logger.name=a,refuse,b")
    assert len(reports(end)) == 2
    assert Path(reports(end)[0]["folder"]).parent == tmp_path / "multirun" / "quickstart"
    assert end.returncode == 1
    text, advice = end.stderr.splitlines()[-2:]
    assert text == "refused inside main"
    assert advice.startswith("What has finished is kept: the same command runs the rest, and `forecast report FOLDER`")
    assert "Traceback" not in end.stdout + end.stderr
    info = json.loads(Path(reports(end)[0]["folder"], "run.json").read_text())
    assert info == {"status": "failed", "error": "refused inside main"}


def test_an_ablation_without_m_is_refused(tmp_path, ran_here):
    end = ran_here("experiment=ablation/scramble")
    assert end.returncode == 1 and reports(end) == []
    assert end.stderr == "experiment=ablation/scramble is a sweep over attention, seed: add -m to run it\n"


def test_the_command_line_wins_over_what_an_ablation_varies(tmp_path, ran_here):
    results = reports(ran_here("-m", "experiment=ablation/scramble", "data=demo", "seed=7"))
    overrides = [
        {"experiment=ablation/scramble", "data=demo", f"attention={name}", "seed=7"}
        for name in ("prob", "prob_scrambled")
    ]
    assert [set(report["overrides"]) for report in results] == overrides
