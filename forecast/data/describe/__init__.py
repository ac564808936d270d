"""What `check-data` proposes for a file: what is chosen and why, what is refused, the command that trains on it."""
