"""All parts of a grammar as one automaton over bytes.

The automaton of `{"a": <string>, "b": <string>}` has the states of the object, and then two instances of the fragment for
strings. One instance leads on to the comma, the other to the closing bracket.

A rule that a bracket calls is not copied. The bracket pushes a *frame*, which says what comes after it, and the end of the call
pops the frame. A block of items is called by a comma in the same way, and so is a fragment whose instances would be large.

By hand, for nested brackets such as `[[][]]`. The main part calls rule 0, and rule 0 calls itself until it reads `]`:

    state  part    reads `[`                     reads `]`
    2      main    call 0, which pushes frame 0  -
    3      main    -                             -              the text may end here
    4      rule 0  call 1, which pushes frame 1  end 0

Both calls go on in state 4. End 0 pops a frame: after frame 0 comes state 3, and after frame 1 comes state 4.

Invariants: the states of the parts come first, part by part, the main part before all others. After them come the states inside
of words, the instances of fragments, and the override states. The frames of blocks come after all other frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.literal_overrides import BracketsOverlap
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.nested_grammars.instance_builder import InstanceBuilder, Quote, add_rows
from logitkit.compiler.nested_grammars.part import Part
from logitkit.compiler.nested_grammars.words import Words

__all__ = ["Assembly"]

Ints = NDArray[np.int64]


class _Opened(NamedTuple):
    """A bracket or a comma that begins a call, as in `Quote`. It calls a body, by its number."""

    state: int
    byte: int
    body: int
    return_states: tuple[tuple[int, int], ...]


class _Beginnings(NamedTuple):
    """All calls and fragments that begin in the states of parts.

    Args:
        calls: The calls of rules that may recur.
        blocks: The calls of rules that do not recur, such as blocks of items.
        quotes: The fragments.
    """

    calls: list[_Opened]
    blocks: list[_Opened]
    quotes: list[Quote]

    def states(self) -> list[int]:
        """Return the states in which one of them begins."""
        return [*(call.state for call in (*self.calls, *self.blocks)), *(quote.state for quote in self.quotes)]


class Assembly(InstanceBuilder):
    """Builds the automaton of all parts."""

    def dfa(self) -> NestedDfa:
        """Return the automaton.

        Raises:
            PatternTooLarge: A limit is exceeded.
            BracketsOverlap: A rule goes on after its closing bracket.
        """
        end_of = self._ends_of_states()
        begin = self._beginnings()
        step = self._steps_of_parts(end_of)
        self._add_calls(step, begin.calls)
        if step[end_of >= 0].any() or (end_of[begin.states()] >= 0).any():
            raise BracketsOverlap("a rule must end with its closing bracket, after which nothing of it goes on")
        self._add_words(step)
        instances = self.add_instances(step, self.entrances(begin.quotes, step))
        others = len(self.frames)
        self._add_calls(step, begin.blocks)
        blocks = len(self.frames) - others
        states, return_state = len(step), self._return_states()
        accepting = np.zeros(states, bool)
        accepting[FIRST_STATE : self.first[1]] = self.dfas[0].accepting[FIRST_STATE:]
        # A block in which the array ends is the end of the block that called it.
        at_once = return_state[end_of[return_state] >= 0].tolist()
        return NestedDfa(
            step,
            self.byte_class,
            accepting,
            FIRST_STATE,
            self._entries(instances),
            np.array([frame for _, frame in self.calls], np.int64),
            return_state,
            np.zeros(states, np.int64),
            special_tokens=self._special_tokens(states),
            instances=instances._replace(strings=np.append(instances.strings, np.zeros(blocks, bool)))
            if self.knows_fragments
            else None,
            returns={state: int(end_of[state]) for state in sorted({*at_once})},
            open_blocks=self._open_blocks(),
            blocks=blocks,
        )

    def _placed_parts(self) -> Iterator[tuple[int, Part, int]]:
        """Yield each part that has states of its own: its number, the part, and its first state."""
        for (called, body), first in zip(self.bodies.items(), self.first, strict=False):
            yield body, self.parts[called], first

    def _ends_of_states(self) -> Ints:
        """Return [S] the end that each state of a part is, -1 for most."""
        self.limits.check_states(self.first[-1])
        found = np.full(self.first[-1], -1)
        for body, part, first in self._placed_parts():
            for state, marks in enumerate(part.ends, first):
                if marks:
                    found[state] = self.ends.setdefault((body, marks), len(self.ends))
        return found

    def _beginnings(self) -> _Beginnings:
        begin = _Beginnings([], [], [])
        for _, part, first in self._placed_parts():
            for state, brackets in enumerate(part.brackets, first):
                for opening, bracket in brackets.items():
                    byte, after = ord(opening), {marks: first + target for marks, target in bracket.return_states}
                    if bracket.called in self.strings:
                        fragment = self.fragment_of[bracket.called, bracket.beside_words]
                        exits = tuple(after[marks] for marks in self.fragments[fragment].marks)
                        begin.quotes.append(Quote(state, byte, bracket.called, fragment, exits, bracket.excluded))
                    else:
                        body = self.bodies[bracket.called]
                        calls = begin.blocks if body in self.blocks else begin.calls
                        calls.append(_Opened(state, byte, body, tuple(after.items())))
        return begin

    def _steps_of_parts(self, end_of: Ints) -> NDArray[np.int32]:
        """Return the table of the states of all parts, without calls and fragments."""
        states, width = self.first[-1], len(self.columns[0])
        self.limits.check_work(states * width // 4)
        step = np.zeros((states, width), np.int32)
        for dfa, columns, first in zip(self.dfas, self.columns, self.first, strict=False):
            last = first + len(dfa.step) - FIRST_STATE
            # The new step for each target of the part. Ends are put in here, as the table has many more entries than targets.
            leads = np.arange(first - FIRST_STATE, last, dtype=np.int32)
            leads[:FIRST_STATE] = DEAD
            leads = np.where(end_of[leads] >= 0, NestedStep.end(end_of[leads]), leads).astype(np.int32)
            step[first:last] = leads[dfa.step[FIRST_STATE:]][:, columns]
        return step

    def _add_calls(self, step: NDArray[np.int32], opened: list[_Opened]) -> None:
        """Number some calls and add them to a table, in place. Nothing else begins where they do: see `unfolding`."""
        rows = []
        for state, byte, body, return_states in opened:
            frame = self.frames.setdefault((body, return_states), len(self.frames))
            rows.append((state, self.byte_class[byte], self.calls.setdefault((body, frame), len(self.calls))))
        source, symbol, call = np.array(rows, np.int64).reshape(-1, 3).T
        assert not step[source, symbol].any()
        step[source, symbol] = NestedStep.call(call)

    def _add_words(self, step: NDArray[np.int32]) -> None:
        """Put the states inside of words after all states, in place."""
        words = Words(self.grammar.words, len(step), self.limits)
        for _, part, first in self._placed_parts():
            for state, targets in enumerate(part.words, first):
                if targets:
                    words.add(state, {word: first + target for word, target in targets.items()})
        add_rows(step, words.states - len(step))
        source, byte, target = words.moves()
        symbol = self.byte_class[byte]
        assert not step[source, symbol].any()
        step[source, symbol] = target

    def _entries(self, instances: FragmentInstances) -> Ints:
        """Return [C] where each call goes on: in the first state of a part, or of the instance of a fragment that is called."""
        # Called fragments are numbered after all bodies.
        first = np.append(self.first[:-1], np.zeros(len(self.fragments), np.int64))
        first[[len(self.bodies) + fragment for fragment in self.called]] = instances.first[[*self.called.values()]]
        return first[np.array([body for body, _ in self.calls], np.int64)]

    def _return_states(self) -> Ints:
        """Return [E, F] the state after each end with each frame, `DEAD` where they do not meet."""
        found = np.zeros((len(self.ends), len(self.frames)), np.int64)
        for (body, return_states), frame in self.frames.items():
            for marks, target in return_states:
                if (body, marks) in self.ends:
                    found[self.ends[body, marks], frame] = target
        return found

    def _special_tokens(self, states: int) -> dict[int, Ints]:
        """Return for each special token [S] where it leads."""
        tokens = self.grammar.special_tokens
        found = {token: np.zeros(states, np.int64) for token in tokens}
        for _, part, first in self._placed_parts() if tokens else ():
            for state, targets in enumerate(part.special_tokens, first):
                for special_token, target in targets.items():
                    found[tokens[special_token]][state] = first + target
        return found

    def _open_blocks(self) -> int:
        """Return how many calls of blocks may be open at once, at most."""
        if not self.blocks:
            return 0
        brackets = [[b for row in part.brackets for b in row.values()] for _, part, _ in self._placed_parts()]
        inside = [{self.bodies[b.called] for b in part if b.called not in self.strings} for part in brackets]
        most = [0] * len(inside)
        while True:
            # A block that a part calls is open itself, and so are the blocks that it calls in turn.
            found = [max([(body in self.blocks) + most[body] for body in called], default=0) for called in inside]
            if found == most:
                return max(most)
            most = found
