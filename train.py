"""Train, then evaluate the best checkpoint: python train.py model=informer data=ETTh1."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("train")
