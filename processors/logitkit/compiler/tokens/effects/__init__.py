"""The effects of tokens: the bytes of a token take an automaton from one state to another, or act on its stack.

token_classes, column_store      classes of tokens that do the same in every state, and the columns of their prefixes
suffix_columns, cyclic_ends      the same from the ends of tokens, for an automaton with a stack
action_numbering, action_table   stack actions: the frames that a token pops and pushes
trie_walk, walked_prefixes       the tokens of a vocabulary followed as a trie, from some states
suffix_actions, text_suffixes    the suffixes of tokens after a string or a bracket, and after free text
counted_links                    the effects of tokens on counts
common_classes                   the classes of two automata together
whole_tokens                     tokens as wholes, whatever their text is
distinct_sets                    groups of equal sets, found by digests and then compared
"""
