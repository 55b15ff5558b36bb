"""A row on the host that may be in several configurations at once, since its language is not deterministic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT, MaskKey
from logitkit.compiler.tokens.tables.packed_stacks import FRAME_BYTES, Packed
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.constraint_row import NOWHERE, Configurations, ConstraintRow

__all__ = ["BranchingRow"]


class BranchingRow(ConstraintRow):
    """A row that may be in several configurations at once, each a state and a stack.

    A language that is not deterministic has an automaton with layers: each has one of the actions of every state and token. A
    token takes every configuration through every layer, and equal ones are merged. The row keeps a limited number of them, those
    with the fewest open frames first. If one is dropped for that, the row is *narrowed*: it may refuse some texts of the
    language, but it never allows others, and is never stuck, because each configuration can be completed.

    By hand, for palindromes `s ::= "a" s "a" | "b" s "b" | ""`: after `a` there is one configuration, inside of the first rule.
    The next `a` opens another one, or closes it: two configurations, with two frames and with none.

    Args:
        registry: The registry that the slot refers to.
        slot: The slot of its automaton, whose layers are found through it.
        generation: That of the slot.
        configurations: The states and stacks, none of them dead.
        most: The most configurations that it keeps.
        narrowed: Whether it once had more.
    """

    __slots__ = ("_configurations", "most", "narrowed")

    def __init__(
        self,
        registry: Any,
        slot: int,
        generation: int,
        configurations: Configurations,
        most: int,
        narrowed: bool = False,
    ) -> None:
        super().__init__(registry, slot, generation, _first_state(configurations))
        self._configurations, self.most, self.narrowed = configurations, most, narrowed

    @property
    def configurations(self) -> Configurations:
        """The states and stacks in which the row is at once, those with the fewest frames first; none if it is dead."""
        return self._configurations

    def advance(self, token: int) -> None:
        """Advance by one token; see `ConstraintRow.advance`."""
        if token == -1:
            return
        automaton = self.automaton
        found: dict[tuple[int, Packed], None] = {}
        for layer in (automaton, *automaton.layers):
            for state, stack in self._configurations:
                after = layer.step(state, stack, token) if state >= FIRST_STATE else (state, stack)
                if after[0] != DEAD:
                    found[after] = None
        kept = [*found]
        if len(kept) > 1:
            kept.sort(key=lambda at: -(-len(at[1].rstrip(b"\0")) // FRAME_BYTES))
            self.narrowed = self.narrowed or len(kept) > self.most
            del kept[self.most :]
        self._configurations, self.current, self._mask = kept, _first_state(kept), None

    def _legal(self, automaton: TokenAutomaton) -> NDArray[np.bool_]:
        return automaton.legal_in_layers(self._places(automaton))

    def _place(self) -> int | tuple[tuple[MaskKey | int, ...], ...]:
        return self.current if self.current < FIRST_STATE else self._places(self.automaton)

    def _places(self, automaton: TokenAutomaton) -> tuple[tuple[MaskKey | int, ...], ...]:
        """Return the place of each configuration in each layer."""
        layers = (automaton, *automaton.layers)
        return tuple([tuple([layer.mask_key(*at, NO_LIMIT) for at in self._configurations]) for layer in layers])


def _first_state(configurations: Configurations) -> int:
    return (configurations or NOWHERE)[0][0]
