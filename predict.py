"""Forecast what comes next: python predict.py ckpt_path=RUN/checkpoints/best.ckpt data.path=my.csv."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("predict")
