"""Keep a forecast up: python update.py ckpt_path=RUN/checkpoints/best.ckpt data.path=history.csv."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("update")
