"""Penalties on tokens that the text has had already.

repetition, counted          by how often a token occurred: RepetitionPenalty, FrequencyPenalty and PresencePenalty
no_repeat_ngram, dry         by the sequence that a token would repeat (dry_state, breakers, breaker_tables: parts of DRY)
token_history, repeats       the tokens of each row, and where the last ones occurred before
history_logits               the logits of these tokens, on either path
"""

from logitkit.penalties.dry_state import discourage_tensors as discourage_tensors
from logitkit.penalties.no_repeat_ngram import ban_tensors as ban_tensors
from logitkit.penalties.repetition import penalise_tensors as penalise_tensors

__all__ = ["ban_tensors", "discourage_tensors", "penalise_tensors"]
