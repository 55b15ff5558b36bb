"""Automata that are put together from parts whose effects of tokens are known already.

linked_leaf, linked_classes    a leaf in all its copies, and the classes of tokens in an automaton of copies
token_concatenation, pushdown_concatenation    one token automaton after another, without and with a stack
intersection                   the texts that two token automata both allow
"""
