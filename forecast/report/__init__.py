"""What a person reads of a run: the verdict, tables, pictures. Nothing here imports torch."""
