"""Automata that are put together from compiled parts.

linked_classes        the classes of tokens in an automaton with instances of fragments
linked_fragment       one fragment in all its instances
token_concatenation   one token automaton after another, with its stack
joined_tables         the tables of two token automata one after another
intersection          the texts that two token automata both allow
"""
