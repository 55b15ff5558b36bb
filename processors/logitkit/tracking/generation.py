"""Rows that began together: their prompts, and their states before any output."""

from __future__ import annotations

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

# Most kinds of logits (those of a target and of an assistant model) that anything is kept for.
PORTS = 4


class Port(NamedTuple):
    """The logits that a state is for: an assistant model's may be wider than its target's."""

    vocabulary_size: int
    device: torch.device


class Room(NamedTuple):
    """How many tokens a row may have; None where that is not known.

    Args:
        max_length: Most tokens of a row, left pads and prompt included.
        max_new_tokens: Most tokens of a row after its prompt.
    """

    max_length: int | None = None
    max_new_tokens: int | None = None

    def longest(self, prompt: int) -> int | None:
        """Return the most tokens of a row whose prompt and left pads are so many."""
        bounds = [] if self.max_length is None else [self.max_length]
        if self.max_new_tokens is not None:
            bounds.append(prompt + self.max_new_tokens)
        return min(bounds, default=None)

    def limits(self, skips: Integers, starts: Integers) -> Integers | None:
        """Return the most tokens of each row without its pads, [R], for prompts that begin and end at these columns."""
        bounds = [] if self.max_length is None else [self.max_length - skips]
        if self.max_new_tokens is not None:
            bounds.append(starts - skips + self.max_new_tokens)
        return np.minimum.reduce(bounds) if bounds else None


class Generation:
    """Rows that began together: their prompts, and their states before any output.

    Args:
        shown: The rows of a call.
        skips: [R] the columns at which their prompts begin.
        starts: [R] the columns at which their output begins.
        room: How many tokens they may have.
    """

    def __init__(self, shown: Shown, skips: Integers, starts: Integers, room: Room) -> None:
        self.skips, self.starts = skips, starts
        self.prompt = prompt_tensor(shown, skips, starts)
        self._limits = room.limits(skips, starts)
        self._roots: dict[Port, tuple[Context, Any]] = {}
        self._family: Integers | None = None

    def root(self, processor: Processor[Any], port: Port) -> tuple[Context, Any]:
        """Return the context and the state of the prompts alone.

        A row of pads alone stands for no text, and has ended.
        """
        root = self._roots.get(port)
        if root is None:
            lengths = torch.from_numpy(self.starts - self.skips).to(port.device)
            limits = self._limits
            differ = limits is not None and bool((limits != limits[0]).any())
            context = Context(
                prompt=self.prompt.to(port.device),
                prompt_lengths=lengths,
                lengths=lengths,
                vocabulary_size=port.vocabulary_size,
                device=port.device,
                max_length=None if limits is None else int(limits.max()),
                max_lengths=torch.from_numpy(limits).to(port.device) if limits is not None and differ else None,
            )
            state = init_checked(processor, context)
            only_pads = (self.skips > 0) & (self.starts == self.skips)
            if only_pads.any():
                state = finished(processor, state, torch.from_numpy(only_pads).to(port.device))
            root = context, state
            store(self._roots, port, root)
        return root

    def family(self) -> Integers:
        """Return a number for each row, [R], equal for rows of equal prompts and pads."""
        if self._family is None:
            places = torch.from_numpy(np.column_stack((self.skips, self.starts))).to(self.prompt.device)
            self._family = (
                torch.unique(torch.cat((places, self.prompt), 1), dim=0, return_inverse=True)[1].cpu().numpy()
            )
        return self._family


def prompt_tensor(shown: Shown, skips: Integers, starts: Integers) -> Tensor:
    """Return the prompts that begin and end at these columns, [R, P] int64 right-padded with -1."""
    lengths = starts - skips
    width = int(lengths.max())
    if not skips.any() and int(lengths.min()) == width:
        return shown.ids[:, :width].clone()
    column = np.arange(width)
    inside = column < lengths[:, None]
    # Columns beyond a row's prompt read any id, which the mask replaces.
    index = torch.from_numpy(np.where(inside, column + skips[:, None], 0)).to(shown.ids.device)
    if not width:
        return shown.ids[:, :0].clone()
    return shown.ids.gather(1, index).masked_fill(~torch.from_numpy(inside).to(index.device), -1)


def store(table: dict[Port, V], port: Port, value: V) -> None:
    """Put a value into a table that never has more than a few."""
    if len(table) >= PORTS and port not in table:
        del table[next(iter(table))]
    table[port] = value
