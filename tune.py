"""The settings of a model with the lowest validation error: python tune.py model=dlinear data=ETTh1 tune.minutes=10."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("tune")
