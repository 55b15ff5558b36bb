"""All parts of a grammar as one automaton over bytes.

The automaton of `{"a": <string>, "b": <string>}` has the states of the object, then two instances of the fragment for strings, of
which one leads on to the comma and the other to the brace. Rules that brackets call are not copied: a bracket pushes a
frame, which says what comes after it, and the end of the call pops that. A fragment whose instances would be large is called in
the same way, if that is wanted.

Whole words written out as bytes: a trie of the words that each state reads, of which equal parts are one.

A state before a member of an object reads the names `"id"` and `"if"`, each of which leads somewhere. After `"i` there are two
ways on, so the state there belongs to this set of names. After `"id` only one is left: from here on the states of a name and the
place that it leads to are the same, whatever other names there were, so that all members before share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.literal_overrides import BracketsOverlap
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.nested_grammars.instance_builder import InstanceBuilder, Quote, add_rows
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Assembly", "Words"]

# Words with the states that they lead to.
Ways = frozenset[tuple[int, int]]


class Words:
    """The states inside of words.

    Args:
        texts: The words, of which none begins another one.
        first: The number of the first state inside of a word.
        limits: Bounds on the number of states.
    """

    def __init__(self, texts: Sequence[bytes], first: int, limits: Limits) -> None:
        self.texts, self.limits = texts, limits
        self.states = first
        # The first state of a word of which nothing else is left, by the word and where it leads.
        self._alone: dict[tuple[int, int], int] = {}
        self._several: dict[tuple[Ways, int], int] = {}
        self._chains: list[tuple[int, int, int]] = []
        self._moves: list[tuple[int, int, int]] = []

    def add(self, state: int, targets: Mapping[int, int]) -> None:
        """Let a state read some words.

        Args:
            state: The state.
            targets: Where each word leads.
        """
        # By hand, not by recursion, as words may have long beginnings in common.
        todo = [(state, 0, self._by_byte(frozenset(targets.items()), 0))]
        while todo:
            before, depth, groups = todo[-1]
            group = next(groups, None)
            if group is None:
                todo.pop()
                continue
            target, is_fresh = self._state_after(group, depth + 1)
            self._moves.append((before, self.texts[group[0][0]][depth], target))
            if is_fresh:
                todo.append((target, depth + 1, self._by_byte(frozenset(group), depth + 1)))

    def _by_byte(self, ways: Ways, depth: int) -> Iterator[list[tuple[int, int]]]:
        """Return some words in groups with the same byte in one place."""
        groups: dict[int, list[tuple[int, int]]] = {}
        for way in ways:
            groups.setdefault(self.texts[way[0]][depth], []).append(way)
        return iter(groups.values())

    def _state_after(self, ways: list[tuple[int, int]], depth: int) -> tuple[int, bool]:
        """Return the state after the first bytes of some words, and whether its moves must be added."""
        if len(ways) == 1:
            (way,) = ways
            first = self._alone.get(way)
            if first is None:
                word, target = way
                if depth == len(self.texts[word]):
                    return target, False
                # One state for each byte but the last; those of the first bytes may be left without use.
                first = self._alone[way] = self._new(len(self.texts[word]) - 1)
                self._chains.append((word, target, first))
            elif depth == len(self.texts[way[0]]):
                return way[1], False
            return first + depth - 1, False
        key = frozenset(ways), depth
        found = self._several.get(key)
        if found is not None:
            return found, False
        found = self._several[key] = self._new(1)
        return found, True

    def _new(self, count: int) -> int:
        found = self.states
        self.states += count
        self.limits.check_states(self.states)
        self.limits.spend(count)
        return found

    def moves(self) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
        """Return all moves: their states, the bytes, and where they lead."""
        source, byte, target = np.array(self._moves, np.int64).reshape(-1, 3).T
        chains = [(first, len(self.texts[word]) - 1, leads) for word, leads, first in self._chains]
        first, count, leads = np.array(chains, np.int64).reshape(-1, 3).T
        inside, _ = expand(first, count)
        # All chains, one after another; the last state of each leads out of it.
        after = inside + 1
        after[np.cumsum(count) - 1] = leads
        text = np.frombuffer(b"".join([self.texts[word][1:] for word, _, _ in self._chains]), np.uint8)
        sources, targets = np.concatenate([source, inside]), np.concatenate([target, after])
        return sources, np.concatenate([byte.astype(np.uint8), text]), targets


Ints = NDArray[np.int64]


class _Opened(NamedTuple):
    """A bracket, or a comma, that begins a call, as in `Quote`; what is called is a body."""

    state: int
    byte: int
    body: int
    return_states: tuple[tuple[int, int], ...]


class Assembly(InstanceBuilder):
    """The states of all parts, one part after another; instances of fragments after them, and then override states."""

    def dfa(self) -> NestedDfa:
        """Return the automaton."""
        states = self.first[-1]
        self.limits.check_states(states)
        width = len(self.columns[0])
        self.limits.check_work(states * width // 4)
        step = np.zeros((states, width), np.int32)
        accepting = np.zeros(states, bool)
        end_at = np.full(states, -1)
        opened: list[_Opened] = []
        # Calls of what does not recur, such as blocks of items: their frames come last.
        opened_blocks: list[_Opened] = []
        quoted: list[Quote] = []
        for (called, part), dfa, columns, first in zip(
            ((c, self.parts[c]) for c in self.bodies), self.dfas, self.columns, self.first, strict=False
        ):
            last = first + len(dfa.step) - FIRST_STATE
            for state, (brackets, marks) in enumerate(zip(part.brackets, part.ends, strict=True)):
                if marks:
                    end_at[first + state] = self.ends.setdefault((self.bodies[called], marks), len(self.ends))
                for opening, bracket in brackets.items():
                    return_states = tuple((m, first + target) for m, target in bracket.return_states)
                    if bracket.called in self.strings:
                        fragment = self.fragment_of[bracket.called, bracket.beside_words]
                        quoted.append(
                            Quote(
                                first + state, ord(opening), bracket.called, fragment, return_states, bracket.excluded
                            )
                        )
                        continue
                    body = self.bodies[bracket.called]
                    calls = opened_blocks if body in self.blocks else opened
                    calls.append(_Opened(first + state, ord(opening), body, return_states))
            # Where each state of the part leads, or which end it is; numbered before the columns are spread, as these are many.
            leads = np.arange(first - FIRST_STATE, last, dtype=np.int32)
            leads[:FIRST_STATE] = DEAD
            leads = np.where(end_at[leads] >= 0, NestedStep.end(end_at[leads]), leads).astype(np.int32)
            step[first:last] = leads[dfa.step[FIRST_STATE:]][:, columns]
            if not called:
                accepting[first:last] = dfa.accepting[FIRST_STATE:]
        self._add_calls(step, opened)
        leaving = [*(call.state for call in (*opened, *opened_blocks)), *(quote.state for quote in quoted)]
        if step[end_at >= 0].any() or (end_at[leaving] >= 0).any():
            raise BracketsOverlap("a rule must end with its closing bracket, after which nothing of it goes on")
        self._add_words(step)
        instances = self.add_instances(step, self.entered(quoted, step))
        frames = len(self.frames)
        self._add_calls(step, opened_blocks)
        blocks = len(self.frames) - frames
        instances = instances._replace(strings=np.append(instances.strings, np.zeros(blocks, bool)))
        states = len(step)
        return_state = np.zeros((len(self.ends), len(self.frames)), np.int64)
        for (body, return_states), frame in self.frames.items():
            for marks, target in return_states:
                if (body, marks) in self.ends:
                    return_state[self.ends[body, marks], frame] = target
        # A block in which the array ends is the end of the block that called it.
        at_once = return_state[end_at[return_state] >= 0].tolist()
        returns = {state: int(end_at[state]) for state in sorted({*at_once})}
        special_tokens = {token: np.zeros(states, np.int64) for token in self.grammar.special_tokens}
        for called, first in zip(self.bodies if special_tokens else (), self.first, strict=False):
            for state, targets in enumerate(self.parts[called].special_tokens):
                for special_token, target in targets.items():
                    special_tokens[self.grammar.special_tokens[special_token]][first + state] = first + target
        # The fragments that are called come after all bodies.
        entry = np.append(self.first[:-1], np.zeros(len(self.fragments), np.int64))
        entry[[len(self.bodies) + fragment for fragment in self.called]] = instances.first[[*self.called.values()]]
        bodies = np.array([body for body, _ in self.calls], np.int64)
        return NestedDfa(
            step,
            self.byte_class,
            np.concatenate([accepting, np.zeros(states - len(accepting), bool)]),
            FIRST_STATE,
            entry[bodies],
            np.array([frame for _, frame in self.calls], np.int64),
            return_state,
            np.zeros(states, np.int64),
            special_tokens=special_tokens,
            instances=instances if self.knows_fragments else None,
            returns=returns,
            open_blocks=self._open_blocks() if self.blocks else 0,
            blocks=blocks,
        )

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
        for called, first in zip(self.bodies, self.first, strict=False):
            for state, targets in enumerate(self.parts[called].words):
                if targets:
                    words.add(first + state, {word: first + target for word, target in targets.items()})
        add_rows(step, words.states - len(step))
        source, byte, target = words.moves()
        symbol = self.byte_class[byte]
        assert not step[source, symbol].any()
        step[source, symbol] = target

    def _open_blocks(self) -> int:
        """Return how many calls of blocks may be open at once, at most."""
        inside = [
            {b.called for row in self.parts[c].brackets for b in row.values()} - {*self.strings} for c in self.bodies
        ]
        most = [0] * len(inside)
        while True:
            found = [
                max(((body in self.blocks) + most[body] for body in (self.bodies[c] for c in called)), default=0)
                for called in inside
            ]
            if found == most:
                return max(most)
            most = found
