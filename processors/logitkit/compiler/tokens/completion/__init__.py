"""The tokens to an end: states that cannot end are left out, and a limit of tokens is kept.

dead_ends               the states from which no end can be reached
min_tokens_to_finish    the least number of tokens to an end
grammar_min_tokens      an upper bound on that of a grammar
"""
