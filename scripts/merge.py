"""The command `forecast merge` from a checkout: python scripts/merge.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("merge")
