"""Budgets for reasoning, and an end to loops: after a number of tokens, or at a loop, the end marker is forced.

thinking_budget      ThinkingBudget
loop_stop            LoopStop
section_marker       a marker around a section of reasoning, as an argument
section_texts        all texts of a section: its markers, the message, the ends of lines, pauses
searches             the automata that read the text of a section, one for each kind of text
search_product       several of them side by side
section_graph        the states inside a section, and their moves
section_states       their numbers, with those that force the end or hold it back, and those outside
thinking_automaton   all of these states, compiled for the tokens of a vocabulary
thinking_state       the state of rows: whether and how long they have been thinking; thinking_rows on the host
loop_state           the state of rows that are watched for loops, and how tokens change it on a device; loop_rows on the host
ended_mask           the mask of rows that may only end, and of rows that have ended
"""
