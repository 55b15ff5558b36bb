"""Distinguish EOS tokens that end a row from those that a processor forces as part of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.protocol.calls import by_tensors
from logitkit.protocol.declared import counts_until_end
from logitkit.protocol.processor import Processor
from logitkit.tokens.id_lists import is_any

__all__ = ["without_forced_ends"]


def without_forced_ends(
    links: Iterable[tuple[Processor[Any], Any]], tokens: Tensor, eos_ids: Sequence[int]
) -> tuple[Tensor, Tensor | None]:
    """Separate forced EOS, which do not end a row, from those that do.

    Args:
        links: The processors of a chain, and their states.
        tokens: [B] or [B, T] int64, -1 for none.
        eos_ids: The ids that end rows.

    Returns:
        The tokens with -1 for each forced EOS, and which of them end their rows, bool. The latter is None if no processor counts
        tokens, or if no EOS is known.
    """
    going_on = tokens
    counting: list[tuple[Any, Any]] = [(p, s) for p, s in links if counts_until_end(p)]
    if not counting or not eos_ids:
        return tokens, None
    ends = is_any(tokens, eos_ids)
    if not by_tensors(tokens) and not bool(ends.any()):
        return tokens, ends
    for processor, state in counting:
        if hasattr(processor, "forces"):
            going_on = torch.where(processor.forces(state, tokens, eos_ids), -1, going_on)
    return going_on, is_any(going_on, eos_ids)
