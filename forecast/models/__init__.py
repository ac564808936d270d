"""Models: one architecture a file. All are called (past, past_known, future_known) -> forecast, in scaled units."""
