"""What is told before torch is imported."""

import subprocess
import sys

import pytest
from config.composed import composed

from forecast.config.entry import check_file
from forecast.errors import UserError


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "my.csv"
    file.write_text("date,a\n" + "2021-01-01,1\n" * 199)  # 200 lines, 201 with what may follow the last line end
    return file


def config(path, *overrides):
    return composed("data=csv", f"data.path={path}", *overrides)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"data\.path=.*none\.csv: there is no such file\. Check the path; a relative"):
        check_file(config(tmp_path / "none.csv"))


def test_a_file_that_is_not_there_is_refused_with_the_nearest_name(path):
    with pytest.raises(UserError, match=r"mv\.csv: there is no such file\. Did you mean 'my\.csv'\? Check the path"):
        check_file(config(path.with_name("mv.csv")))
    path.with_name("a.csv").touch()  # which ends alike
    with pytest.raises(UserError, match=r"Did you mean 'my\.csv'"):
        check_file(config(path.with_name("myy.csv")))


def test_a_window_longer_than_the_train_rows_can_be_is_refused(path):
    check_file(config(path, "seq_len=130", "pred_len=10"))
    match = r"my\.csv has 201 lines at most, of which 140 are for training .* needs 141 \(seq_len 131 \+ pred_len 10\)"
    with pytest.raises(UserError, match=match):
        check_file(config(path, "seq_len=131", "pred_len=10"))
    with pytest.raises(UserError, match=r"of which 20 are .*data\.split\.train=0\.1"):
        check_file(config(path, "seq_len=48", "data.split.train=0.1"))


@pytest.mark.parametrize(
    "overrides",
    [
        ["data.gaps=interpolate"],  # there may be more rows than lines
        ["data.resample=min", "data.aggregate=mean"],
        ["data/split=dates", "data.split.val_start=2021-02-01", "data.split.test_start=2021-03-01"],
        ["ckpt_path=RUN/checkpoints/last.ckpt"],
    ],
)
def test_what_lines_do_not_tell_is_left_to_the_reader(path, overrides):
    check_file(config(path, "seq_len=999", *overrides))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["data.path=none.csv"], "none.csv: there is no such file"),
        (["data.path=my.csv", "seq_len=999"], "one window needs 1023"),
        (["data.path=my.csv", "hydra.job.chdir=true"], "hydra.job.chdir=true: a relative path would mean another file"),
    ],
)
def test_the_answer_does_not_wait_for_torch(path, overrides, says):
    script = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); "
    script += "from forecast.__main__ import main; sys.argv[:1] = ['forecast']; main()"
    words = [sys.executable, "-c", script, "train", "data=csv", *overrides]
    done = subprocess.run(words, cwd=path.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "False\n") and says in done.stderr


def test_a_file_of_a_few_lines_is_left_to_the_reader_which_may_find_no_table_in_it(path):
    path.write_text("<html>\n" * 98)
    check_file(config(path, "seq_len=999"))
