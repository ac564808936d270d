"""report.html: one page of a run that a person can read, in one file without anything from elsewhere."""
