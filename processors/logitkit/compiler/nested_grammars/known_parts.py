"""Parts of rules that stand in many grammars, such as that of any JSON value: each is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock

from logitkit.budget import one_budget, outside_budget, spent
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.nested_grammars.nested_grammar import NestedRule, RenumberedRule
from logitkit.compiler.nested_grammars.part import Part
from logitkit.limits import Limits

__all__ = ["KnownParts"]

# The limit on what is kept, in bytes. A part takes a few bytes for each step of work on it.
REMEMBERED_BYTES = 64 * 2**20
BYTES_A_STEP = 8


class KnownParts:
    """Keeps parts of rules with names; what a kept part calls is numbered as in the `calls` of its rule."""

    def __init__(self) -> None:
        self._parts: BoundedCache[Hashable, tuple[Part, int]] = BoundedCache(REMEMBERED_BYTES)
        self._lock = Lock()

    def part(self, rule: NestedRule | RenumberedRule, make: Callable[[], Part], limits: Limits) -> Part:
        """Return the part of a rule with a name; a known part costs the same as one that is made now."""
        key = rule.known_as, rule.opening, limits
        # Other threads may drop it meanwhile.
        known = self._parts.get(key)
        if known is None:
            with outside_budget(), one_budget(limits.work):
                made = make()
                made.over_bytes(limits)
                work = spent()
            found = made.renamed(_numbers(rule.calls), _numbers(rule.words))
            with self._lock:
                self._parts.keep(key, (found, work), BYTES_A_STEP * work)
        else:
            found, work = known
        limits.spend(work)
        return found.renamed(dict(enumerate(rule.calls)), dict(enumerate(rule.words)))


def _numbers(listed: tuple[int, ...]) -> dict[int, int]:
    return {number: place for place, number in enumerate(listed)}
