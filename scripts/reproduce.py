"""The command `forecast reproduce` from a checkout: python scripts/reproduce.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("reproduce")
