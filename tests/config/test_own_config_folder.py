"""A folder of one's own, --config-dir, holds settings as conf does."""

from program import TINY, refusal

from forecast.config.run_config import train_config


def test_an_experiment_of_ones_own_is_composed(tmp_path):
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\nlogger: {name: mine}\ntrainer: {precision: 32-true, max_epochs: 2}"
    (tmp_path / "experiment/mine.yaml").write_text(text)
    cfg = train_config(["experiment=mine"], [str(tmp_path)]).values
    assert (cfg.logger.name, cfg.trainer.precision, cfg.trainer.max_epochs) == ("mine", "32-true", 2)


def test_a_file_with_a_slip_is_told_with_its_line(tmp_path, capsys):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/best.yaml").write_text("seed: 1\noptim: [1\n")
    said = refusal(capsys, "train", "--config-dir", str(tmp_path), "experiment=best", *TINY)
    assert "best.yaml" in said and "line 3" in said and "expected ',' or ']'" in said
