"""Rows that began together: their prompts, and their states before the first output token."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.composition.finished_rows import finished
from logitkit.protocol.calls import init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.tracking.branches import Integers
from logitkit.tracking.rows import Shown

__all__ = ["Generation", "Port", "Room", "store"]

V = TypeVar("V")

# The maximum number of ports (such as those of a target and an assistant model) for which states are kept.
PORTS = 4


class Port(NamedTuple):
    """The size and device of the logits that a state is for: an assistant model may have more columns than its target."""

    vocabulary_size: int
    device: torch.device


class Room(NamedTuple):
    """The maximum length of a row; None where unknown.

    Args:
        max_length: The maximum number of tokens of a row, including padding and prompt.
        max_new_tokens: The maximum number of tokens after the prompt.
    """

    max_length: int | None = None
    max_new_tokens: int | None = None

    def longest(self, prompt: int) -> int | None:
        """Return the maximum number of tokens of a row with this many tokens of padding and prompt."""
        limits = self.limits(np.array([0]), np.array([prompt]))
        return None if limits is None else int(limits[0])

    def limits(self, skips: Integers, starts: Integers) -> Integers | None:
        """Return the maximum number of tokens of each row without its padding, [R].

        Args:
            skips: [R] the columns at which prompts begin.
            starts: [R] the columns at which they end.
        """
        bounds = [] if self.max_length is None else [self.max_length - skips]
        if self.max_new_tokens is not None:
            bounds.append(starts - skips + self.max_new_tokens)
        return np.minimum.reduce(bounds) if bounds else None


class Generation:
    """Rows that began together: their prompts, and their states before the first output token.

    Args:
        shown: The rows of a call.
        skips: [R] the columns at which their prompts begin.
        starts: [R] the columns at which their output begins.
        room: Their maximum lengths.
    """

    def __init__(self, shown: Shown, skips: Integers, starts: Integers, room: Room) -> None:
        self.skips, self.starts = skips, starts
        self.prompt = prompt_tensor(shown, skips, starts)
        self._limits = room.limits(skips, starts)
        self._roots: dict[Port, tuple[Context, Any]] = {}

    def root(self, processor: Processor[Any], port: Port) -> tuple[Context, Any]:
        """Return the context and the state of the rows before their first output token.

        A row that consists of padding has no text and counts as finished.
        """
        root = self._roots.get(port)
        if root is None:
            lengths = torch.from_numpy(self.starts - self.skips).to(port.device)
            limits = self._limits
            context = Context(
                prompt=self.prompt.to(port.device),
                prompt_lengths=lengths,
                lengths=lengths,
                vocabulary_size=port.vocabulary_size,
                device=port.device,
                max_length=None if limits is None else int(limits.max()),
                max_lengths=None if limits is None else torch.from_numpy(limits).to(port.device),
            )
            state = init_checked(processor, context)
            only_pads = (self.skips > 0) & (self.starts == self.skips)
            if only_pads.any():
                state = finished(processor, state, torch.from_numpy(only_pads).to(port.device))
            root = context, state
            store(self._roots, port, root)
        return root

    @cached_property
    def prompt_numbers(self) -> Integers:
        """A number for each row, [R], which is equal for rows with the same prompt and padding."""
        places = torch.from_numpy(np.column_stack((self.skips, self.starts))).to(self.prompt.device)
        numbers: Tensor = torch.unique(torch.cat((places, self.prompt), 1), dim=0, return_inverse=True)[1]
        return numbers.cpu().numpy()


def prompt_tensor(shown: Shown, skips: Integers, starts: Integers) -> Tensor:
    """Return the prompts that begin and end at these columns, [R, P] int64 right-padded with -1."""
    lengths = starts - skips
    width = int(lengths.max())
    if not skips.any() and int(lengths.min()) == width:
        return shown.ids[:, :width].clone()
    column = np.arange(width)
    inside = column < lengths[:, None]
    # Columns after a row's prompt read an arbitrary id, which the mask replaces.
    index = torch.from_numpy(np.where(inside, column + skips[:, None], 0)).to(shown.ids.device)
    return shown.ids.gather(1, index).masked_fill(~torch.from_numpy(inside).to(index.device), -1)


def store(table: dict[Port, V], port: Port, value: V) -> None:
    """Put a value into a table of at most `PORTS` entries, which drops its oldest entry."""
    if len(table) >= PORTS and port not in table:
        del table[next(iter(table))]
    table[port] = value
