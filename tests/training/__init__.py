"""Replay for training: compared with explicit loops over steps, by hand, and with what engines return."""
