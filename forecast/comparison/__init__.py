"""Many runs side by side: rows of one setting, their spread over seeds, and which differences are sure."""
