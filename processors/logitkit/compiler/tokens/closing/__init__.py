"""The tokens to an end: states that cannot end are left out, and a limit of tokens is kept.

dead_ends         the states from which no end can be reached
min_tokens_to_finish      the number of tokens to an end
flat_closing      that of a finite automaton, exactly
grammar_closing   that of a grammar, at most
"""
