"""What a model is worth: its errors on every window, beside baselines, and the proof that nothing leaks."""
