"""From the rules of a grammar to a deterministic pushdown automaton over bytes.

rules    what comes in: trees that call each other
"""
