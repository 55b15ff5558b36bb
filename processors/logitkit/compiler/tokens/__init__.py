"""Automata over the tokens of a vocabulary: what leaves the compiler.

compile, pushdown_compile                  from an automaton over bytes to one over tokens
token_automaton                            the result: a token_table by state and class, and stack_effects where languages nest
token_classes, behaviour_table, behaviour_store    group the tokens that act alike on every state
suffix_behaviours, outcomes, outcome_table what a token does to a stack
targets                                    numbers for states and outcomes in tables
grammar_tokens, lookahead_suffixes         from an automaton that looks at a byte before it reads it (cyclic_ends);
                                           suffix_store of both kinds
layers, whole_tokens                       texts of a limited number of tokens; tokens whatever their text is
counted_state, counted_links, nesting      counts of characters beside states; tables of what tokens do to the stack
leaf_tokens, leaf_stores, leaf_partition   what tokens do in a leaf, and in several leaves; text_remainders after free text
trie_walk, walked_prefixes, walked_stacks  where tokens lead; rests of tokens behind what they end
linked_leaf, linked_classes                an automaton put together from copies of leaves
distinct_sets                              which sets are equal, found by digests and compared
dead_ends, closing_cost, short_fallbacks   prune states that cannot end, count the tokens to an end, shorten fallback chains
flat_closing, grammar_closing              the tokens that a finite automaton needs to the end; at most, that a grammar needs
intersection, token_concatenation, joint_classes    of two token automata
before_marker, remainder_walk, pushdown_concatenation    a marker with any text before it, put before a token automaton;
                                           its marker_targets
repeated_record, repetition                of a record that is repeated many times, from that of a few copies (record_states)
place, packed_stacks                       the keys of masks with a stack; stacks on the host
"""
