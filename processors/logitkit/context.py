"""What a processor may know about a batch besides its own state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.integers import as_integer

__all__ = ["Context", "concatenate_context", "select_context"]


# Compared by identity: tensors have no single truth value.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """The rows of a batch: their prompts and lengths, and the shape and device of the logits.

    Keys may be added in later versions; a processor reads those it needs by name.

    Args:
        prompt: [B, P] int64, each row's prompt, right-padded with -1 (P may be 0).
        prompt_lengths: [B] int64, prompt tokens per row.
        lengths: [B] int64, tokens per row so far, prompt included.
        vocabulary_size: Columns of the logits.
        device: Where the logits and the states are.
        max_length: Most tokens that any row will ever have, when the engine knows it: states then never grow.
        stream_ids: [B] int64, which stream of random numbers each row draws from: rows of equal ids (and seeds) draw the same
            numbers at the same length. None stands for the number of the row.

    Example:
        >>> context = Context.of([[5, 6], [7]], vocabulary_size=10)
        >>> context.prompt.tolist(), context.lengths.tolist(), context.batch_size
        ([[5, 6], [7, -1]], [2, 1], 2)
    """

    prompt: Tensor
    prompt_lengths: Tensor
    lengths: Tensor
    vocabulary_size: int
    device: torch.device
    max_length: int | None = None
    stream_ids: Tensor | None = None

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        vocabulary_size: int,
        device: torch.device | str = "cpu",
        max_length: int | None = None,
    ) -> Context:
        """Make the context of a batch that is about to start, from lists of token ids.

        Raises:
            ConfigurationError: An id is no integer, or below 0.
        """
        prompts = [_checked_ids(row, prompt) for row, prompt in enumerate(prompts)]
        counts = [len(p) for p in prompts]
        width = max(counts, default=0)
        rows = np.array([[*p, *[-1] * (width - len(p))] for p in prompts], np.int64).reshape(len(prompts), width)
        where = torch.device(device)
        # By way of numpy, which makes arrays of lists several times as fast as torch does.
        prompt, lengths = torch.from_numpy(rows), torch.from_numpy(np.array(counts, np.int64))
        return cls(
            prompt=prompt.to(where),
            prompt_lengths=lengths.to(where),
            lengths=lengths.to(where),
            vocabulary_size=vocabulary_size,
            device=where,
            max_length=max_length,
        )

    def at(self, lengths: Tensor) -> Context:
        """Return the context of the same rows when they have other lengths, [B] int64."""
        # `dataclasses.replace` takes three times as long, at every step.
        return Context(
            prompt=self.prompt,
            prompt_lengths=self.prompt_lengths,
            lengths=lengths,
            vocabulary_size=self.vocabulary_size,
            device=self.device,
            max_length=self.max_length,
            stream_ids=self.stream_ids,
        )

    @property
    def batch_size(self) -> int:
        """Number of rows."""
        return self.prompt.shape[0]

    @property
    def streams(self) -> Tensor:
        """The streams of random numbers, [B] int64: `stream_ids`, or the numbers of the rows."""
        if self.stream_ids is None:
            return torch.arange(self.batch_size, dtype=torch.int64, device=self.device)
        return self.stream_ids


def _checked_ids(row: int, prompt: Sequence[int]) -> list[int]:
    ids = list(prompt)
    # Of a long prompt, one by one takes long to say.
    if set(map(type, ids)) <= {int} and min(ids, default=0) >= 0:
        return ids
    return [_checked_id(row, i) for i in ids]


def _checked_id(row: int, given: object) -> int:
    found = as_integer(given)
    if found is None or found < 0:
        raise ConfigurationError(f"prompt {row} has {given!r}; allowed are token ids, integers from 0")
    return found


def select_context(context: Context, rows: Tensor) -> Context:
    """Return the context of some rows, in a new order; rows may repeat.

    Args:
        context: The context of B rows.
        rows: [R] int64 row indices from 0 to B - 1, on the context's device.

    Returns:
        The context of R rows; each keeps its stream of random numbers, so that rows picked twice share one.

    Example:
        >>> context = Context.of([[5, 6], [7]], vocabulary_size=10)
        >>> select_context(context, torch.tensor([1, 1])).prompt.tolist()
        [[7, -1], [7, -1]]
    """
    return replace(
        context,
        prompt=context.prompt.index_select(0, rows),
        prompt_lengths=context.prompt_lengths.index_select(0, rows),
        lengths=context.lengths.index_select(0, rows),
        stream_ids=context.streams.index_select(0, rows),
    )


def concatenate_context(contexts: Sequence[Context]) -> Context:
    """Put the rows of several batches after one another; prompts are padded with -1 to the longest.

    Args:
        contexts: At least one context; all of one vocabulary size and device.

    Returns:
        The context of all rows; `max_length` is the largest, or None if any is None. Each row keeps its stream of random
        numbers, that is its number in its own batch where no `stream_ids` are given: it goes on as it would have alone.

    Raises:
        ConfigurationError: No context is given.
        BatchMismatch: The vocabulary sizes or devices differ.

    Example:
        >>> a, b = (Context.of([p], vocabulary_size=10) for p in ([5, 6], [7]))
        >>> concatenate_context([a, b]).prompt.tolist()
        [[5, 6], [7, -1]]
    """
    if not contexts:
        raise ConfigurationError("concatenate_context got no contexts; give at least one")
    first = contexts[0]
    for other in contexts[1:]:
        if (other.vocabulary_size, other.device) != (first.vocabulary_size, first.device):
            raise BatchMismatch(
                f"cannot concatenate contexts of {first.vocabulary_size} columns on {first.device} and of "
                f"{other.vocabulary_size} columns on {other.device}; move and pad them to agree"
            )
    width = max(c.prompt.shape[1] for c in contexts)
    limits = [c.max_length for c in contexts]
    known = [limit for limit in limits if limit is not None]
    return replace(
        first,
        prompt=torch.cat(
            [torch.nn.functional.pad(c.prompt, (0, width - c.prompt.shape[1]), value=-1) for c in contexts]
        ),
        prompt_lengths=torch.cat([c.prompt_lengths for c in contexts]),
        lengths=torch.cat([c.lengths for c in contexts]),
        stream_ids=torch.cat([c.streams for c in contexts]),
        max_length=max(known) if len(known) == len(limits) else None,
    )
