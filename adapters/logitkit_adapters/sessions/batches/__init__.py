"""All rows of a sequence state in one engine."""
