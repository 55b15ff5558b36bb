"""Campaigns: random input against an independent judge, for as long as you like: `scripts/fuzz`, `python -m tests.campaigns`."""
