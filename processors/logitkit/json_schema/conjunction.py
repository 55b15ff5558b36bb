"""The conditions on a value: several schemas of the document at once, some of them negated."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from logitkit.budget import spend


class Literal(NamedTuple):
    """A schema that a value satisfies, or must not.

    Args:
        schema: Its number, by which the reader knows it.
        positive: Whether the value satisfies it.
    """

    schema: int
    positive: bool = True

    def __invert__(self) -> Literal:
        return Literal(self.schema, not self.positive)


# In the order in which they are met, which is that of the members of objects; none twice.
Conjunction: TypeAlias = tuple[Literal, ...]

ANYTHING: Conjunction = ()
NOTHING: Conjunction = (Literal(-1),)

# The cost of joining two, in steps, beside that of their parts.
JOINING = 3


def both(one: Conjunction, other: Conjunction) -> Conjunction:
    """Return what satisfies both.

    Raises:
        PatternTooLarge: Nothing is left of what the schema may cost.

    Example:
        >>> both((Literal(1),), (Literal(2), Literal(1)))
        (Literal(schema=1, positive=True), Literal(schema=2, positive=True))
    """
    if not other or one == other:
        return one
    if not one:
        return other
    if NOTHING in (one, other):
        return NOTHING
    spend(JOINING + len(one) // 2 + 3 * len(other))
    known = set(one)
    fresh = [literal for literal in other if literal not in known]
    return NOTHING if any(~literal in known for literal in fresh) else (*one, *fresh)


def negations(one: Conjunction) -> list[Conjunction]:
    """Return what does not satisfy it, as alternatives: whatever fails one of the schemas."""
    return [ANYTHING] if one == NOTHING else [(~literal,) for literal in one]
