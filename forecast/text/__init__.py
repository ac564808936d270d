"""Text of others, such as names of columns and files or the errors in a run folder: to be read, never obeyed."""
