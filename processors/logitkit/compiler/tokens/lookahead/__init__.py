"""Tokens of an automaton that looks at a byte before it reads it, as those of grammars do.

grammar_tokens    the automaton over tokens
action_layers     tokens with several actions in a state: layers with one of them each
"""
