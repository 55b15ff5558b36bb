"""The effects of tokens in a fragment: an automaton, such as that of a string, that many places of a schema share.

fragment_tokens      the effects of tokens in one fragment, kept for each vocabulary
fragment_stores      the columns of prefixes of tokens in a fragment, from which these effects are found
fragment_partition   classes of tokens that do the same in each of several fragments
"""
