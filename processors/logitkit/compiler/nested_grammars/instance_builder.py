"""Instances of fragments in an automaton: which fragments are copied and which are called, and the states of the instances.

A fragment is the automaton of a set of strings, or of other text that calls nothing. In `{"a": <string>, "b": <string>}`, the
fragment for strings is entered at two quotes, and the text continues in two different states. So the fragment has two
instances. Quotes whose strings continue in the same states share an instance.

A fragment whose instances would have many states is called instead: it has one instance, and each quote pushes a frame, which
says where the text continues.

By hand, for a fragment of 3 states: 800 quotes whose strings continue in 800 different states would take 2,400 states for the
instances. That is more than `LARGE_INSTANCES`, so one instance of 3 states and 800 frames are built.

Invariants: a fragment is called only where nothing else begins with the same byte, where no string is excluded from it, and if
all its ends have the same mark.
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

__all__ = ["Entrances", "InstanceBuilder", "Quote", "add_rows"]

Ints = NDArray[np.int64]

# A fragment is called if its instances would have more states than this in all. A call takes a place on the stack.
LARGE_INSTANCES = 2_000

# With more fragments than this, instances are called sooner: fragments divide the tokens into classes, which each state lists.
FEW_FRAGMENTS = 8

# An instance that counts characters takes as long as this many states: a token has one action for each number of characters.
LARGE_COUNTED = 250


class Quote(NamedTuple):
    """A quote that begins a string, or the byte before another text whose automaton is known.

    Args:
        state: The state in which the quote is read.
        byte: The byte.
        called: The rules that it calls.
        fragment: The number of their fragment.
        exits: The state after each end of the fragment.
        excluded: Words that are also strings of these rules. The state reads the word, and calls all other strings.
    """

    state: int
    byte: int
    called: Called
    fragment: int
    exits: tuple[int, ...]
    excluded: tuple[int, ...] = ()


class Entrances(NamedTuple):
    """Where fragments are entered, one entry for each quote: [N] each.

    Args:
        state: The state in which the quote is read.
        symbol: The class of the quote, as a byte.
        instance: The instance that it enters.
        root: The root of the texts that are excluded there, 0 if none are.
        frame: The frame that the quote pushes, -1 if it pushes none.
    """

    state: Ints
    symbol: Ints
    instance: Ints
    root: Ints
    frame: Ints


class InstanceBuilder:
    """The parts of a grammar, and the fragments that they enter.

    Args:
        grammar: The grammar.
        parts: Its parts.
        limits: Bounds on the result.
        share: Whether a fragment whose instances are large is called instead.
        spelled: [256] bool, which bytes are tokens; None: all are. A string that is called does not know what must follow it,
            and one that is counted does not know how long it must be. So both need a token for each byte that may be read.
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
        # The parts that have states of their own, which are numbered first of all.
        self.bodies = {c: i for i, c in enumerate(c for c in parts if c not in self.strings)}
        self.dfas = [parts[c].over_bytes(limits) for c in self.bodies]
        shift = FIRST_STATE + starts(np.array([len(d.step) - FIRST_STATE for d in self.dfas]))
        self.first: list[int] = shift.tolist()
        blocks = [c for c in called if c not in self.strings and self._is_block(c)]
        self.blocks = frozenset(self.bodies[c] for c in blocks)
        # By what is called, and whether words stand beside it.
        entered = [*dict.fromkeys((b.called, b.beside_words) for b in brackets if b.called in self.strings)]
        apart = self._bytes_apart(blocks)
        self._add_fragments(entered, apart, counted=True)
        if spelled is not None and not self._are_spelled(spelled, apart):
            self.share = False
            self._add_fragments(entered, apart, counted=False)
        # Without brackets, strings that are written in place are followed better with all tokens at once, unless others are
        # counted. With brackets, the fragments inside of them are worth more.
        in_place = len(self.bodies) == 1 and parts[()].has_strings
        in_place &= not any(fragment.counted for fragment in self.fragments)
        self.knows_fragments = bool(blocks) or (bool(self.fragments or grammar.words) and not in_place)
        self.share &= self.knows_fragments
        self.excluded = Excluded(self.byte_class)
        # The root of the texts that are excluded, by what is called and the words that it is called without.
        self.roots: dict[tuple[Called, tuple[int, ...]], int] = {}
        # Numbers are given in the order in which ends, frames, calls and instances are met.
        self.ends: dict[tuple[int, int], int] = {}
        self.frames: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self.calls: dict[tuple[int, int], int] = {}
        self.instances: dict[tuple[int, tuple[int, ...]], int] = {}
        # The instance of each fragment that is called.
        self.called: dict[int, int] = {}

    def _is_block(self, called: Called) -> bool:
        """Whether calls of these rules do not count as nesting."""
        rules = [self.grammar.rules[number] for number, _ in called]
        return not any(isinstance(d, Strings | TextFragment) or d.recurs for d in rules)

    def _bytes_apart(self, blocks: list[Called]) -> bytes:
        """Return the bytes that need a class of their own: those that begin calls, and those of words and excluded texts."""
        openings = "".join(self.grammar.rules[c[0][0]].opening for c in (*self.strings, *blocks))
        excluded = {byte for c in self.strings for text in self._excluded(c) for byte in text}
        read = {word for c in self.bodies for row in self.parts[c].words for word in row}
        return b'[{"' + openings.encode() + bytes(excluded) + b"".join(self.grammar.words[word] for word in read)

    def _add_fragments(self, entered: list[tuple[Called, bool]], apart: bytes, counted: bool) -> None:
        """Number the fragments, and find classes of bytes for all parts and fragments together."""
        numbers: dict[bytes, int] = {}
        self.fragments: list[StringFragment] = []
        self.fragment_of: dict[tuple[Called, bool], int] = {}
        for called, beside_words in entered:
            fragment = self._fragment(called, counted and not beside_words)
            self.fragment_of[called, beside_words] = numbers.setdefault(fragment.key, len(numbers))
            if len(numbers) > len(self.fragments):
                self.fragments.append(fragment)
        classes = [*(d.byte_class for d in self.dfas), *(fragment.byte_class for fragment in self.fragments)]
        self.byte_class, self.columns = common_byte_classes(classes, apart)

    def _are_spelled(self, spelled: NDArray[np.bool_], apart: bytes) -> bool:
        """Whether each class of bytes that may be read has a byte that is a token."""
        read = np.zeros(len(self.columns[0]), bool)
        read[self.byte_class[[*apart]]] = True
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

    def entrances(self, quotes: list[Quote], step: NDArray[np.int32]) -> Entrances:
        """Find the instance that each quote enters. `step` is the table in which quotes are read."""
        may_be_called = self._callable(quotes)
        rows = []
        for quote in quotes:
            fragment, symbol, root = quote.fragment, self.byte_class[quote.byte], self._root(quote)
            begins_alone = root == 0 and step[quote.state, symbol] == DEAD
            if begins_alone and fragment in may_be_called:
                frame, instance = self._call(fragment, quote.exits)
            else:
                frame, instance = -1, self.instances.setdefault((fragment, quote.exits), len(self.instances))
            rows.append((quote.state, symbol, instance, root, frame))
        return Entrances(*np.array(rows, np.int64).reshape(-1, 5).T)

    def _callable(self, quotes: list[Quote]) -> set[int]:
        """Return the fragments that are called where they begin alone: their instances would be large."""
        if not self.share:
            return set()
        size: Counter[int] = Counter()
        for number, _ in {(quote.fragment, quote.exits) for quote in quotes}:
            fragment = self.fragments[number]
            size[number] += fragment.size if fragment.counted is None else LARGE_COUNTED
        large = LARGE_INSTANCES * FEW_FRAGMENTS // max(len(self.fragments), FEW_FRAGMENTS)
        begins = {quote.fragment for quote in quotes if quote.byte == QUOTE or self.fragments[quote.fragment].is_text}
        return {
            number
            for number in begins
            if size[number] > max(large, self.fragments[number].size) and len({*self.fragments[number].marks}) == 1
        }

    def _call(self, fragment: int, exits: tuple[int, ...]) -> tuple[int, int]:
        """Return the frame that a quote pushes to call a fragment, and the instance that all calls share."""
        body, (mark,) = len(self.bodies) + fragment, {*self.fragments[fragment].marks}
        end = self.ends.setdefault((body, mark), len(self.ends))
        frame = self.frames.setdefault((body, ((mark, exits[0]),)), len(self.frames))
        shared = fragment, (NestedStep.end(end),) * len(exits)
        instance = self.called[fragment] = self.instances.setdefault(shared, len(self.instances))
        return frame, instance

    def add_instances(self, step: NDArray[np.int32], at: Entrances) -> FragmentInstances:
        """Add the states of instances to the table of all other states, and then override states, in place."""
        others = len(step)
        fragment = np.array([number for number, _ in self.instances], np.int64)
        first = self._add_copies(step, fragment)
        text, entered = step[at.state, at.symbol].astype(np.int64), first[at.instance]
        overriding = np.flatnonzero((text != DEAD) | (at.root != 0))
        places = zip(*(column[overriding].tolist() for column in (text, at.root, entered)), strict=True)
        found = literal_overrides(step, others, self.excluded, [*places], self.limits)
        entered[overriding] = found.entered
        base_state = np.append(np.zeros(len(step), np.int64), found.base_state)
        add_rows(step, len(found.step))
        step[len(step) - len(found.step) :] = found.step
        calls = [
            NestedStep.call(self.calls.setdefault((len(self.bodies) + number, frame), len(self.calls)))
            if frame >= 0
            else DEAD
            for number, frame in zip(fragment[at.instance].tolist(), at.frame.tolist(), strict=True)
        ]
        step[at.state, at.symbol] = np.where(at.frame >= 0, calls, entered)
        pushed = np.zeros(len(self.frames), bool)
        pushed[at.frame[at.frame >= 0]] = True
        # Fragments of other text are entered like any state, so tokens that begin before them are followed byte by byte.
        by_quote = at.symbol == self.byte_class[QUOTE]
        return FragmentInstances(
            fragments=tuple(self.fragments),
            fragment=fragment,
            first=first,
            exits=tuple(exits for _, exits in self.instances),
            opening=at.state[by_quote],
            opened=at.instance[by_quote],
            entered=entered[by_quote],
            frame=at.frame[by_quote],
            base_state=base_state,
            strings=pushed,
        )

    def _add_copies(self, step: NDArray[np.int32], fragment: Ints) -> Ints:
        """Add a copy of the states of each instance's fragment, in place; return the first state of each."""
        first = len(step) + starts(np.array([f.size for f in self.fragments], np.int64)[fragment])
        self.limits.check_states(int(first[-1]))
        self.limits.check_work(int(first[-1]) * step.shape[1] // 4)
        own = [
            f.step[FIRST_STATE:][:, columns]
            for f, columns in zip(self.fragments, self.columns[len(self.dfas) :], strict=True)
        ]
        add_rows(step, int(first[-1]) - len(step))
        for (number, exits), begin in zip(self.instances, first.tolist(), strict=False):
            end = begin + len(own[number])
            copied = np.arange(begin - FIRST_STATE, end, dtype=np.int32)
            copied[:FIRST_STATE] = DEAD
            leads = ByStep(copied, 0, len(exits))
            leads.ends[:] = exits
            step[begin:end] = leads.values[own[number]]
        return first[:-1]


def add_rows(step: NDArray[np.int32], count: int) -> None:
    """Add rows of dead states to a table, in place, as two of the largest tables would take twice the memory."""
    # Nothing else refers to the table, which no function keeps.
    step.resize((len(step) + count, step.shape[1]), refcheck=False)
