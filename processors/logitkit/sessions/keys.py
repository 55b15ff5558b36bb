"""The keys of `state[...]`, which select rows and a part of each."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

from logitkit.errors import SequenceIndexError
from logitkit.parameters.scalars import as_integer

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
        key: An integer, a slice without a step, `...` for all keys that are not given, or a tuple of them. The keys of prompts
            and samples may also be lists of integers, in any order and with repetitions.
        batch: The number of prompts.
        samples: The number of samples per prompt.

    Raises:
        SequenceIndexError: There are too few or too many keys, a key has another type, a slice has a step, an integer is out of
            range, or no row is selected.

    Example:
        >>> keys = read_keys((-1, slice(0, 4)), batch=1, samples=3)
        >>> list(keys.samples), keys.bounds(10, "characters")
        ([2], (0, 4))
        >>> list(read_keys(([0, 2], ...), batch=3, samples=1).batches)
        [0, 2]
    """
    names = [*(["batch"] if batch > 1 else []), *(["sample"] if samples > 1 else []), "ids"]
    given = _without_ellipsis(key if isinstance(key, tuple) else (key,), len(names))
    if len(given) != len(names):
        raise SequenceIndexError(
            f"{len(given)} keys were given to a state of {batch} prompts and {samples} samples, which takes {len(names)}: "
            f"state[{', '.join(names)}]"
        )
    *checked, part = [_checked(one, name) for one, name in zip(given, names, strict=True)]
    assert not isinstance(part, list)
    rows = dict(zip(names[:-1], checked, strict=True))
    return Keys(
        batches=_selected(rows.get("batch", slice(None)), batch, "prompts"),
        samples=_selected(rows.get("sample", slice(None)), samples, "samples"),
        part=part,
    )


def _without_ellipsis(given: tuple[object, ...], count: int) -> tuple[object, ...]:
    """Return the keys with whole slices in place of the first `...`, as many as are missing."""
    place = next((i for i, key in enumerate(given) if key is ...), None)
    if place is None:
        return given
    return (*given[:place], *[slice(None)] * (count - len(given) + 1), *given[place + 1 :])


def _checked(key: object, name: str) -> int | slice | list[int]:
    if isinstance(key, list) and name != "ids":
        numbers = [as_integer(one) for one in key]
        if None in numbers:
            raise SequenceIndexError(f"the {name} key is {reprlib.repr(key)}; a list must contain integers only")
        return [number for number in numbers if number is not None]
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
            f"{'' if name == 'ids' else ', and lists of integers'}"
        )
    return number


def _selected(key: int | slice | list[int], size: int, unit: str) -> Sequence[int]:
    if isinstance(key, int):
        return [_place(key, size, unit)]
    found = [_place(index, size, unit) for index in key] if isinstance(key, list) else range(size)[key]
    if not found:
        shown = "[]" if isinstance(key, list) else f"{key.start}:{key.stop}"
        raise SequenceIndexError(f"{shown} selects none of {size} {unit}; select at least one")
    return found


def _place(index: int, size: int, unit: str) -> int:
    if not -size <= index < size:
        raise SequenceIndexError(f"the index {index} is out of range: there are {size} {unit}")
    return index % size
