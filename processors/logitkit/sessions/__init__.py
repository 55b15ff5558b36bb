"""Generations that continue each other and reuse cached tokens: pure functions on tokens and tensors.

sequence_state                 SequenceState: a generation as a value (keys, addition, state_batch, sequence_rows,
                               sequence_parts, sequence_files)
reuse, prefix_tree             find the cached tokens that a new prompt can reuse
forced_run                     the tokens that have no alternative
packing, prefill_mask          rows of different lengths in one rectangle; masks over a fixed-shape cache
cache_port                     the operations that a state needs from the engine of its cache
text_*, same_tokenizer         convert between text and tokens: append, slice, compare
tokenizations                  all tokenizations of texts, and their probabilities
token_choice, seam             choose the next token; processor states at the point where a generation continues another
"""

from logitkit.sessions.packing import Packing as Packing
from logitkit.sessions.prefix_tree import PrefixTree as PrefixTree
from logitkit.sessions.reuse import common_prefix as common_prefix
from logitkit.sessions.seam import state_at_seam as state_at_seam
from logitkit.sessions.text_continuation import added_text as added_text
from logitkit.sessions.text_continuation import continuation as continuation
from logitkit.sessions.text_cut import cut_text as cut_text
from logitkit.sessions.text_tokenizer import TextTokenizer as TextTokenizer
from logitkit.sessions.token_choice import drawn_tokens as drawn_tokens

__all__ = [
    "Packing",
    "PrefixTree",
    "TextTokenizer",
    "added_text",
    "common_prefix",
    "continuation",
    "cut_text",
    "drawn_tokens",
    "state_at_seam",
]
