"""The command `forecast report` from a checkout: python scripts/report.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("report")
