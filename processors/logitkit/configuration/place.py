"""Where in a configuration a value stands, for errors and for what depends on it."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, replace

from logitkit.automata.limits import Limits
from logitkit.errors import ConfigurationError
from logitkit.vocabulary import Vocabulary

# Configurations inside configurations: no use needs more, and each level is a call on Python's stack.
DEEPEST = 16

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
    """

    path: str
    vocabulary: Vocabulary
    limits: Limits
    depth: int = 0

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

    def refuse(self, value: object, allowed: str) -> ConfigurationError:
        """Return the error for a value that is not allowed here."""
        try:
            given = _short.repr(value)
        except ValueError:  # Python writes no integer of more than 4,300 digits
            given = f"a huge {type(value).__name__}"
        return ConfigurationError(f"{self.path} is {given}; allowed is {allowed}")
