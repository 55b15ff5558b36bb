"""The context of a batch: everything that a processor can know about the rows in addition to its own state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.parameters.scalars import as_integer

# Ids are kept as int64.
LARGEST_ID = 2**63 - 1

__all__ = ["Context", "concatenate_context", "context_to", "largest", "padded", "select_context"]


# Compared by identity: a comparison of tensors has no single truth value.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """The rows of a batch (one row per sequence): their prompts and lengths, and the shape and device of the logits.

    Later versions may add fields, so read each field by its name.

    Args:
        prompt: [B, P] int64, each row's prompt, right-padded with -1 (P may be 0).
        prompt_lengths: [B] int64, prompt tokens per row.
        lengths: [B] int64, tokens per row so far, prompt included.
        vocabulary_size: The number of columns of the logits.
        device: The device of the logits and the states.
        max_length: The maximum number of tokens of any row, prompt included; None if unknown. If given, states never grow.
        stream_ids: [B] int64, the stream of random numbers of each row. Rows with the same id and seed draw the same numbers at
            the same length. None: each row's index.
        max_lengths: [B] int64, the maximum number of tokens of each row. None: `max_length` holds for every row.
        guidance_logits: [B, V] floating point, the logits of a second pass at this step, without or with another prompt, which
            `Guidance` reads; no processor changes them. None: there is no second pass.

    Example:
        >>> import logitkit as lk
        >>> context = lk.Context.of([[5, 6], [7]], vocabulary_size=10)
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
    max_lengths: Tensor | None = None
    guidance_logits: Tensor | None = None

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        vocabulary_size: int,
        device: torch.device | str = "cpu",
        max_length: int | None = None,
    ) -> Context:
        """Build the context of a batch that is about to start, from lists of token ids.

        Raises:
            ConfigurationError: An id is not an integer, or is negative.
        """
        prompts = [checked_prompt(row, prompt) for row, prompt in enumerate(prompts)]
        where = torch.device(device)
        lengths = torch.from_numpy(np.array([len(p) for p in prompts], np.int64))
        return cls(
            prompt=padded(prompts).to(where),
            prompt_lengths=lengths.to(where),
            lengths=lengths.to(where),
            vocabulary_size=vocabulary_size,
            device=where,
            max_length=max_length,
        )

    def at(self, lengths: Tensor) -> Context:
        """Return the context of the same rows at other lengths, [B] int64.

        It has no logits of a second pass, because those belong to one step.
        """
        # Not `dataclasses.replace`, which takes three times as long, at every step.
        return Context(
            prompt=self.prompt,
            prompt_lengths=self.prompt_lengths,
            lengths=lengths,
            vocabulary_size=self.vocabulary_size,
            device=self.device,
            max_length=self.max_length,
            stream_ids=self.stream_ids,
            max_lengths=self.max_lengths,
        )

    @property
    def batch_size(self) -> int:
        """The number of rows."""
        return self.prompt.shape[0]

    @property
    def limits(self) -> Tensor | None:
        """The maximum length of each row, prompt included, [B] int64: from `max_lengths` or `max_length`; None if unknown."""
        if self.max_lengths is not None or self.max_length is None:
            return self.max_lengths
        return torch.full_like(self.prompt_lengths, self.max_length)

    @property
    def streams(self) -> Tensor:
        """The random streams, [B] int64: `stream_ids`, or the row indices."""
        if self.stream_ids is None:
            return torch.arange(self.batch_size, dtype=torch.int64, device=self.device)
        return self.stream_ids


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return rows of ids as a tensor, [R, L] int64, right-padded with -1."""
    width = max(map(len, rows), default=0)
    filled = [[*row, *[-1] * (width - len(row))] for row in rows]
    # Through numpy, which converts lists several times as fast as torch.
    return torch.from_numpy(np.array(filled, np.int64).reshape(len(rows), width))


def largest(limits: Sequence[int | None]) -> int | None:
    """Return the largest limit, or None if one is unknown."""
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def checked_prompt(row: int, prompt: Sequence[int]) -> list[int]:
    """Return the token ids of a row's prompt.

    Raises:
        ConfigurationError: One is not an integer from 0.
    """
    ids = list(prompt)
    # A long prompt is checked as one array, since a loop over its ids is slow.
    if set(map(type, ids)) <= {int} and min(ids, default=0) >= 0 and max(ids, default=0) <= LARGEST_ID:
        return ids
    return [_checked_id(row, i) for i in ids]


def _checked_id(row: int, given: object) -> int:
    found = as_integer(given)
    if found is None or not 0 <= found <= LARGEST_ID:
        raise ConfigurationError(f"prompt {row} has {given!r:.60}; allowed are token ids, integers from 0")
    return found


def select_context(context: Context, rows: Tensor) -> Context:
    """Return the context of some rows, in a new order; rows may repeat.

    Args:
        context: The context of B rows.
        rows: [R] int64 row indices from 0 to B - 1, on the context's device.

    Returns:
        The context of R rows. Each keeps its random stream, so a row that is selected twice has the same stream twice.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> context = lk.Context.of([[5, 6], [7]], vocabulary_size=10)
        >>> lk.select_context(context, torch.tensor([1, 1])).prompt.tolist()
        [[7, -1], [7, -1]]
    """
    selected: dict[str, Any] = {name: rows_of.index_select(0, rows) for name, rows_of in _tensors(context).items()}
    return replace(context, **selected)


def context_to(context: Context, device: torch.device) -> Context:
    """Return a context on another device."""
    moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in _tensors(context).items()}
    return replace(context, device=device, **moved)


def _tensors(context: Context) -> dict[str, Tensor]:
    """Return the fields with one value for each row, by name."""
    found = {name: getattr(context, name) for name in ("prompt", "prompt_lengths", "lengths")}
    found["stream_ids"] = context.streams
    optional = {name: getattr(context, name) for name in ("max_lengths", "guidance_logits")}
    return found | {name: given for name, given in optional.items() if given is not None}


def concatenate_context(contexts: Sequence[Context]) -> Context:
    """Concatenate the rows of several batches; prompts are padded with -1 to the longest.

    Args:
        contexts: At least one context; all must have the same vocabulary size and device.

    Returns:
        The context of all rows; `max_length` is the largest, or None if any is None. Each row keeps its random stream (without
        `stream_ids`, its index in its own batch), so it continues as it would have on its own. It has the logits of a second pass
        only if all contexts have them.

    Raises:
        ConfigurationError: No context is given.
        BatchMismatch: The vocabulary sizes or devices differ.

    Example:
        >>> import logitkit as lk
        >>> a, b = (lk.Context.of([p], vocabulary_size=10) for p in ([5, 6], [7]))
        >>> lk.concatenate_context([a, b]).prompt.tolist()
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
    of_rows = [limit for c in contexts if (limit := c.limits) is not None]
    differ = len(set(limits)) > 1 or any(c.max_lengths is not None for c in contexts)
    second = [c.guidance_logits for c in contexts if c.guidance_logits is not None]
    return replace(
        first,
        prompt=torch.cat([pad(c.prompt, (0, width - c.prompt.shape[1]), value=-1) for c in contexts]),
        prompt_lengths=torch.cat([c.prompt_lengths for c in contexts]),
        lengths=torch.cat([c.lengths for c in contexts]),
        stream_ids=torch.cat([c.streams for c in contexts]),
        max_length=largest(limits),
        max_lengths=torch.cat(of_rows) if differ and len(of_rows) == len(contexts) else None,
        guidance_logits=torch.cat(second) if len(second) == len(contexts) else None,
    )
