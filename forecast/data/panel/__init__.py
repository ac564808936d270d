"""Many series in one array: reading, splitting, scaling and windows of panels."""
