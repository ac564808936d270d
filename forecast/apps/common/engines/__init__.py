"""Parts of an evaluation or a forecast that workers of a cluster make."""
