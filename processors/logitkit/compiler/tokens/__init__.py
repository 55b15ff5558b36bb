"""Automata over the tokens of a vocabulary: the last step of the compiler.

compile, pushdown_compile    from an automaton over bytes to one over tokens, without and with a stack
tables       the result: tables by state and class of tokens, and what stands beside a state
effects      what a token does in each state: classes of tokens, and effects on the stack
lookahead    the same for automata that look at a byte before they read it
fragments    the effects of tokens in fragments, which many places share
linking      automata put together from parts that are compiled already
markers      any text before a marker
records      a record that is repeated many times
completion   states that cannot end, and the number of tokens to an end
"""
