"""Automata that are put together from parts whose effects of tokens are known already.

linked_leaf, linked_classes    the effects in one copy of a leaf, and the classes of an automaton of copies
token_concatenation, pushdown_concatenation    one token automaton after another, without and with a stack
intersection                   the texts that two token automata both allow
"""
