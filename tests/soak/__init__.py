"""Soaks: mixed load for half an hour, in which no text is wrong and no process grows: `scripts/soak`."""
