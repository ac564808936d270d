"""The entries of a checkpoint that are ours, and the number of their format."""

RECORD = "forecast"  # the key of our part
SERIES = "series"  # its entry on the series of the training
REFIT = "refit"  # its entry on the rows that a model was trained on once more
FORMAT = 3  # raised when another program could misread a file
