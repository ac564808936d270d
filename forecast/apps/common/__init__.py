"""What several commands begin with, read, write and say."""
