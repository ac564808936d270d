"""Published tables: their rows as trainings, what came of them, and how far off it is."""

# How many seeds of a row are wanted.
SEEDS = 3
