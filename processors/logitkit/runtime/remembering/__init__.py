"""Arrays whose items must differ: a row remembers the items that it has written.

No automaton can tell whether two items are equal, because there are too many items. So a schema with `uniqueItems` compiles to
the automaton of the arrays with any items, whose states know where such an array begins (`TokenAutomaton.remembers`). A row
keeps the text of the outermost array of that kind, and bans tokens by it.

json_text         the bytes of JSON texts
spelling          when two values are equal: one text for each value
settled_numbers   beginnings of numbers whose value is settled, such as `0e`
used_items        the items of an array, and the beginnings of items that only lead to these
open_values       the arrays and objects that are open in a text
byte_steps        an automaton over tokens, read byte by byte
item_position     one text, byte by byte: what it remembers, and what may follow
respelling        whether the end of an open value may change its text
item_tokens       which tokens of a vocabulary begin with a text, or write more than one item
remembering_row   a row: it advances by tokens, and bans some
narrowed_mask     the mask of a state, with more tokens banned
remembering_state the rows of a batch as tensors
steps             the two operations on these, on the host
"""
