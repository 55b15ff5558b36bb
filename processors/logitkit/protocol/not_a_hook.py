"""The error for a processor that is passed to an engine directly, without the hook that an adapter makes from it.

Engines call each member of `logits_processor=` with token ids and scores. A processor cannot be called like that: it needs a
state for each row, and only a hook can supply it. In most engines, an exception in the call reaches the user. llama.cpp is
different: it calls through ctypes, which prints the exception, drops it and goes on with unconstrained logits. So the call masks
everything but EOS before it raises: even if the exception is dropped, no unconstrained token is generated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from logitkit.errors import ConfigurationError

__all__ = ["NotAHook", "bare_processor", "leave_only_ends"]


class NotAHook:
    """Base class of all processors: refuses calls, `len` and iteration, which engines use on their lists of hooks.

    Example:
        >>> import logitkit as lk
        >>> from logitkit.errors import ConfigurationError
        >>> try:
        ...     lk.TopK(5)([1, 2], [0.5, 0.5])
        ... except ConfigurationError as error:
        ...     print(str(error).split(";")[0])
        an engine was given the processor TopK itself, which has no history of tokens
    """

    def __call__(self, ids: Any, scores: Any) -> NoReturn:
        """Raise: only hooks can be called."""
        leave_only_ends(scores, getattr(getattr(self, "vocabulary", self), "eos_ids", ()))
        raise self._misused()

    def __bool__(self) -> bool:
        """Return True, because Python would call `__len__` otherwise."""
        return True

    def __len__(self) -> int:
        """Raise: only lists of hooks have a length."""
        raise self._misused()

    def __iter__(self) -> NoReturn:
        """Raise: only lists of hooks can be iterated over."""
        raise self._misused()

    def _misused(self) -> ConfigurationError:
        return bare_processor(self)


def bare_processor(processor: Any) -> ConfigurationError:
    """Return the error for an engine that was given a processor instead of a hook."""
    name = type(processor).__name__
    return ConfigurationError(
        f"an engine was given the processor {name} itself, which has no history of tokens; wrap it in a hook with "
        f"`logits_processor` of the engine's adapter. transformers: logits_processor=[logits_processor({name}(...))]; mlx-lm: "
        f"logits_processors=[logits_processor({name}(...))]; llama.cpp: logits_processor=logits_processor({name}(...))"
    )


def leave_only_ends(scores: Any, eos_ids: Iterable[int]) -> None:
    """Mask all ids except EOS if the scores are a writable numpy array, such as llama.cpp's; ignore other types.

    Args:
        scores: [V] or [B, V] floating point.
        eos_ids: The ids that get a score of 0; if there are none, all scores become -inf.
    """
    if isinstance(scores, np.ndarray) and scores.flags.writeable and scores.dtype.kind == "f":
        scores[...] = -np.inf
        scores[..., [i for i in eos_ids if i < scores.shape[-1]]] = 0
