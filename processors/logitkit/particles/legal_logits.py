"""The tokens that the constraints of a language leave, at the logits that they had before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from logitkit.composition.chain import Chain
from logitkit.composition.conflicts import fired_rows
from logitkit.protocol.calls import process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import ends_empty_rows, only_masks
from logitkit.protocol.processor import Processor

__all__ = ["legal_logits", "stopped_rows"]


def legal_logits(
    language: Chain, state: tuple[Any, ...], logits: Tensor, context: Context, eos_ids: Sequence[int]
) -> Tensor:
    """Return logits with -inf for each token that is not legal.

    Constraints end a row that has left their language, or in which no token is left, with EOS. Here, such an EOS is not legal:
    the text is not in the language. So a row may have no token left.

    Args:
        language: The constraints.
        state: Their state of B rows.
        logits: [B, V] floating point, which stay unchanged.
        context: The context of the rows.
        eos_ids: The ids that end a row, each of them a column.

    Returns:
        [B, V] of the same dtype.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> language = lk.chain(lk.Regex("a", vocabulary), lk.BanTokens([0]))
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> state = language.init_state(context)
        >>> language.process_logits(state, torch.ones(1, 3), context)[1]
        tensor([[-inf, -inf, 0.]])
        >>> legal_logits(language, state, torch.ones(1, 3), context, [2])
        tensor([[-inf, -inf, -inf]])
    """
    ends = list(eos_ids)
    # Below 0, so that an EOS that a constraint raises to 0 is recognized.
    given = logits - logits.amax(1, keepdim=True).clamp(min=torch.finfo(logits.dtype).min) - 1
    legal = torch.ones_like(logits, dtype=torch.bool)
    for processor, own in zip(language.processors, state, strict=True):
        allowed = _allowed(processor, own, given, context)
        if not only_masks(processor):
            # Forced tokens override earlier constraints.
            forced = ~allowed.all(1, keepdim=True)
            legal = torch.where(forced, allowed, legal)
            continue
        if getattr(processor, "bans_repeats", False):
            # An EOS that ends the row does not count as a repeat of one that is part of the prompt.
            allowed[:, ends] = True
        if hasattr(processor, "is_dead"):
            allowed &= ~processor.is_dead(own)[:, None]
        legal &= allowed
    return torch.where(legal, logits, -torch.inf)


def stopped_rows(language: Chain, state: tuple[Any, ...], like: Tensor) -> Tensor:
    """Return the rows that a stop has ended, [B] bool; `like` is any tensor of the rows, [B]."""
    none = torch.zeros_like(like, dtype=torch.bool)
    return reduce(or_, fired_rows(zip(language.processors, state, strict=True)), none)


def _allowed(processor: Processor[Any], state: Any, given: Tensor, context: Context) -> Tensor:
    """Return the tokens that a constraint leaves by itself, [B, V] bool."""
    found = process_checked(processor, state, given.clone(), context)
    # A legal token keeps its logit. Only a constraint that ends rows by itself raises one that is not legal.
    return (found == given) & (given > -torch.inf) if ends_empty_rows(processor) else found > -torch.inf
