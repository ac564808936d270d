"""What the command line does, one file a command, and the files that a run leaves."""
