"""Thin adapters: one package per engine, each with `vocabulary` and `logits_processor`."""
