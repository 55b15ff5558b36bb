"""`max_new_tokens`: the maximum number of new tokens of a row, which engines do not pass to a hook."""

from __future__ import annotations

import warnings
from typing import Any

from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.processor import Processor, name_of, reads_max_length

__all__ = ["checked_max_new_tokens"]

MOST = 2**31 - 1


def checked_max_new_tokens(processor: Processor[Any], max_new_tokens: int | None) -> int | None:
    """Return the checked `max_new_tokens`; warn if it is None and the processor needs it.

    Raises:
        ConfigurationError: It is neither None nor a positive integer.

    Example:
        >>> import logitkit as lk
        >>> checked_max_new_tokens(lk.TopK(5), 20)
        20
    """
    if max_new_tokens is not None:
        return checked_integer("max_new_tokens", max_new_tokens, 1, MOST)
    if reads_max_length(processor):
        warnings.warn(
            f"{name_of(processor)} closes its text within the token limit of a row, which engines do not pass to "
            "hooks; pass it to logits_processor(..., max_new_tokens=...) too, or an output that is cut off may be incomplete",
            stacklevel=3,
        )
    return None
