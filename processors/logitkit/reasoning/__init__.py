"""Budgets for reasoning, and an end to loops: after a number of tokens, or at a loop, the end marker is forced.

thinking_budget      ThinkingBudget
loop_stop            LoopStop
section_marker       the markers around a section of reasoning, as arguments
thinking_automaton   recognises the markers, and completes an end marker that has begun
section_states       its states: inside a section, with the end forced, and outside
thinking_state       the state of rows: whether and how long they have been thinking
loop_state           the state of rows that are watched for loops, and how tokens change it on a device; loop_rows on the host
ended_mask           the mask of rows that may only end, and of rows that have ended
"""
