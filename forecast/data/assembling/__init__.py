"""Rows of any number of series, in any layout, brought onto one grid: a panel."""
