"""Automata over characters, from syntax trees; nothing here knows bytes or tokens.

positions, guarded, factoring        one state per occurrence of a character, with conditions where there are lookarounds
assertions, static_guards, atomic    anchors, one-character conditions and atomic groups, rewritten as lookarounds
subset, alternating, product         deterministic automata: without lookarounds, with them, and of two at once
runs                                 positions of `x{1,256}`, of which one stands for all
minimise, refinement, components     fewest states, as a whole and on one cycle; cycles
first_match                          the texts that a backtracking search finds
lengths                              how long texts are: of an automaton, and of a tree
counted                              repetition copied instead of rebuilt
text_search                          the search for several texts at once, as free text needs that ends at a marker
code_units                           from UTF-16 code units to characters
alphabet, symbols                    classes of code points that a pattern does not distinguish; overlapping sets of these
symbols                              code points, and numbers for calls, words and special tokens in the same sets
"""
