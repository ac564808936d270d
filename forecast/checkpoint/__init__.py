"""A checkpoint file: checked (validate), then read (load). Nothing in it is executed."""
