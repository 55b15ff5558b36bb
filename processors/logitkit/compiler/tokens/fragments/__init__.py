"""The effects of tokens in a leaf: an automaton, such as that of a string, that many places of a schema share.

leaf_tokens       the effects of tokens in one leaf
leaf_stores       the behaviours of prefixes of tokens in a leaf, while these are found
leaf_partition    the tokens that act alike in each of several leaves
"""
