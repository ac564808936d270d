"""The command `forecast import-informer2020` from a checkout: python scripts/import_informer2020.py --help."""

from forecast.__main__ import start

if __name__ == "__main__":
    start("import-informer2020")
