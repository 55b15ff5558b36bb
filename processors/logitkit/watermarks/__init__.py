"""Watermarks: text that can be recognized later, by those who have the key, as written by this model.

A watermark is a processor at the end of a chain, which changes what is sampled by random numbers that follow from a key and the
last tokens. Its detector computes the same numbers from a text, and says how likely they would be by chance.

kgw, synthid, gumbel    one processor per file
keyed_numbers           random numbers that follow from a key, a context and a token
green_lists             the green lists of transformers, which are permutations
context_history         the contexts that a row has had
saved_keys              keys stay out of what is printed and saved
detection               detect, and what it returns
scores                  the score of each token, and its significance
scored_tokens           the tokens that a detector scores
"""

from logitkit.watermarks.detection import Detection as Detection
from logitkit.watermarks.detection import detect as detect
from logitkit.watermarks.detection import synthid_bits as synthid_bits

__all__ = ["Detection", "detect", "synthid_bits"]
