"""A record that is repeated many times, compiled from a few copies of it.

repetition        the count of records beside a state
repeated_record   the automaton of many copies from that of a few
record_states     the states of a copy, and those of the others
"""
