"""Any text before a marker, and then a language: the part before the marker needs no table of its own for each state.

before_marker     the automaton over tokens
marker_targets    numbers for its targets
remainder_walk    what a token that contains the marker does after it
"""
