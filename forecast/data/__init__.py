"""From a CSV to batches: locate, read, split, scale, window."""
