"""Sections of a text in which a model thinks."""
