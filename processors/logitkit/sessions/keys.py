"""The keys of `state[...]`, which select rows and a part of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from logitkit.errors import SequenceIndexError
from logitkit.parameters.integers import as_integer

__all__ = ["Keys", "read_keys"]


@dataclass(frozen=True, slots=True)
class Keys:
    """The selection of an index.

    Args:
        batches: The selected prompts.
        samples: The selected samples of each prompt.
        part: The last key, an integer or a slice.
    """

    batches: Sequence[int]
    samples: Sequence[int]
    part: int | slice

    def bounds(self, length: int, unit: str) -> tuple[int, int]:
        """Return the start and stop of the part in a row of the given length.

        Raises:
            SequenceIndexError: The part is an integer beyond the end of the row.
        """
        if isinstance(self.part, slice):
            start, stop, _ = self.part.indices(length)
            return start, max(start, stop)
        place = _place(self.part, length, unit)
        return place, place + 1

    @property
    def is_open(self) -> bool:
        """Whether the part extends to the end of a row of any length."""
        return isinstance(self.part, slice) and self.part.stop is None


def read_keys(key: object, batch: int, samples: int) -> Keys:
    """Parse the keys in the brackets: one for a state of one row, two for several samples or prompts, three for both.

    Args:
        key: An integer, a slice without a step, or a tuple of them.
        batch: The number of prompts.
        samples: The number of samples per prompt.

    Raises:
        SequenceIndexError: There are too few or too many keys, a key has another type, a slice has a step, an integer is out of
            range, or no row is selected.

    Example:
        >>> keys = read_keys((-1, slice(0, 4)), batch=1, samples=3)
        >>> list(keys.samples), keys.bounds(10, "characters")
        ([2], (0, 4))
    """
    given = key if isinstance(key, tuple) else (key,)
    names = [*(["batch"] if batch > 1 else []), *(["sample"] if samples > 1 else []), "ids"]
    if len(given) != len(names):
        raise SequenceIndexError(
            f"{len(given)} keys were given to a state of {batch} prompts and {samples} samples, which takes {len(names)}: "
            f"state[{', '.join(names)}]"
        )
    checked = [_checked(one, name) for one, name in zip(given, names, strict=True)]
    rows = dict(zip(names[:-1], checked[:-1], strict=True))
    return Keys(
        batches=_selected(rows.get("batch", slice(None)), batch, "prompts"),
        samples=_selected(rows.get("sample", slice(None)), samples, "samples"),
        part=checked[-1],
    )


def _checked(key: object, name: str) -> int | slice:
    if isinstance(key, slice):
        if key.step is not None:
            raise SequenceIndexError(f"the {name} key has the step {key.step!r}; slices are contiguous, without a step")
        ends = [end if end is None else as_integer(end) for end in (key.start, key.stop)]
        if any(end is None and given is not None for end, given in zip(ends, (key.start, key.stop), strict=True)):
            raise SequenceIndexError(f"the {name} key is {key!r}; its ends must be integers")
        return slice(*ends)
    number = as_integer(key)
    if number is None:
        raise SequenceIndexError(
            f"the {name} key is {key!r} of type {type(key).__name__}; allowed are integers and slices"
        )
    return number


def _selected(key: int | slice, size: int, unit: str) -> Sequence[int]:
    if isinstance(key, int):
        return [_place(key, size, unit)]
    found = range(size)[key]
    if not found:
        raise SequenceIndexError(f"{key.start}:{key.stop} selects none of {size} {unit}; select at least one")
    return found


def _place(index: int, size: int, unit: str) -> int:
    if not -size <= index < size:
        raise SequenceIndexError(f"the index {index} is out of range: there are {size} {unit}")
    return index % size
