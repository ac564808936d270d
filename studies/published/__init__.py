"""Published tables: their rows as trainings, our results, and how far off they are."""

# How many seeds of a row are wanted.
SEEDS = 3
