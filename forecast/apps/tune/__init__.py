"""`forecast tune`: trials of settings, until time is up."""
