"""Processors that shape the distribution which a token is drawn from."""
