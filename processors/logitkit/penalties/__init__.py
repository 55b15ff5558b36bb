"""Processors that make tokens likelier or less likely for what the row has said already."""
