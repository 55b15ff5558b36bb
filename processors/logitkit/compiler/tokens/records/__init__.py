"""A record that is repeated many times, compiled from a few copies of it.

repeated_record   the rows of the first copy, and from them the automaton
repetition        these rows, from which the automaton of all copies is built
record_states     numbers for the states of a few copies
"""
