"""MinLength: no EOS before the prompt and the output have a number of tokens together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from logitkit.parameters import Integer, TokenIds
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind
from logitkit.tokens.min_new import HeldBackEos, MinNewState
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["MinLength"]


@dataclass(frozen=True)
class MinLength(HeldBackEos):
    """Keep EOS at -inf until a row, with its prompt, has a number of tokens, or until a `chain` ends it earlier.

    If a constraint is complete and allows nothing but EOS, no token is left in the row; in a `chain`, the row then ends.

    Args:
        n: The minimum number of tokens of the prompt, without padding, and the output, from 0 (which changes nothing) to
            2**31 - 1.
        eos_ids: The id or ids that end a row, at least one.

    Raises:
        ConfigurationError: `n` or an id is not an integer in range, or there are no ids.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> longer = lk.MinLength(3, eos_ids=[3])
        >>> context = lk.Context.of([[0, 1]], vocabulary_size=4)
        >>> state = longer.init_state(context)
        >>> longer.process_logits(state, torch.ones(1, 4), context)[1]
        tensor([[1., 1., 1., -inf]])
        >>> longer.process_logits(longer.advance(state, torch.tensor([2])), torch.ones(1, 4), context)[1]
        tensor([[1., 1., 1., 1.]])

    Source: transformers' MinLengthLogitsProcessor, which returns the same results, but counts padding.
    """

    n: int
    eos_ids: Sequence[int] | int

    kind = Kind("min_length", {"n": Integer(0), "eos_ids": TokenIds(alone=True)}, main="n", order=31)
    reads_prompt = True

    @classmethod
    def configured(cls, n: int, vocabulary: Vocabulary, eos_ids: Sequence[int] | None = None) -> Self:
        """Create one from a configuration, which may leave out the EOS ids: then they are those of the vocabulary."""
        return cls(n, vocabulary.eos_ids if eos_ids is None else eos_ids)

    @classmethod
    def neutral_state(cls, context: Context) -> MinNewState:
        """Return the state of rows that may end."""
        return super().neutral_state(context)

    def _needed(self, context: Context) -> Tensor:
        return (self.n - context.prompt_lengths).clamp(min=0)
