"""Generations that continue each other and reuse cached tokens: pure functions on tokens and tensors.

sequence_state                 SequenceState: a generation as a value (keys, addition, sequence_rows,
                               sequence_parts, sequence_files)
reuse, prefix_tree             find the cached tokens that a new prompt can reuse
forced_run                     the tokens that have no alternative
packing, prefill_mask          rows of different lengths in one rectangle; masks over a fixed-shape cache
cache_port                     the operations that a state needs from the engine of its cache
text_*                         convert between text and tokens: append, slice, compare
tokenizations                  all tokenizations of texts, and their probabilities
token_choice, seam             choose the next token; processor states at the point where a generation continues another
"""
