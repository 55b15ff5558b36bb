"""The positions of one rule: the characters, calls and conditions of its tree, and which may follow each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from logitkit.compiler.characters.positions import EMPTY, Part, PositionBuilder
from logitkit.compiler.characters.symbols import Symbol
from logitkit.errors import LogitkitError
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.spans import PlacedCharacters
from logitkit.patterns.syntax import Alternate, Anchor, Atomic, Characters, Look, Machine

__all__ = ["BEGIN", "RulePositions"]

BEGIN = -1
"""The place before all positions."""

# With more work, a counted part is taken for one that repeats without limit.
_LIMITS = Limits(work=200_000)


class RulePositions(PositionBuilder):
    """The positions of one rule: characters, with their spans if these are known, calls and conditions.

    Args:
        body: The tree of the rule.
        limits: Bounds on the cost.
        uncounted: Whether counted parts repeat without limit.
        has_conditions: Whether lookaheads are positions. Otherwise, they are left out.
    """

    def __init__(self, body: Any, limits: Limits, uncounted: bool = False, has_conditions: bool = False) -> None:
        super().__init__(limits)
        self.uncounted, self.has_conditions = uncounted, has_conditions
        self.spans: dict[int, tuple[int, int]] = {}
        self.conditions: dict[int, Characters | Machine] = {}
        self.whole = self.part(body)
        self.last = set(self.whole.last)
        self.called = list(map(_called, self.charsets))

    @classmethod
    def of(cls, body: Any) -> RulePositions:
        """Return the positions of a rule without conditions, and without its counts if these take too much work."""
        try:
            return cls(body, _LIMITS)
        except LogitkitError:
            return cls(body, Limits(), uncounted=True)

    def part(self, tree: Any) -> Part:
        """Number the positions of a tree."""
        match tree:
            case PlacedCharacters(charset, span):
                self.spans[len(self.charsets)] = span
                return super().part(Characters(charset))
            case Look(Characters() | Machine() as condition, False, True) if self.has_conditions:
                self.conditions[len(self.charsets)] = condition
                return super().part(Characters(CharSet()))
            case Look() | Anchor():
                return EMPTY
            case Atomic(node):
                return self.part(node)
            case Alternate(options):
                # Not factored, since parts with different spans are not equal.
                return self.alternate(list(options))
        return super().part(tree)

    def repeat(self, node: Any, minimum: int, maximum: int | None) -> Part:
        """Number the positions of a repetition."""
        if self.uncounted and (minimum > 1 or (maximum or 0) > 1):
            minimum, maximum = min(minimum, 1), None
        return super().repeat(node, minimum, maximum)

    def after(self, position: int) -> Iterable[int]:
        """Return the positions that may follow one."""
        return self.whole.first if position == BEGIN else chain.from_iterable(self.follow[position])

    def may_end(self, position: int) -> bool:
        """Whether the rule may end after a position."""
        return self.whole.nullable if position == BEGIN else position in self.last


def _called(charset: CharSet) -> int | None:
    """Return the rule that a position calls, or None if it reads a character or a special token."""
    first = charset.ranges[0][0] if charset else 0
    return Symbol.number(first) if Symbol.is_call(first) else None
