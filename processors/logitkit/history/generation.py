"""Rows that began together: their prompts, and their states before any output."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.history.branches import Integers
from logitkit.history.rows import Shown
from logitkit.processor import Processor

__all__ = ["Generation", "Port", "store"]

V = TypeVar("V")

# Most kinds of logits (those of a target and of an assistant model) that anything is kept for.
PORTS = 4


class Port(NamedTuple):
    """The logits that a state is for: an assistant model's may be wider than its target's."""

    vocabulary_size: int
    device: torch.device


class Generation:
    """Rows that began together: their prompts, and their states before any output.

    Args:
        shown: The rows of a call.
        skips: [R] the columns at which their prompts begin.
        starts: [R] the columns at which their output begins.
        max_length: Most tokens of a row, if known.
    """

    def __init__(self, shown: Shown, skips: Integers, starts: Integers, max_length: int | None) -> None:
        self.skips, self.starts = skips, starts
        self.prompt = prompt_tensor(shown, skips, starts)
        self._max_length = max_length
        self._roots: dict[Port, tuple[Context, Any]] = {}
        self._family: Integers | None = None

    def root(self, processor: Processor[Any], port: Port) -> tuple[Context, Any]:
        """Return the context and the state of the prompts alone."""
        root = self._roots.get(port)
        if root is None:
            lengths = torch.from_numpy(self.starts - self.skips).to(port.device)
            context = Context(
                prompt=self.prompt.to(port.device),
                prompt_lengths=lengths,
                lengths=lengths,
                vocabulary_size=port.vocabulary_size,
                device=port.device,
                max_length=self._max_length,
            )
            root = context, processor.init_state(context)
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
