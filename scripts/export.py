"""The command `forecast export` from a checkout: python scripts/export.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("export")
