"""One row, stepped on the CPU without tensors: for engines that run one sequence."""

from __future__ import annotations

import abc
from typing import Any

from numpy.typing import NDArray

from logitkit.automata.row_mask import RowMask
from logitkit.errors import VocabularyError

__all__ = ["LoneRow"]


class LoneRow(abc.ABC):
    """The state of one row, with what it takes to step it as Python numbers.

    A step of one row on tensors is mostly the calls of torch, and these mostly the memory that they touch, which a model has
    thrown out of the processor's caches.

    Args:
        mask: What it allows now; None: everything.
    """

    __slots__ = ("mask",)

    mask: RowMask | None

    @abc.abstractmethod
    def advance(self, token: int) -> None:
        """Go on by one token."""

    @property
    @abc.abstractmethod
    def state(self) -> Any:
        """The state as tensors, of one row."""

    def process(self, row: NDArray[Any], never: Any, zero: Any) -> None:
        """Mask the logits of the row in place.

        Args:
            row: [W], at least as wide as the vocabulary.
            never: What -inf is in it; see `row_mask.as_array`.
            zero: What 0 is in it.

        Raises:
            VocabularyError: It has fewer columns than the vocabulary has ids.
        """
        if self.mask is not None:
            self.check_width(len(row))
            self.mask.apply(row, never, zero)

    def check_width(self, columns: int) -> None:
        """Raise `VocabularyError` if logits have fewer columns than the vocabulary has ids."""
        if self.mask is not None and columns < self.mask.size:
            raise VocabularyError(
                f"the logits have {columns} columns, but the vocabulary has {self.mask.size} ids: it belongs to another model"
            )
