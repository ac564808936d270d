"""Training with Lightning; together with the entry points the only code that knows it."""
