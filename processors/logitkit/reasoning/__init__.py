"""A budget for reasoning: after a given number of tokens, the end marker is forced.

thinking_budget      ThinkingBudget
thinking_automaton   recognises the markers, and completes an end marker that has begun
section_states       its states: inside a section, with the end forced, and outside
thinking_state       the state of rows: whether and how long they have been thinking
"""
