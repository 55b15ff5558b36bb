"""EncoderRepetitionPenalty: tokens of the prompt become more likely, or less."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from logitkit.penalties.repetition import PENALTY, OccurrencePenalty, RepetitionPenalty, RepetitionState
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind

__all__ = ["EncoderRepetitionPenalty"]


@dataclass(frozen=True)
class EncoderRepetitionPenalty(OccurrencePenalty[RepetitionState]):
    """Multiply the positive logits of the prompt's tokens, and divide the negative ones.

    So a penalty above 1 favours words of the prompt, which keeps a summary close to its source. Tokens of the output do not
    count.

    Args:
        penalty: From 1e-4 to 1e4; above 1 encourages tokens of the prompt, below 1 discourages them, 1 changes nothing.

    Raises:
        ConfigurationError: The penalty is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> close = lk.EncoderRepetitionPenalty(2.0)
        >>> context = lk.Context.of([[1, 2]], vocabulary_size=4)
        >>> close.process_logits(close.init_state(context), torch.tensor([[4.0, 4.0, -4.0, -4.0]]), context)[1]
        tensor([[ 4.,  8., -2., -4.]])

    Source: transformers' EncoderRepetitionPenaltyLogitsProcessor, which returns the same results.
    """

    penalty: float

    # Neither is a parameter: exactly the prompt counts.
    window = None
    include_prompt = True

    neutral = 1.0
    change = "DIVIDE"
    # Before penalties that count the output, as in transformers.
    kind = Kind("encoder_repetition_penalty", {"penalty": PENALTY}, main="penalty", order=5, neutral={"penalty": 1.0})
    may_empty_rows = False
    _changed = RepetitionPenalty._changed  # noqa: SLF001 - the same change, with the reciprocal

    def init_state(self, context: Context) -> RepetitionState:
        """Return the initial state of the rows."""
        return RepetitionState(*self.memories(context), per_row(context, 1 / self.penalty))

    def advance(self, state: RepetitionState, tokens: Tensor) -> RepetitionState:
        """Return the state, which tokens of the output do not change."""
        check_tokens("EncoderRepetitionPenalty", state.penalty.shape[0], tokens)
        return state
