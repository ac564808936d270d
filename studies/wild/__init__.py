"""Files as people have them, each with the command that check-data prints for it: docs/wild.md."""
