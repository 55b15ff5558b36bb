"""Lists of token ids, one a row, as a tensor padded with -1: how they are checked, looked up and masked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.automata.row_mask import as_array
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.integers import as_integer
from logitkit.tensor_path import by_tensors

__all__ = ["Places", "ban", "checked_id", "checked_ids", "counts_of", "id_tensor", "outside", "problem_of", "rising"]

# States hold ids in 32 bits.
LARGEST = 2**31 - 1


def checked_id(name: str, given: object) -> int:
    """Return a token id; `name` is that of the argument."""
    found = as_integer(given)
    if found is None or not 0 <= found <= LARGEST:
        raise ConfigurationError(f"{name} has {given!r}; allowed are token ids, integers from 0 to {LARGEST}")
    return found


def checked_ids(name: str, given: object) -> tuple[int, ...]:
    """Return token ids in the order given; `name` is that of the argument."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigurationError(f"{name} is {given!r}; give a list of token ids")
    return tuple(checked_id(name, i) for i in given)


def rising(ids: Iterable[int]) -> tuple[int, ...]:
    """Return ids in ascending order, each once."""
    return tuple(sorted(set(ids)))


def id_tensor(lists: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return lists of ids as [B, N] int32, padded with -1 at the end."""
    if lists and all(ids is lists[0] for ids in lists):
        # As a rule all rows have one list, perhaps half a vocabulary long.
        return torch.tensor([lists[0]], dtype=torch.int32, device=device).repeat(len(lists), 1)
    width = max(map(len, lists), default=0)
    rows = [[*ids, *[-1] * (width - len(ids))] for ids in lists]
    return torch.tensor(rows, dtype=torch.int32, device=device).reshape(len(lists), width)


def problem_of(ids: Tensor) -> str | None:
    """Say why lists read from a file are no rising ids with -1 behind them, or return None."""
    if bool((ids < -1).any()):
        return "a token id is below -1"
    before, after = ids[:, :-1], ids[:, 1:]
    allowed = (after == -1) | ((before >= 0) & (after > before))
    return None if bool(allowed.all()) else "the ids of a row do not rise"


def counts_of(ids: NDArray[Any]) -> list[int]:
    """Return how many ids each row has."""
    counts: list[int] = (ids >= 0).sum(1).tolist()
    return counts


def outside(row: int, ids: NDArray[Any], columns: int) -> VocabularyError:
    """Return the error for ids that are none of the columns."""
    return VocabularyError(
        f"row {row} has the token {ids.max()}, but the logits have {columns} columns: they belong to another model"
    )


class Places(NamedTuple):
    """Where the ids of each row are among the columns, for gather and scatter.

    An empty place, and an id that is none of the columns, repeats the first of its row, which then is only written twice: as ids
    rise, the first is a column if any is.

    Args:
        at: [B, N] int64 columns.
        source: [B, N] int64, the place of the list that each stands for.
        some: [B, 1] bool, whether the row has any id; if not, all of its places are one column, to be written back as it is.
    """

    at: Tensor
    source: Tensor
    some: Tensor

    @classmethod
    def of(cls, ids: Tensor, columns: int) -> Places:
        """Look up [B, N] rising ids, of which N is at least 1."""
        real = (ids >= 0) & (ids < columns)
        source = torch.where(real, torch.arange(ids.shape[1], device=ids.device), 0)
        at = ids.gather(1, source).clamp(0, columns - 1).to(torch.int64)
        return cls(at, source, real[:, :1])


def ban(ids: Tensor, logits: Tensor) -> Tensor:
    """Set logits to -inf, in place, on either path.

    Args:
        ids: [B, N] int32, -1 = none, behind the others.
        logits: [B, V] floating point.

    Raises:
        VocabularyError: An id is none of the columns (on the host).
    """
    if ids.shape[1] == 0:
        return logits
    if by_tensors(logits):
        places = Places.of(ids, logits.shape[1])
        kept = logits.gather(1, places.at)
        return logits.scatter_(1, places.at, torch.where(places.some, -torch.inf, kept))
    array, never, _ = as_array(logits)
    lists = ids.numpy()
    for row, count in enumerate(counts_of(lists)):
        if count == 0:
            continue
        try:
            array[row][lists[row, :count]] = never
        except IndexError:
            raise outside(row, lists[row], array.shape[1]) from None
    return logits


def finite(given: NDArray[Any], changed: NDArray[Any], most: float) -> NDArray[Any]:
    """Return changed logits, of which those that were finite stay finite."""
    if (np.abs(changed) <= most).all():
        return changed
    bounded: NDArray[Any] = np.where(np.isfinite(given), changed.clip(-most, most), changed)
    return bounded
