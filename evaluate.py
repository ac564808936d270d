"""Evaluate a checkpoint: python evaluate.py ckpt_path=RUN/checkpoints/best.ckpt split=test."""

from omegaconf import DictConfig

from forecast.config.entry import run


def main(cfg: DictConfig) -> None:
    """Evaluate as `cfg` says."""
    from forecast.commands.evaluate import evaluate  # torch: seconds

    evaluate(cfg)


if __name__ == "__main__":
    run(main, config_name="evaluate")
