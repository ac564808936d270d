"""The command `forecast auto` from a checkout: python scripts/auto.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("auto")
