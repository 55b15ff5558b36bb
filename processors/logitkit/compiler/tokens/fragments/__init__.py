"""The effects of tokens in a fragment: an automaton, such as that of a string, that many places of a schema share.

fragment_tokens   the effects of tokens in one fragment
fragment_stores   the columns of prefixes of tokens in a fragment, while these are found
fragment_partition  the tokens that act alike in each of several fragments
"""
