"""Training with Lightning. Beside this room only commands/train.py knows it."""
