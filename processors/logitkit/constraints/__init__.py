"""Processors that keep the text in a language."""
