"""Tests of output types."""
