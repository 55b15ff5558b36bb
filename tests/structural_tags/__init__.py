"""Tests of structural tags."""
