"""Forecast what comes next: python predict.py ckpt_path=RUN/checkpoints/best.ckpt data.path=my.csv."""

from omegaconf import DictConfig

from forecast.config.entry import run


def main(cfg: DictConfig) -> None:
    """Predict as `cfg` says."""
    from forecast.commands.predict import predict  # torch: seconds

    predict(cfg)


if __name__ == "__main__":
    run(main, config_name="predict")
