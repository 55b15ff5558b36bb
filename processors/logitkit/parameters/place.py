"""The place of a value in a configuration: its path for errors, and the data needed to read it."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from logitkit.errors import ConfigurationError

__all__ = ["HIDDEN", "Place", "shown"]

# Stands for a secret value in an error.
HIDDEN = "a value that is not shown, as it is secret"

# The maximum nesting. No use needs more, and each level is a call on Python's stack.
DEEPEST = 16

# The maximum number of processors, each of which may take as long as the limits of one pattern allow.
MOST_PROCESSORS = 64

# A processor's own message may repeat a long value.
LONGEST_MESSAGE = 600

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80  # arguments of Repr only from Python 3.12 on


@dataclass(frozen=True, slots=True)
class Place:
    """The path of a value, and the data needed to read the values of a configuration.

    Args:
        path: The path of the value as a Python expression.
        vocabulary: The vocabulary.
        limits: The limits on the cost of each pattern.
        reader: Reads the configuration at a place; called for processors inside others.
        depth: The number of configurations around this one.
        numbers: Counts the processors of the whole configuration.
    """

    path: str
    vocabulary: Any
    limits: Any
    reader: Callable[[Any, Place], Any]
    depth: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False, compare=False)

    def inside(self, key: object) -> Place:
        """Return the place of the value under a key, or at an index."""
        # Not `replace`, which takes five times as long: this is called for each value.
        return Place(f"{self.path}[{key!r}]", self.vocabulary, self.limits, self.reader, self.depth, self.numbers)

    def nested(self) -> Place:
        """Return the same place, for a nested configuration.

        Raises:
            ConfigurationError: The nesting is too deep.
        """
        if self.depth == DEEPEST:
            raise ConfigurationError(f"{self.path} is nested {DEEPEST + 1} deep; allowed are {DEEPEST} levels")
        return replace(self, depth=self.depth + 1)

    def count(self) -> None:
        """Count a processor.

        Raises:
            ConfigurationError: There are too many processors.
        """
        if next(self.numbers) > MOST_PROCESSORS:
            raise ConfigurationError(
                f"{self.path} is one processor too many; allowed are {MOST_PROCESSORS} in a configuration"
            )

    def refused(self, error: ConfigurationError) -> ConfigurationError:
        """Return the error of a processor, with the path of its value."""
        said = str(error)
        if len(said) > LONGEST_MESSAGE:
            said = f"{said[: LONGEST_MESSAGE // 2]} ... {said[-LONGEST_MESSAGE // 2 :]}"
        return ConfigurationError(f"{self.path}: {said}")

    def refuse(self, value: object, allowed: str, *, secret: bool = False) -> ConfigurationError:
        """Return the error for a value that is not allowed here, which does not show a secret one."""
        return ConfigurationError(f"{self.path} is {HIDDEN if secret else shown(value)}; allowed is {allowed}")


def shown(value: object) -> str:
    """Return the text of a value for an error, shortened if it is long."""
    try:
        return _short.repr(value)
    except ValueError:  # Python does not convert integers of more than 4,300 digits to text
        return f"a huge {type(value).__name__}"
