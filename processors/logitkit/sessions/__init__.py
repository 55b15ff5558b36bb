"""Generations that continue others, and what they may reuse: pure functions on tokens and tensors."""
