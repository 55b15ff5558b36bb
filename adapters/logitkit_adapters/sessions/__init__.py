"""A generation that continues another, and keeps its cache."""
