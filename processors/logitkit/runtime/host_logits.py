"""The base of processors with two implementations, and logits on the CPU as numpy arrays.

numpy changes a few logits in place several times faster than torch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import VocabularyError
from logitkit.kernels import switch
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Role
from logitkit.runtime.logit_arrays import BITS, as_array, fill

if TYPE_CHECKING:
    from logitkit.kernels.joined_lists import TokenList
    from logitkit.kernels.stages import Stage

__all__ = [
    "HostAndDevice",
    "HostLogits",
    "HostRow",
    "Truncation",
    "filled",
    "first_tensor",
    "host_rows",
    "is_empty",
    "keep_only",
]

S = TypeVar("S", bound=tuple[Any, ...])

# The greatest finite numbers.
MOST = {t: torch.finfo(t).max for t in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}

# Most rows have a token left among this many.
PROBED = 64


def is_empty(row: NDArray[Any], never: Any) -> bool:
    """Whether all logits of a row without NaN are at -inf; see `as_array` for `never`."""
    return bool((row[:PROBED] == never).all() and np.all(row == never))


def keep_only(row: NDArray[Any], ids: NDArray[Any], never: Any) -> None:
    """Set all logits of a row but those of some ids, [N] integers, to -inf; see `as_array` for `never`."""
    kept = row[ids]
    fill(row, never)
    row[ids] = kept


def filled(there: NDArray[np.bool_]) -> tuple[Any, Any]:
    """Return the row of each of some ids, or one row for all, and the index that selects the ids.

    Args:
        there: [B, N], which places of the rows have an id: in each row, the first ones.
    """
    # For a single row, this takes a third of the time.
    if len(there) == 1:
        return 0, (0, slice(np.count_nonzero(there)))
    return np.repeat(np.arange(len(there)), there.sum(1)), there


# Not frozen, which would take a microsecond at every call.
@dataclass(slots=True)
class HostLogits:
    """Logits on the CPU of which a few in each row are read and written by token id.

    Methods take the rows of token ids as [N] integers, or one row for all.

    Args:
        array: [B, V], sharing memory with the logits; see `as_array`.
        never: -inf, as it is in the array.
        dtype: The dtype of the logits.
        narrow: Whether that has 16 bits, so that the array holds bits.
    """

    array: NDArray[Any]
    never: Any
    dtype: torch.dtype
    narrow: bool

    @classmethod
    def of(cls, logits: Tensor) -> HostLogits:
        """View logits, [B, V] floating point on the CPU."""
        array, never, _ = as_array(logits)
        return cls(array, never, logits.dtype, logits.dtype in BITS)

    def read(self, row: Any, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the logits of token ids, [N] integers, in 32 bits at least.

        Raises:
            VocabularyError: An id is not a column.
        """
        try:
            array, places = self._places(row, ids)
            # `take` is faster, but would copy the whole row if it is not contiguous, such as one of llama.cpp.
            one_index = not isinstance(places, tuple) and array.flags.c_contiguous
            given = array.take(places) if one_index else array[places]
        except IndexError:
            raise self._outside(row, ids) from None
        wide: NDArray[Any] = torch.from_numpy(given).view(self.dtype).float().numpy() if self.narrow else given
        return wide

    def write(self, row: Any, ids: NDArray[Any], given: NDArray[Any], changed: NDArray[Any]) -> None:
        """Write changed logits of the ids, [N] as `read` returned them in `given`; those that were finite stay finite."""
        most = MOST[self.dtype]
        if len(changed) and not (changed.max() <= most and changed.min() >= -most):
            changed = np.where(np.isfinite(given), changed.clip(-most, most), changed)
        if self.narrow:
            changed = torch.from_numpy(changed).to(self.dtype).view(torch.uint16).numpy()
        array, places = self._places(row, ids)
        array[places] = changed

    def ban(self, row: Any, ids: NDArray[Any]) -> None:
        """Set the logits of token ids, [N] integers, to -inf.

        Raises:
            VocabularyError: An id is not a column.
        """
        try:
            array, places = self._places(row, ids)
            array[places] = self.never
        except IndexError:
            raise self._outside(row, ids) from None

    def keep(self, row: int, ids: NDArray[Any]) -> None:
        """Set all logits but those of token ids, [N] integers, to -inf.

        Raises:
            VocabularyError: An id is not a column.
        """
        try:
            keep_only(self.array[row], ids, self.never)
        except IndexError:
            raise self._outside(row, ids) from None

    def _places(self, row: Any, ids: NDArray[Any]) -> tuple[NDArray[Any], Any]:
        """Return an array and the index of token ids in it; one index is about three times as fast as one of rows and ids."""
        if isinstance(row, int):
            return self.array[row], ids
        columns = self.array.shape[1]
        # An id that is not a column would be one of the next row.
        if self.array.flags.c_contiguous and ids.size and ids.max() < columns:
            return self.array.reshape(-1), row * columns + ids
        return self.array, (row, ids)

    def _outside(self, row: Any, ids: NDArray[Any]) -> VocabularyError:
        worst = ids.argmax()
        return VocabularyError(
            f"row {np.broadcast_to(row, ids.shape)[worst]} has the token {ids[worst]}, but the logits have "
            f"{self.array.shape[1]} columns: they belong to another model"
        )


@dataclass(slots=True)
class HostRow:
    """A row of logits in which at least one token is left.

    Args:
        line: [V] the logits, to be overwritten where they are not kept; for 16-bit dtypes, their bits.
        never: The value of -inf in `line`.
        scores: [V] float32 or float64, read-only: the logits without NaN and +inf.
        top: The greatest score, which is finite.
    """

    line: NDArray[Any]
    never: Any
    scores: NDArray[Any]
    top: float

    def keep(self, ids: NDArray[np.intp]) -> None:
        """Set all logits but those of some ids to -inf."""
        keep_only(self.line, ids, self.never)


def host_rows(logits: Tensor, active: Sequence[bool]) -> Iterator[tuple[int, HostRow]]:
    """Iterate over the active rows in which at least one logit is above -inf.

    NaN is replaced with -inf. Logits at +inf share all probability, as they would in the limit.

    Args:
        logits: [B, V] floating point on the CPU.
        active: Whether each row changes at all.

    Yields:
        The index of a row, and the row.
    """
    array, never, _ = as_array(logits)
    for row, wanted in enumerate(active):
        if not wanted:
            continue
        line = array[row]
        scores = logits[row].detach().float().numpy() if logits.dtype.itemsize == 2 else line
        top = scores.max()
        if np.isnan(top):
            missing = np.isnan(scores)
            line[missing] = never
            scores = np.where(missing, -np.inf, scores).astype(scores.dtype)
            top = scores.max()
        if top == np.inf:
            scores = np.where(scores == np.inf, 0, -np.inf).astype(scores.dtype)
            top = scores.max()
        if top > -np.inf:
            yield row, HostRow(line, never, scores, float(top))


class HostAndDevice(Described, Generic[S]):
    """A processor with implementations that return the same logits. Tokens do not change its state, unless it says how.

    Subclasses define `_by_rows`, which reads values on the CPU, and `_by_tensors`, which uses tensors only, for accelerators and
    compiled graphs. Both may overwrite the logits. On a GPU, `_by_kernel` comes first, if a subclass defines it.
    """

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state, which tokens do not change."""
        check_tokens(type(self).__name__, _rows(state), tokens)
        return state

    def process_logits(self, state: S, logits: Tensor, context: Context) -> tuple[S, Tensor]:
        """Return the state and the processed logits; on the CPU, these are the given ones, changed in place.

        Raises:
            VocabularyError: A token id that the processor needs is not a column of the logits (on the CPU).
        """
        logits = own_rows(type(self).__name__, _rows(state), logits)
        if not by_tensors(logits):
            return state, self._by_rows(state, logits)
        if switch.runs_on(first_tensor(state), logits) and self._by_kernel(state, logits):
            return state, logits
        return state, self._by_tensors(state, logits)

    def _by_rows(self, state: S, logits: Tensor) -> Tensor:
        raise NotImplementedError

    def _by_tensors(self, state: S, logits: Tensor) -> Tensor:
        raise NotImplementedError

    def _by_kernel(self, state: S, logits: Tensor) -> bool:
        """Process logits in place by a kernel, where kernels run; return whether that was done, else nothing has happened."""
        stage = self._stage(state)
        if stage is None:
            return False
        from logitkit.kernels.stages import run_stages

        return run_stages((stage,), logits) == 1

    def _stage(self, state: S) -> Stage | TokenList | None:
        """Return what kernels do to rows of logits, so that neighbours may share passes; None if they do not.

        Args:
            state: The state of the rows, on a device where kernels run.
        """
        return None


class Truncation(HostAndDevice[S]):
    """A processor that keeps the best tokens of each row and sets all others to -inf.

    The first field of its states is a parameter, [B]. Subclasses define `_active` and `_kept` instead of `_by_rows`.
    """

    role = Role.TRUNCATION

    def _active(self, parameter: Any, columns: int) -> Any:
        """Return whether a row changes at all, given its parameter; for a tensor of parameters, [B] bool."""
        raise NotImplementedError

    def _kept(self, row: HostRow, *values: Any) -> NDArray[np.intp]:
        """Return the ids to keep in a row, given the values of the fields of its state."""
        raise NotImplementedError

    def _by_rows(self, state: S, logits: Tensor) -> Tensor:
        values = [field.tolist() for field in state]
        active = [self._active(parameter, logits.shape[1]) for parameter in values[0]]
        for number, row in host_rows(logits, active):
            row.keep(self._kept(row, *[column[number] for column in values]))
        return logits


def first_tensor(state: Any) -> Tensor:
    """Return the first tensor of a state."""
    while not isinstance(state, Tensor):
        state = state[0]
    return state


def _rows(state: Any) -> int:
    """Return the number of rows of a state without comparing its fields, which takes longer."""
    return first_tensor(state).shape[0]
