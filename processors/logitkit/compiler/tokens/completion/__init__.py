"""How a text is completed: tokens that lead to a dead end are left out, and the number of tokens to the end is known.

dead_ends               the states from which the tokens cannot complete the text
min_tokens_to_finish    the least number of tokens to the end
grammar_min_tokens      an upper bound on this number for a grammar
rule_progress           rules of a limited number of tokens that cannot be completed
"""
