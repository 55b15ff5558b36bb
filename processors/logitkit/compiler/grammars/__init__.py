"""From the rules of a grammar to a deterministic pushdown automaton over bytes.

rules                        what comes in: trees that call each other
limited_rules                rules that a limited number of tokens may write: signs in their trees
rule_automata                 the minimal automaton of each rule over characters and calls
call_inlining, nfa           left recursion as loops, and which calls stay calls
stack_machine, lookahead     one nondeterministic automaton over bytes with a stack, and which symbols may come next
lr_states, plans             made deterministic by sets: the nodes, and what symbols do in one
simulation                   the frames that all configurations share, and configurations that others make needless
contradictions               without what conditions on the next character leave no text after
dfa                          all of it
"""
