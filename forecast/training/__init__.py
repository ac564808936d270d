"""Training with Lightning. Beside this room only apps/train.py knows it."""
