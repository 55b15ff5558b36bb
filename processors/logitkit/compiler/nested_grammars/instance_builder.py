"""Instances of fragments in an automaton: which fragments are copied and which are called, and the states of the instances.

A fragment is the automaton of a set of strings. In `{"a": <string>, "b": <string>}`, the fragment for strings is entered at two
quotes and left to two different states, so it is copied twice. Positions from which a string leads on to the same states share an
instance. A fragment whose instances would be large is called instead, and has one instance for all its calls.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.concatenation import common_byte_classes
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.literal_overrides import Excluded, literal_overrides
from logitkit.compiler.bytes.nested_step import ByStep, NestedStep
from logitkit.compiler.bytes.string_fragment import QUOTE, StringFragment
from logitkit.compiler.bytes.transition_columns import starts
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, Strings, TextFragment
from logitkit.compiler.nested_grammars.part import Called, Part
from logitkit.limits import Limits

__all__ = ["InstanceBuilder", "Quote", "add_rows"]

Ints = NDArray[np.int64]

# Instances of one fragment with more states in all are large: the fragment is called instead, which takes a place on the stack.
LARGE_INSTANCES = 2_000

# An instance that counts characters takes as long as this many states: there is an action for each number of them in a token.
LARGE_COUNTED = 250


class Quote(NamedTuple):
    """A quote that begins a string, or the byte before another text whose automaton is known.

    Args:
        state: The state.
        byte: The byte.
        called: The rules that are called.
        fragment: The number of their fragment.
        return_states: The state after each set of marks.
        excluded: Words that are among the strings called: the state reads the word, and calls all other strings.
    """

    state: int
    byte: int
    called: Called
    fragment: int
    return_states: tuple[tuple[int, int], ...]
    excluded: tuple[int, ...] = ()


class InstanceBuilder:
    """The parts of a grammar, and the fragments that they enter.

    Args:
        grammar: The grammar.
        parts: Its parts.
        limits: Bounds on the result.
        share: Whether a fragment whose instances are large is called instead.
        spelled: [256] bool, which bytes are tokens. A string that is called or counted does not know what must follow it, or how
            long it must be, so it needs a token for each byte that may be read. None: all are.
    """

    def __init__(
        self,
        grammar: NestedGrammar,
        parts: dict[Called, Part],
        limits: Limits,
        share: bool,
        spelled: NDArray[np.bool_] | None = None,
    ) -> None:
        self.grammar, self.parts, self.limits, self.share = grammar, parts, limits, share
        brackets = [b for part in parts.values() for row in part.brackets for b in row.values()]
        called = dict.fromkeys(b.called for b in brackets)
        self.strings = dict.fromkeys(c for c in called if isinstance(grammar.rules[c[0][0]], Strings | TextFragment))
        self.bodies = {c: i for i, c in enumerate(c for c in parts if c not in self.strings)}
        self.dfas = [parts[c].over_bytes(limits) for c in self.bodies]
        shift = FIRST_STATE + starts(np.array([len(d.step) - FIRST_STATE for d in self.dfas]))
        self.first: list[int] = shift.tolist()
        # By what is called, and whether words stand beside it.
        entered = dict.fromkeys((b.called, b.beside_words) for b in brackets if b.called in self.strings)
        excluded = {byte for c in self.strings for text in self._excluded(c) for byte in text}
        read = {word for c in self.bodies for row in parts[c].words for word in row}
        blocks = [c for c in called if c not in self.strings and self._is_block(c)]
        openings = "".join(grammar.rules[c[0][0]].opening for c in (*self.strings, *blocks))
        told = b'[{"' + openings.encode() + bytes(excluded) + b"".join(grammar.words[word] for word in read)
        self._add_fragments([*entered], told, counted=True)
        if spelled is not None and not self._are_spelled(spelled, told):
            self.share = False
            self._add_fragments([*entered], told, counted=False)
        # Without brackets, strings that are written in place are followed better with all tokens at once, unless others are
        # counted. With brackets, the fragments inside of them are worth more.
        in_place = len(self.bodies) == 1 and parts[()].has_strings
        in_place &= not any(fragment.counted for fragment in self.fragments)
        self.knows_fragments = bool(blocks) or (bool(self.fragments or grammar.words) and not in_place)
        self.share &= self.knows_fragments
        self.excluded = Excluded(self.byte_class)
        # Of what is called without some words: the root of the texts that are excluded.
        self.roots: dict[tuple[Called, tuple[int, ...]], int] = {}
        self.blocks = frozenset(self.bodies[c] for c in blocks)
        # The numbers of the ends, frames, calls and instances that are found on the way through the parts.
        self.ends: dict[tuple[int, int], int] = {}
        self.frames: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self.calls: dict[tuple[int, int], int] = {}
        self.instances: dict[tuple[int, tuple[int, ...]], int] = {}
        # The fragments that are called, and the instance which each of them is.
        self.called: dict[int, int] = {}

    def _is_block(self, called: Called) -> bool:
        """Whether calls do not count as nesting."""
        rules = [self.grammar.rules[number] for number, _ in called]
        return not any(isinstance(d, Strings | TextFragment) or d.recurs for d in rules)

    def _add_fragments(self, entered: list[tuple[Called, bool]], told: bytes, counted: bool) -> None:
        """Find the fragments, and the classes of bytes that all parts, fragments and some bytes tell apart."""
        numbers: dict[bytes, int] = {}
        self.fragments: list[StringFragment] = []
        self.fragment_of: dict[tuple[Called, bool], int] = {}
        for called, beside_words in entered:
            fragment = self._fragment(called, counted and not beside_words)
            self.fragment_of[called, beside_words] = numbers.setdefault(fragment.key, len(numbers))
            if len(numbers) > len(self.fragments):
                self.fragments.append(fragment)
        classes = [*(d.byte_class for d in self.dfas), *(fragment.byte_class for fragment in self.fragments)]
        self.byte_class, self.columns = common_byte_classes(classes, told)

    def _are_spelled(self, spelled: NDArray[np.bool_], told: bytes) -> bool:
        """Whether each class of bytes that may be read has a byte that is a token."""
        read = np.zeros(len(self.columns[0]), bool)
        read[self.byte_class[[*told]]] = True
        steps = [*(dfa.step for dfa in self.dfas), *(fragment.step for fragment in self.fragments)]
        for step, columns in zip(steps, self.columns, strict=True):
            read |= (step != DEAD).any(axis=0)[columns]
        has_token = np.zeros(len(read), bool)
        has_token[self.byte_class[spelled]] = True
        return bool(has_token[read].all())

    def _fragment(self, called: Called, counted: bool) -> StringFragment:
        rule = self.grammar.rules[called[0][0]]
        if len(called) > 1 or not isinstance(rule, Strings | TextFragment):
            part = self.parts[called]
            return StringFragment.of(part.over_bytes(self.limits), part.ends)
        if isinstance(rule, Strings) and rule.fragment.counted is not None and not counted:
            return rule.uncounted()
        return rule.fragment

    def _excluded(self, called: Called) -> tuple[bytes, ...]:
        rule = self.grammar.rules[called[0][0]]
        return rule.excluded if len(called) == 1 and isinstance(rule, Strings) else ()

    def _root(self, quote: Quote) -> int:
        """Return the root of the texts that are excluded from what a quote calls."""
        key = quote.called, quote.excluded
        if key not in self.roots:
            words = [self.grammar.words[word][1:-1] for word in quote.excluded]
            self.roots[key] = self.excluded.add((*self._excluded(quote.called), *words))
        return self.roots[key]

    def entered(self, quoted: list[Quote], step: NDArray[np.int32]) -> Ints:
        """Decide which fragments are copied, and which are called as they are large and would be copied many times.

        Returns:
            For each quote: its state, its class of bytes, the instance that it enters, the root of the texts that are excluded,
            and the frame that it pushes, -1 if it pushes none.
        """
        exits = [self._exits(quote) for quote in quoted]
        size: Counter[int] = Counter()
        for fragment, _ in {(quote.fragment, where) for quote, where in zip(quoted, exits, strict=True)}:
            size[fragment] += (
                self.fragments[fragment].size if self.fragments[fragment].counted is None else LARGE_COUNTED
            )
        rows = []
        for quote, where in zip(quoted, exits, strict=True):
            fragment, root, frame = quote.fragment, self._root(quote), -1
            may_be_called = quote.byte == QUOTE or self.fragments[fragment].is_text
            alone = may_be_called and root == 0 and step[quote.state, self.byte_class[quote.byte]] == DEAD
            large, marks = (
                size[fragment] > max(LARGE_INSTANCES, self.fragments[fragment].size),
                {*self.fragments[fragment].marks},
            )
            if self.share and alone and large and len(marks) == 1:
                body, (mark,) = len(self.bodies) + fragment, marks
                end = self.ends.setdefault((body, mark), len(self.ends))
                frame = self.frames.setdefault((body, ((mark, where[0]),)), len(self.frames))
                instance = self.called[fragment] = self.instances.setdefault(
                    (fragment, (NestedStep.end(end),) * len(where)), len(self.instances)
                )
            else:
                instance = self.instances.setdefault((fragment, where), len(self.instances))
            rows.append((quote.state, self.byte_class[quote.byte], instance, root, frame))
        return np.array(rows, np.int64).reshape(-1, 5).T

    def _exits(self, quote: Quote) -> tuple[int, ...]:
        after = dict(quote.return_states)
        return tuple(after[marks] for marks in self.fragments[quote.fragment].marks)

    def add_instances(self, step: NDArray[np.int32], quoted: Ints) -> FragmentInstances:
        """Put instances of fragments after all states, and after these override states, in place."""
        source, opening, instance, root, frame = quoted
        fragment_of = np.array([fragment for fragment, _ in self.instances], np.int64)
        sizes = np.array([fragment.size for fragment in self.fragments], np.int64)[fragment_of]
        first = len(step) + starts(sizes)
        before = len(step)
        self.limits.check_states(int(first[-1]))
        self.limits.check_work(int(first[-1]) * step.shape[1] // 4)
        own = [
            fragment.step[FIRST_STATE:][:, c]
            for fragment, c in zip(self.fragments, self.columns[len(self.dfas) :], strict=True)
        ]
        add_rows(step, int(first[-1]) - before)
        for (fragment, leads), begin in zip(self.instances, first.tolist(), strict=False):
            copied = np.arange(begin - FIRST_STATE, begin + len(own[fragment]), dtype=np.int32)
            copied[:FIRST_STATE] = DEAD
            does = ByStep(copied, 0, len(leads))
            does.ends[:] = leads
            step[begin : begin + len(own[fragment])] = does.values[own[fragment]]
        states = len(step)
        text = step[source, opening].astype(np.int64)
        entered = first[instance]
        overriding = np.flatnonzero((text != DEAD) | (root != 0))
        places = [*zip(text[overriding].tolist(), root[overriding].tolist(), entered[overriding].tolist(), strict=True)]
        found = literal_overrides(step, before, self.excluded, places, self.limits)
        entered[overriding] = found.entered
        add_rows(step, len(found.step))
        step[states:] = found.step
        calls = [
            NestedStep.call(self.calls.setdefault((len(self.bodies) + fragment_of[c], f), len(self.calls)))
            if f >= 0
            else DEAD
            for c, f in zip(instance.tolist(), frame.tolist(), strict=True)
        ]
        step[source, opening] = np.where(frame >= 0, calls, entered)
        base_state = np.concatenate([np.zeros(states, np.int64), found.base_state])
        exits = tuple(exits for _, exits in self.instances)
        pushed = np.zeros(len(self.frames), bool)
        pushed[frame[frame >= 0]] = True
        # The other texts are entered like any state: what tokens do that begin before them is followed byte by byte.
        by_quote = opening == self.byte_class[QUOTE]
        source, instance, entered, frame = (column[by_quote] for column in (source, instance, entered, frame))
        return FragmentInstances(
            tuple(self.fragments), fragment_of, first[:-1], exits, source, instance, entered, frame, base_state, pushed
        )


def add_rows(step: NDArray[np.int32], count: int) -> None:
    """Add rows of dead states to a table, in place, as two of the largest tables would take twice the memory."""
    # Nothing else refers to the table, which no function keeps.
    step.resize((len(step) + count, step.shape[1]), refcheck=False)
