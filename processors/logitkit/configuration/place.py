"""Where in a configuration a value stands, for errors and for what depends on it."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from logitkit.automata.limits import Limits
from logitkit.errors import ConfigurationError
from logitkit.vocabulary import Vocabulary

# Configurations inside configurations: no use needs more, and each level is a call on Python's stack.
DEEPEST = 16

# Each may take as long as the limits of one pattern allow.
MOST_PROCESSORS = 64

# What a processor says of itself may hold what was given.
LONGEST_MESSAGE = 600

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80  # arguments of Repr only from Python 3.12 on


@dataclass(frozen=True, slots=True)
class Place:
    """A value's path, and what all values of a configuration are read with.

    Args:
        path: How a Python programmer would reach the value.
        vocabulary: The tokens.
        limits: Bounds on what each pattern may cost.
        depth: Configurations around this one.
        numbers: Counts the processors of the whole configuration.
    """

    path: str
    vocabulary: Vocabulary
    limits: Limits
    depth: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def inside(self, key: object) -> Place:
        """Return the place of the value under a key, or at an index."""
        return replace(self, path=f"{self.path}[{key!r}]")

    def nested(self) -> Place:
        """Return the same place, for a configuration of its own.

        Raises:
            ConfigurationError: Too many configurations are around it.
        """
        if self.depth == DEEPEST:
            raise ConfigurationError(f"{self.path} is nested {DEEPEST + 1} deep; allowed are {DEEPEST} levels")
        return replace(self, depth=self.depth + 1)

    def count(self) -> None:
        """Count one more processor.

        Raises:
            ConfigurationError: They are too many.
        """
        if next(self.numbers) > MOST_PROCESSORS:
            raise ConfigurationError(
                f"{self.path} is one processor too many; allowed are {MOST_PROCESSORS} in a configuration"
            )

    def refused(self, error: ConfigurationError) -> ConfigurationError:
        """Return the error for what a processor itself does not allow."""
        said = str(error)
        if len(said) > LONGEST_MESSAGE:
            said = f"{said[: LONGEST_MESSAGE // 2]} ... {said[-LONGEST_MESSAGE // 2 :]}"
        return ConfigurationError(f"{self.path}: {said}")

    def refuse(self, value: object, allowed: str) -> ConfigurationError:
        """Return the error for a value that is not allowed here."""
        return ConfigurationError(f"{self.path} is {shown(value)}; allowed is {allowed}")


def shown(value: object) -> str:
    """Return what stands for a value in an error: not all of it, where it is long."""
    try:
        return _short.repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return f"a huge {type(value).__name__}"
