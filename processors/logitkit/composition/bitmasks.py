"""The tokens that a chain of constraints leaves, as bits.

Each language has its own bits, so those of a chain of languages are what is set in all of them: if one allows the tokens 0 and 2,
[5], and another the tokens 1 and 2, [6], the chain allows token 2, [4]. A row with no bit left ends with EOS, as its logits do.

Other constraints, such as `BanTokens` and `ForcedTokens`, mask a row of zeros instead. That takes a pass over all logits, and
works for classes of users too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from logitkit.composition.conflicts import context_of_columns
from logitkit.errors import ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, Role, name_of, role_of
from logitkit.protocol.state import leaves
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.token_bits import for_kernels, legal_tokens, no_bits, only, packed

__all__ = ["token_bitmask"]


def token_bitmask(
    links: Sequence[tuple[Processor[Any], Any]],
    masked: Callable[[Tensor, Context], Tensor],
    columns: int | None,
    context: Context | None,
) -> Tensor:
    """Return the tokens that a chain of constraints leaves of finite logits, as bits, [B, ceil(columns / 32)] int32.

    Args:
        links: The processors of the chain, each with its state of B rows.
        masked: Runs the chain on logits, [B, V], in a context.
        columns: The number of columns of the logits. None: the size of the vocabulary.
        context: The context of the rows, for classes of users. None: rows without a prompt.

    Raises:
        ConfigurationError: A processor is not a constraint, the chain is empty, or no constraint has a vocabulary and no columns
            are given.
    """
    for processor, _ in links:
        if role_of(processor) is not Role.CONSTRAINT:
            raise ConfigurationError(
                f"the chain has a {name_of(processor)}, which is not a constraint: it changes the values of logits, and a "
                "bitmask only says which tokens stay; take the bitmask of a chain of the constraints, and call process_logits of "
                "the others"
            )
    tensors = leaves(tuple(of_link for _, of_link in links))
    if not tensors:
        raise ConfigurationError("the chain has no constraint, so every token stays; add one")
    none = torch.zeros(len(tensors[0]), dtype=torch.bool, device=tensors[0].device)
    shown = context_of_columns(links, none, columns, context)
    languages = [(processor, of_link) for processor, of_link in links if isinstance(processor, Constraint)]
    if len(languages) == len(links):
        bits = reduce(torch.bitwise_and, [p.token_bitmask(s, shown.vocabulary_size) for p, s in languages])
        # A language ends the rows that it leaves without a token, whatever ids the chain was given for others.
        return _ended(bits, languages[-1][0].vocabulary.eos_ids, shown.vocabulary_size)
    zeros = torch.zeros(len(none), shown.vocabulary_size, device=none.device)
    return for_kernels(packed(legal_tokens(masked(zeros, shown))), shown.vocabulary_size)


def _ended(bits: Tensor, eos_ids: Sequence[int], columns: int) -> Tensor:
    """Return bits that leave only EOS in rows without any other."""
    none = for_kernels(no_bits(columns)[None], columns)
    ends = reduce(torch.bitwise_or, [only(token, columns) for token in eos_ids], none)
    return torch.where((bits == none.to(bits.device)).all(1, keepdim=True), ends.to(bits.device), bits)
