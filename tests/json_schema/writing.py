"""Random texts of an automaton over bytes, written as by a model without an opinion: each ends soon after some length."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep

FAR = 10**6
LONGEST = 5000


class TooLong(AssertionError):
    """The quickest way to an end was not found: of a nested part only a lower bound of its cost is known."""


class Writer:
    """Writes texts.

    Args:
        automaton: The automaton of the texts.
    """

    def __init__(self, automaton: NestedDfa) -> None:
        self.automaton = automaton
        classes = automaton.step.shape[1]
        self.bytes_of = [np.flatnonzero(automaton.byte_class == c).tolist() for c in range(classes)]
        self.used = np.array([bool(members) for members in self.bytes_of])
        self.cost = self._costs()

    def write(self, rng: random.Random, most: int = 30, deepest: int = 4) -> bytes:
        """Return a text.

        Args:
            rng: The random generator of the choices.
            most: Bytes, after which the text is ended in the quickest way.
            deepest: Calls inside each other, beyond which none is begun that need not be.
        """
        state, stack, text = self.automaton.start, list[int](), bytearray()
        while True:
            if len(text) >= LONGEST:
                raise TooLong(bytes(text))
            options = self._options(state, stack)
            ends = bool(self.automaton.accepting[state]) and not stack
            assert ends or options, f"nothing goes on behind {bytes(text)!r}"
            if ends and (not options or len(text) > most or rng.random() < 0.3):
                return bytes(text)
            if len(text) > most or len(stack) > deepest:
                least = min(cost for *_, cost in options)
                options = [option for option in options if option[-1] == least]
            symbol, state, stack, _ = rng.choice(options)
            text.append(rng.choice(self.bytes_of[symbol]))

    def _options(self, state: int, stack: list[int]) -> list[tuple[int, int, list[int], int]]:
        found = []
        automaton = self.automaton
        for symbol in np.flatnonzero((automaton.step[state] != DEAD) & self.used).tolist():
            does = int(automaton.step[state, symbol])
            after = stack
            if NestedStep.is_end(does):
                does = int(automaton.return_state[NestedStep.number(does), stack[-1]])
                after = stack[:-1]
            elif NestedStep.is_call(does):
                call = NestedStep.number(does)
                does, after = int(automaton.entry[call]), [*stack, int(automaton.frame[call])]
            if does != DEAD:
                behind = sum(self._least(self.cost, frame) for frame in after)
                found.append((symbol, does, after, min(int(self.cost[does]) + behind, FAR)))
        return found

    def _costs(self) -> NDArray[np.int64]:
        """Return about how many bytes there are from each state to the end of its part."""
        automaton = self.automaton
        cost = np.where(automaton.accepting, 0, FAR).astype(np.int64)
        step = automaton.step[:, self.used]
        while True:
            calls = np.array(
                [cost[e] + self._least(cost, f) for e, f in zip(automaton.entry, automaton.frame, strict=True)]
            )
            does = automaton.by_step(cost)
            does.calls[:] = calls
            does.states[DEAD] = FAR
            found = np.minimum(cost, np.minimum(1 + does.values[step].min(axis=1, initial=FAR), FAR))
            if (found == cost).all():
                return cost
            cost = found

    def _least(self, cost: NDArray[np.int64], frame: int) -> int:
        reached = self.automaton.return_state[:, frame]
        return int(cost[reached[reached != DEAD]].min(initial=FAR))
