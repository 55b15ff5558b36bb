"""A stop that is a pattern: any text that matches it ends the text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.pattern_occurrences import longest_match
from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.parameters import Form
from logitkit.parameters.place import Place
from logitkit.patterns.construction import inside
from logitkit.patterns.flags import with_flags
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Anchor, Look, Node

__all__ = ["StopPattern", "StopPatternForm"]


@dataclass(frozen=True, slots=True)
class StopPattern:
    """A pattern among the stops of `StopStrings`.

    Args:
        pattern: The pattern, in the syntax of Python's `re`, with its flags written inline.
    """

    pattern: str

    @classmethod
    def of(cls, given: re.Pattern[str], name: str) -> StopPattern:
        """Return a compiled pattern as a stop; `name` is the argument's name, for the error.

        Raises:
            ConfigurationError: It is a pattern of bytes.
        """
        return cls(with_flags(given, name))

    def __str__(self) -> str:
        return self.pattern

    def byte_dfa(self, name: str, limits: Limits) -> ByteDfa:
        """Return the automaton of the texts that match.

        Args:
            name: The argument's name, for errors.
            limits: Bounds on the automaton.

        Raises:
            ConfigurationError: The pattern matches no text, the empty text, or texts of unlimited length; or it has an anchor or
                a lookaround.
            PatternSyntaxError: It is not a pattern.
            PatternTooLarge: The automaton exceeds a limit.
        """
        said, tree = f"{name} is the pattern {self.pattern!r:.80}", parse(self.pattern)
        looks = next(_assertions(tree), None)
        if looks is not None:
            kind = "an anchor" if isinstance(looks, Anchor) else "a lookaround"
            raise ConfigurationError(
                f"{said}, which has {kind} at position {looks.position}; a stop depends on its own text only, so leave it out"
            )
        dfa = byte_dfa_of(tree, limits, self.pattern)
        if not dfa.accepting.any():
            raise ConfigurationError(f"{said}, which matches no text; give one that does")
        if dfa.accepting[dfa.start]:
            raise ConfigurationError(
                f"{said}, which matches the empty text and so every text; give one that needs at least one character"
            )
        if longest_match(dfa) is None:
            raise ConfigurationError(
                f"{said}, which matches texts of unlimited length, so that a stream would hold back any amount of text; limit "
                "each repetition, as in [0-9]{1,20}"
            )
        return dfa


def _assertions(tree: Node) -> Any:
    """Iterate over the anchors and lookarounds of a pattern."""
    if isinstance(tree, Anchor | Look):
        yield tree
    for part in inside(tree):
        yield from _assertions(part)


@dataclass(frozen=True, slots=True)
class StopPatternForm(Form):
    """The JSON form of a pattern among stops: `{"pattern": "..."}`."""

    allowed = '{"pattern": "..."}'

    def fits(self, value: object) -> bool:
        """Whether it is a pattern, or an object with one."""
        return isinstance(value, StopPattern) or (isinstance(value, Mapping) and "pattern" in value)

    def read(self, value: Any, place: Place) -> StopPattern:
        """Return the pattern."""
        if isinstance(value, Mapping) and list(value) == ["pattern"] and isinstance(value["pattern"], str):
            return StopPattern(value["pattern"])
        raise place.refuse(value, self.allowed)

    def write(self, value: StopPattern) -> dict[str, str]:
        """Return the object."""
        return {"pattern": value.pattern}

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        pattern = {"pattern": {"type": "string"}}
        return {"type": "object", "properties": pattern, "required": ["pattern"], "additionalProperties": False}
