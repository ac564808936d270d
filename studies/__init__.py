"""What is measured of the program beside others and by itself: published rows, intervals, wild files, documents."""
