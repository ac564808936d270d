"""How often intervals hold, on panels with printed figures and on simulated series: docs/intervals.md."""
