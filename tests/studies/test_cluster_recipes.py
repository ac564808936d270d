"""docs/cluster_recipes.md: every block of the page is run as it stands there, on two hosts that are namespaces.

Of the made-up data fewer rows: the last word of each command, data.rows, is not the page's.

The scheduler is a stand-in: it runs at once what it is given, with the variables that SLURM sets. The processes of
Python are forked (forked.py), but Spark's.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import hosts
import pandas as pd
import pytest
import yaml
from forked_training import HOST

PAGE = (hosts.ROOT / "docs" / "cluster_recipes.md").read_text()
BLOCKS = [block for _, block in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
# a block that is added to the page ends these tests until one of them runs it
TORCHRUN, TRAIN_SH, TRAIN, SEEDS_SH, SEEDS, SCORE_SH, SCORE, TRAIN_YAML, SPARK_PY, SPARK, CRON = BLOCKS
TUTORIALS = hosts.ROOT / "docs" / "tutorials"

SBATCH = """#!/usr/bin/env bash
while [[ $1 == --* ]]; do
    if [[ $1 == --wrap ]]; then exec bash -c "$2"; fi
    shift
done
export SLURM_JOB_ID=77 SLURM_CPUS_PER_TASK=1
count=$(sed -nE 's/^#SBATCH .*--array=1-([0-9]+).*/\\1/p' "$1")
for number in $(seq "${count:-1}"); do
    if [[ $count ]]; then export SLURM_ARRAY_TASK_ID=$number SLURM_ARRAY_TASK_COUNT=$count; fi
    bash "$1" >&2 || exit
done
echo 77
"""
SCONTROL = """#!/usr/bin/env bash
[[ "$1 $2" == "show hostnames" ]] && tr , '\\n' <<< "$3"
"""

FORK = shlex.join(forked.command())
FEWER = 'case "$*" in *data=demo*) set -- "$@" data.rows=1500;; esac'

pytestmark = pytest.mark.slow


@pytest.fixture
def two():
    if why := hosts.refused():
        pytest.skip(f"no network namespaces here: {why}")
    with hosts.two_hosts(first="host-a train-0.train") as both:
        yield both


@pytest.fixture
def shell(tmp_path):
    """Runs a block of the page in a folder; returns what it printed. It must succeed."""
    commands = {
        "python": f'#!/bin/sh\nexec {FORK} "$@"\n',
        "forecast": f'#!/bin/sh\n{FEWER}\nexec {FORK} -m forecast "$@"\n',
        "torchrun": f'#!/bin/sh\n{FEWER}\nexec {FORK} -m torch.distributed.run "$@"\n',
        "sbatch": SBATCH,
        "scontrol": SCONTROL,
    }
    (tmp_path / "bin").mkdir()
    for name, text in commands.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    def run(text, **more):
        done = subprocess.run(
            ["bash", "-e", "-c", text], cwd=tmp_path, env=environment(tmp_path) | more, timeout=300, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    return run


def environment(folder):
    variables = {k: v for k, v in os.environ.items() if k not in ("PL_GLOBAL_SEED", "LOCAL_RANK", "WORLD_SIZE")}
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    here = {"PYTHONPATH": str(hosts.ROOT), forked.PLACE: forked.server()}
    return variables | here | {"PATH": path, "OMP_NUM_THREADS": "1"}


def on_both(two, folder, texts, **more):
    """Runs a text on each host at once; what each has printed. Both must succeed."""
    variables = environment(folder) | more
    processes = [host.start("bash", "-c", text, cwd=folder, **variables) for host, text in zip(two, texts, strict=True)]
    printed = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    return printed


def test_torchrun_on_two_hosts(two, shell, tmp_path):
    printed = on_both(two, tmp_path, [TORCHRUN, TORCHRUN.replace("--node-rank=0", "--node-rank=1")])
    assert "Everything about this run is in" in printed[0]
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["torchrun-demo"]


def test_a_slurm_job_on_two_nodes_goes_on_when_it_is_requeued(two, shell, tmp_path):
    named = [f"{HOST}={host.name} {shlex.join(host.words())} " for host in two]
    tasks = [f"SLURM_NODEID={n} {words}" + '"$@" &' for n, words in enumerate(named)]
    srun = tmp_path / "bin" / "srun"
    srun.write_text("\n".join(["#!/usr/bin/env bash", *tasks, "wait -n && wait -n"]))
    srun.chmod(0o755)
    (tmp_path / "train.sh").write_text(TRAIN_SH)
    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": ",".join(host.name for host in two)}
    assert "Going on from" not in shell(TRAIN, **slurm)
    assert "Going on from" in shell(TRAIN, **slurm)
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["slurm-77"]


def test_a_slurm_array_trains_each_seed_and_they_are_compared(shell, tmp_path):
    (tmp_path / "seeds.sh").write_text(SEEDS_SH)
    shell(SEEDS)
    assert sorted(path.parent.name for path in tmp_path.glob("seeds/*/metrics.json")) == ["1", "2", "3"]
    assert "3 runs: 3 finished." in (tmp_path / "seeds" / "report.md").read_text()


def test_two_pods_of_an_indexed_job_train_and_go_on_when_they_are_started_again(two, shell, tmp_path):
    service, job = yaml.safe_load_all(TRAIN_YAML)
    spec = job["spec"]["template"]["spec"]
    (pod,) = spec["containers"]
    assert service["metadata"]["name"] == spec["subdomain"] and service["spec"]["selector"] == {"job-name": "train"}
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == len(two)
    assert f"{job['metadata']['name']}-0.{spec['subdomain']}" in pod["args"][0]
    texts = [f"export JOB_COMPLETION_INDEX={n}\n{pod['args'][0]}" for n in range(2)]
    on_both(two, tmp_path, texts)
    assert "Going on from" in on_both(two, tmp_path, texts)[0]
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["train"]


@pytest.fixture
def shops(shell, tmp_path):
    """shops.csv and the run `ridge`, as the tutorial makes them."""
    text = (TUTORIALS / "many-series.md").read_text()
    python, train = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:2]
    (tmp_path / "make.py").write_text(python)
    shell("python make.py\n" + train.partition("forecast train model=informer")[0])


def test_a_slurm_array_forecasts_a_panel_in_parts(shops, shell, tmp_path):
    (tmp_path / "score.sh").write_text(SCORE_SH)
    assert "3 parts, 200 series" in shell(SCORE)
    shell("forecast predict ckpt_path=ridge/checkpoints/best.ckpt output=whole.parquet")
    pd.testing.assert_frame_equal(*(pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("forecast", "whole")))


def test_spark_forecasts_every_series(shops, shell, tmp_path):
    pytest.importorskip("pyspark", reason="needs pyspark: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java")
    (tmp_path / "spark.py").write_text(SPARK_PY)
    path = f"{environment(tmp_path)['PATH']}:{Path(sys.executable).parent}"
    shell(SPARK, PYSPARK_PYTHON=sys.executable, PATH=path)
    shell("forecast predict ckpt_path=ridge/checkpoints/best.ckpt output=whole.parquet")
    spark, whole = (pd.read_parquet(tmp_path / name) for name in ("forecast-of-spark", "whole.parquet"))
    assert len(spark) == len(whole) == 200 * 14
    spark, whole = (table.sort_values(["unique_id", "ds"]).reset_index(drop=True) for table in (spark, whole))
    assert (spark[["unique_id", "ds"]].astype(str) == whole[["unique_id", "ds"]].astype(str)).all(axis=None)
    pd.testing.assert_series_equal(spark["y"], whole["y"], rtol=1e-6)


def test_the_line_of_cron(shell, tmp_path):
    text = (TUTORIALS / "every-morning-at-six.md").read_text()
    python, train = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:2]
    (tmp_path / "make.py").write_text(python)
    shell(f"python make.py\n{train}")
    path, line = CRON.splitlines()
    assert path.startswith("PATH=")
    command = line.split(maxsplit=5)[5].replace("/home/me/load", str(tmp_path))
    assert "The first update" in shell(command)
    assert "Nothing new" in shell(command)
