"""What all of data speaks in: arrays, findings, frequencies, features of time."""
