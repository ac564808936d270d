"""What is in a file that somebody wants to train on: all that is wrong with it, and the command to run next."""
