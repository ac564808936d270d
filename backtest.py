"""How a model would have done, from rolling origins: python backtest.py model=informer data=ETTh1 backtest.folds=20."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("backtest")
