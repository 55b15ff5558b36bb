"""Automata over bytes and special tokens.

byte_dfa, nested_dfa, pushdown_dfa             without a stack, for brackets, for grammars
special_tokens                                 where tokens without text lead
limit_signs                                    numbers in place of special tokens, for rules of few tokens
nested_step, pushdown_step                     the effect of a byte in automata for brackets and for grammars, as numbers
pushdown_views                                 which ways lead out of the states of a grammar's automaton
stack_moves                                    the moves of both, in one form
in_utf8, utf8_subroutines, utf8                from characters to bytes, written in place or called
word_list, occurrences                         lists of texts, and where texts occur in a longer text
named_occurrences, pattern_occurrences         the same for texts with special tokens in them, and for matches of patterns
concatenation, nested_concatenation, byte_intersection    one after the other, and both at once
string_fragment, fragment_instances            automata that many places share, and where they stand
literal_overrides                              literal texts that stand where a string fragment may stand
transition_columns, nesting_needs              where tokens lead from each state; which calls can end
sorting                                        sorting of numbers
"""
