"""The result of the compiler: tables that say, for each state and each class of tokens, what a token does.

token_automaton   the whole result: classes of tokens, a table by state and class, and the parts below
token_table       where each class of tokens leads from each state
targets           numbers for states and stack actions in tables
counted_state     a state with a count of characters, as one number
pushdown_table    the effects of tokens on the stack and the count of a row
stack_actions     these effects as arrays
mask_key          all that a mask depends on, and the classes that are legal for it
packed_stacks     stacks on the host, as bytes
layers            texts of a limited number of tokens, with one layer of states for each number
short_fallbacks   chains of fallbacks, made short
"""
