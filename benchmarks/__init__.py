"""Our program and its peers on the same work, in turns: scripts/benchmark.py prints what is measured here."""
