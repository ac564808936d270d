"""A forecaster that needs none of this program, and the authors' checkpoints brought into it."""
