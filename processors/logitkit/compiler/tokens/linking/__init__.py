"""Automata that are put together from parts whose effects of tokens are known already.

linked_fragment, linked_classes  a fragment in all its instances, and the classes of tokens in an automaton of instances
token_concatenation, joined_tables    one token automaton after another
intersection                   the texts that two token automata both allow
"""
