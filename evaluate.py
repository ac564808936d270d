"""Evaluate a checkpoint: python evaluate.py ckpt_path=RUN/checkpoints/best.ckpt split=test."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("evaluate")
