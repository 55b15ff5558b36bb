"""The result of the compiler: tables that say, for each state and each class of tokens, what a token does.

token_automaton         the whole result: classes of tokens, a table by state and class, and the parts below
token_table             the table itself: where each class of tokens leads from each state
targets                 numbers for states and actions in tables
counted_state           counts of characters beside states
pushdown_table, stack_actions  the effects of tokens on the stack, where languages nest, and their tables
mask_key, packed_stacks  the keys of masks with a stack; stacks on the host
layers                  texts of a limited number of tokens, one layer of states for each number
short_fallbacks         chains of rows that refer to other rows are shortened
"""
