"""Arrays whose items must differ, and objects whose names must: a row remembers those that it has written.

No automaton can tell whether two items are equal, because there are too many items. So a schema with `uniqueItems` compiles to
the automaton of the arrays with any items, whose states know where such an array begins (`TokenAutomaton.remembers`). A row
keeps the text of the outermost array of that kind, and bans tokens by it. So does one in an object that needs several names
which the schema does not list: its names take the place of items.

json_text         the bytes of JSON texts
text_pieces       a text that grows, as a value
known_objects     the objects of a text, by their members
spelling          when two values are equal: one text for each value
settled_numbers   beginnings of numbers whose value is settled, such as `0e`
used_items        the items of an array, and the beginnings of items that only lead to these
open_values       the arrays, objects and numbers that are open in a text
byte_steps        an automaton over tokens, read byte by byte
item_position     a place in a text, and what it remembers
following_items   what may follow a beginning of an item
moving_position   a position that moves: its text, and the used items that begin like it
position_reader   reads bytes from a position on
item_tokens       which tokens of a vocabulary begin with a text, or write more than one item
doubtful_tokens   the tokens that must be read, because an item may come again in them
banned_tokens     the tokens that are illegal at a position
remembering_row   a row: it advances by tokens, and bans some
narrowed_mask     the mask of a state, with more tokens banned
remembering_state the rows of a batch as tensors
steps             the two operations on these, on the host
"""
