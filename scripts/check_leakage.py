"""The command `forecast check-leakage` from a checkout: python scripts/check_leakage.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("check-leakage")
