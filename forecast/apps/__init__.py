"""The commands, a file or a folder each; none imports another: one that runs another does so by its name."""
