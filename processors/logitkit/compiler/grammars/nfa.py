"""An automaton with empty moves, in which copies of rules are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from logitkit.compiler.characters.components import reached
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.subset import SymbolDfa, determinise
from logitkit.compiler.grammars.limited_rules import check_alone
from logitkit.limits import Limits

__all__ = ["Nfa"]

# In how many passes equal states are looked for.
MOST_PASSES = 3


@dataclass(eq=False, slots=True)
class Nfa:
    """An automaton with empty moves, to be made deterministic.

    Args:
        limits: Bounds on its size.
        edges: For each state, masks of symbols and the state that they lead to.
        empty: For each state, the states that it leads to without a symbol.
        signs: The signs of limits of tokens, as in `check_alone`.
    """

    limits: Limits
    edges: list[list[tuple[int, int]]] = field(default_factory=list)
    empty: list[list[int]] = field(default_factory=list)
    signs: Sequence[tuple[int, int]] = ()

    def add(self, count: int = 1) -> int:
        """Add states and return the first."""
        first = len(self.edges)
        self.limits.check_states(first + count)
        self.limits.spend(4 * count)
        self.edges.extend([[] for _ in range(count)])
        self.empty.extend([[] for _ in range(count)])
        return first

    def minimal(self, start: int, end: int) -> SymbolDfa | None:
        """Return the minimal automaton of the texts from one state to another, the empty text excepted."""
        number: list[list[int]] = []
        masks: list[int] = []
        targets: list[int] = []
        for row in self.edges:
            number.append(list(range(len(masks), len(masks) + len(row))))
            masks.extend([mask for mask, _ in row])
            targets.extend([target for _, target in row])
        same = self._same(end)
        used = {same[t] for t in targets} | {same[start]}
        silently = {state: self._reached(state) for state in used}
        after = {s: tuple(sorted([p for state in states for p in number[state]])) for s, states in silently.items()}
        self.limits.spend(2 * sum(map(len, after.values())))
        positions = Positions(
            [],
            [after[same[t]] for t in targets],
            after[same[start]],
            [end in silently[same[t]] for t in targets],
            False,
        )
        checks = check_alone(positions, masks, self.signs)
        return minimise(determinise(positions, masks, self.limits, checks), self.limits)

    def _same(self, end: int) -> list[int]:
        """Return for each state an equal one: states that only lead on without a symbol, to the same states, are equal."""
        same = list(range(len(self.edges)))
        leading = [s for s in same if self.empty[s] and not self.edges[s] and s != end]
        for _ in range(MOST_PASSES):
            first: dict[tuple[int, ...], int] = {}
            for state in leading:
                after = tuple(sorted({same[t] for t in self.empty[state]} - {state}))
                same[state] = after[0] if len(after) == 1 else first.setdefault(after, state)
        self.limits.spend(MOST_PASSES * len(leading))
        return [same[s] for s in same]

    def _reached(self, state: int) -> list[int]:
        if not self.empty[state]:
            return [state]
        found = reached(state, self.empty.__getitem__)
        self.limits.spend(len(found))
        return found
