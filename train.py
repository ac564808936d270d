"""Train, then evaluate the best checkpoint: python train.py model=informer data=ETTh1."""

from omegaconf import DictConfig

from forecast.config.entry import run


def main(cfg: DictConfig) -> None:
    """Train as `cfg` says."""
    from forecast.commands.train import train  # torch and lightning: seconds

    train(cfg)


if __name__ == "__main__":
    run(main, config_name="train")
