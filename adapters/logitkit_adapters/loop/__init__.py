"""A loop of your own, in any array library: `Steps` keeps the states of its rows.

steps            Steps: process logits, commit tokens; select, drop and add rows
arguments        prompts, tokens and rows, in any array library or in lists
"""

from logitkit_adapters.loop.steps import Steps as Steps

__all__ = ["Steps"]
