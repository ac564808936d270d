"""The command `forecast check-data` from a checkout: python scripts/check_data.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("check-data")
