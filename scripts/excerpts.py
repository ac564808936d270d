"""Do README.md and docs/ show what the program prints? Usage: python scripts/excerpts.py --check | --run [NAME ...]

See results/README.md for the marks in the documents and the records in results/excerpts.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/ is no part of the installed package

from studies.documents.command_line import main

if __name__ == "__main__":
    main()
