"""Time and memory beside other implementations. Usage: python scripts/benchmark.py PART|all [--help]

See benchmarks/command_line.py for the parts, and docs/performance.md for what came of them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is no part of the installed package

from benchmarks.command_line import main

if __name__ == "__main__":
    main()
