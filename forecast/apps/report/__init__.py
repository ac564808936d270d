"""`forecast report`: the runs of a sweep beside one another, or a page made anew."""
