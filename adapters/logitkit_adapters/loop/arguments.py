"""What a loop passes to `Steps`: prompts, tokens and rows, in any array library or in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.batching import RowProcessors
from logitkit.composition.chain import Chain
from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import as_integer
from logitkit.protocol.context import checked_prompt
from logitkit_adapters.arrays import ids_to_torch

__all__ = ["forced_ends", "prompt_lists", "row_numbers", "token_tensor"]


def token_tensor(tokens: Any, columns: int, device: torch.device) -> Tensor:
    """Return committed tokens as a new tensor, [B] or [B, T] int64.

    Args:
        tokens: Integers of that shape in any array library, or in a list; or a single number.
        columns: The number of columns of the logits.
        device: The device of the rows.

    Raises:
        ConfigurationError: They are something else, or one on the host is not an id and not -1.
    """
    rank = getattr(tokens, "ndim", None)
    if rank == 0 or not hasattr(tokens, "__len__"):
        number = as_integer(tokens)
        if number is None:
            raise ConfigurationError(f"tokens are {tokens!r:.60}; give integers, or one integer for a single row")
        tokens, rank = [number], 1
    elif isinstance(tokens, tuple):
        tokens = [*tokens]
    found = ids_to_torch(tokens)
    shown = found.tensor.to(torch.int64)
    if rank == 1 or (rank is None and not isinstance(tokens[0] if tokens else None, list)):
        shown = shown[0]
    if shown.is_cpu and shown.numel():
        least, most = int(shown.min()), int(shown.max())
        if least < -1 or most >= columns:
            raise ConfigurationError(
                f"tokens have {least if least < -1 else most}; allowed are ids below {columns}, the number of columns, "
                "and -1 for no token"
            )
    # A state may keep the tensor, and the caller's array may change.
    return shown.to(device, copy=True)


def forced_ends(processor: Any, state: Any, tokens: Tensor, ends: Sequence[int]) -> Tensor:
    """Return which tokens are an EOS that a processor writes as text, so that its row goes on: bool in the shape of the tokens.

    Args:
        processor: The processor of all rows.
        state: Their state before the tokens.
        tokens: [B] or [B, T] int64.
        ends: The EOS ids.
    """
    found = torch.zeros_like(tokens, dtype=torch.bool)
    if isinstance(processor, RowProcessors):
        links = [*processor.links(state)]
    else:
        of_chain = (
            zip(processor.processors, state, strict=True) if isinstance(processor, Chain) else [(processor, state)]
        )
        every = torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
        links = [(every, part, of_part) for part, of_part in of_chain]
    for takes, part, of_part in links:
        if hasattr(part, "forces"):
            mine = takes if tokens.dim() == 1 else takes[:, None]
            found |= mine & part.forces(of_part, tokens, ends)
    return found


def prompt_lists(prompts: Any) -> list[list[int]]:
    """Return prompts as lists of token ids.

    Raises:
        ConfigurationError: They are neither a list with one list for each row, nor an array [B, P], or an id is not an integer
            from 0.
    """
    if isinstance(prompts, list | tuple):
        return [checked_prompt(row, _prompt_list(row, prompt)) for row, prompt in enumerate(prompts)]
    if getattr(prompts, "ndim", None) != 2:
        raise ConfigurationError(
            f"prompts are a {type(prompts).__name__}; give a list of token ids for each row, or an array of integers [B, P]"
        )
    return [checked_prompt(row, prompt) for row, prompt in enumerate(ids_to_torch(prompts).tensor.tolist())]


def _prompt_list(row: int, prompt: Any) -> list[int]:
    if getattr(prompt, "ndim", 1) != 1 or isinstance(prompt, str) or not hasattr(prompt, "__iter__"):
        raise ConfigurationError(f"prompt {row} is {prompt!r:.60}; give a list of token ids for each row")
    found: list[int] = prompt.tolist() if hasattr(prompt, "tolist") else [*prompt]
    return found


def row_numbers(rows: Any, count: int) -> list[int]:
    """Return the numbers of selected rows.

    Args:
        rows: Integers, or a bool for each row, in any array library or in a list.
        count: The number of rows.

    Raises:
        ConfigurationError: The rows are not integers or booleans, or a row does not exist.
    """
    listed = rows.tolist() if hasattr(rows, "tolist") else rows
    if isinstance(listed, int):
        listed = [listed]
    if not isinstance(listed, list | tuple | range):
        raise ConfigurationError(f"rows are a {type(rows).__name__}; give integers, or a bool for each row")
    if len(listed) == count and count and all(isinstance(row, bool | np.bool_) for row in listed):
        return [number for number, kept in enumerate(listed) if kept]
    found = [as_integer(row) for row in listed]
    for given, row in zip(listed, found, strict=True):
        if row is None or not 0 <= row < count:
            raise ConfigurationError(
                f"rows have {given!r:.60}; allowed are integers from 0 to {count - 1}, or {count} bools"
            )
    return [row for row in found if row is not None]
