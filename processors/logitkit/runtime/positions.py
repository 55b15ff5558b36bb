"""Where the rows of a batch are: as tensors, and what a state must say so that the executors can advance and mask its rows.

There are two executors: rows of Python numbers (`constraint_row`, `host_rows`), and tensor operations or kernels (`device_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from torch import Tensor

from logitkit.runtime.constraint_row import ConstraintRow

__all__ = ["Numbers", "RowPositions", "RowState"]

S = TypeVar("S", bound="RowState")

# Lists by row, of all that tokens change: of states, and maybe of stacks.
Numbers: TypeAlias = tuple[list[Any], ...]


class RowState(Protocol):
    """A state whose rows the executors can advance and mask."""

    @property
    def runs_on_host(self) -> bool:
        """Whether its steps run on the host, wherever its tensors are."""
        ...

    @property
    def row_states(self) -> Tensor:
        """[B] int64: 0 where a row is dead, 1 where it is finished, else more."""
        ...

    @property
    def slots(self) -> Tensor:
        """The slots of its rows, and maybe those of more layers: [B] or [B, J] int64."""
        ...

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All its tensors."""
        ...

    def host_rows(self, registry: Any) -> list[ConstraintRow]:
        """Return its rows as Python numbers. Its tensors are on the CPU."""
        ...

    def numbers_of(self, rows: Sequence[Any]) -> Numbers:
        """Return what tokens change of its rows."""
        ...

    def with_numbers(self, numbers: Numbers, before: Numbers | None = None) -> Self:
        """Return the state with other numbers.

        Args:
            numbers: Those of its rows, as `numbers_of` returns them.
            before: Those that it has, if they are known. Tensors in which both are equal are kept.
        """
        ...

    @property
    def positions(self) -> RowPositions:
        """The positions of its rows as tensors."""
        ...

    def at_positions(self, positions: RowPositions) -> Self:
        """Return the state of its rows at other positions."""
        ...


class RowPositions(NamedTuple):
    """The positions of B rows.

    Rows that may branch are in up to N configurations at once, and their automata have up to J layers. Their tensors have one
    more dimension, which is given here in parentheses.

    Args:
        slot: [B (, J)] int64, the slots of the automata; 0 constrains nothing.
        generation: [B (, J)] int64, those of the slots.
        state: [B (, N)] int64, the states with their counts; in a row that branches, 0 where there are fewer configurations.
        stack: [B (, N), D] int32, the frames, outermost first, then 0. If D is 0, the states say everything.
        left: [B] int64, the number of tokens left, -1 if they are not counted; None if no row counts them.
        most: [B] int64, the most configurations of each row. None: no row branches.
        narrowed: [B] bool, whether a row once had more configurations. None: no row branches.
    """

    slot: Tensor
    generation: Tensor
    state: Tensor
    stack: Tensor
    left: Tensor | None = None
    most: Tensor | None = None
    narrowed: Tensor | None = None
