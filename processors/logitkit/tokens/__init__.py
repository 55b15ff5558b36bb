"""Processors that name tokens by their ids."""
