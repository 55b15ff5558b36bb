"""Tokens of an automaton that looks at a byte before it reads it, as those of grammars do.

grammar_tokens        the automaton over tokens
lookahead_suffixes    the columns of the ends of tokens
cyclic_ends           rules that may end in a circle without reading anything
"""
