"""The command `forecast inspect-checkpoint` from a checkout: python scripts/inspect_checkpoint.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("inspect-checkpoint")
