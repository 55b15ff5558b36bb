"""Thin adapters: one module per engine, each with `vocabulary` and `logits_processor`."""
