"""The effects of tokens: each is a text, so it takes an automaton over bytes from each state to another, or acts on its stack.

token_classes, column_store                  the tokens that act alike on every state form a class
suffix_columns, cyclic_ends       the columns of the ends of tokens, where an automaton has a stack
action_numbering, action_table  the ways in which a token leaves its frame: what is popped, and what is pushed
trie_walk, walked_prefixes                   the tokens of a vocabulary walked as a trie, through states and stacks
suffix_actions, text_suffixes  the suffixes of tokens after a place where something ends; after free text
counted_links, common_classes   links with counts; the classes of two automata together
whole_tokens               tokens as such, whatever their text is
distinct_sets              which sets are equal, found by digests and compared
"""
