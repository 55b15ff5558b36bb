"""Patterns in Python's `re` syntax, as syntax trees over sets of code points."""
