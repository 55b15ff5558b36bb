"""The automaton over tokens: where each token leads, what it does to a stack, and where a text may begin and end.

The compiler finds a column for each class of tokens: where the class leads from each state. A row of a batch is in one state, and
asks where each class leads from there. So `TokenAutomaton.of` turns columns into rows, and gives the EOS ids classes of their
own.

By hand, for the pattern `ab?` and the tokens `a`, `b`, `ab` and EOS, with the columns `a`: 2 -> 3, `b`: 3 -> 4, and `ab`: 2 -> 4:

    state   row
    2       class 1 -> 3, class 3 -> 4
    3       class 2 -> 4, class 4 -> FINISHED
    4       class 4 -> FINISHED

Invariants: rows list classes in ascending order. All arrays of an automaton and its layers have the same classes and states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FINISHED
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.tables.mask_key import MaskKey
from logitkit.compiler.tokens.tables.pushdown_table import PushdownTable
from logitkit.compiler.tokens.tables.short_fallbacks import Rows, shortened
from logitkit.compiler.tokens.tables.stack_actions import FLAT, StackActions
from logitkit.vocabulary.ranges import expand

__all__ = ["TokenAutomaton", "commonest_end", "complete_with"]

# The number of tokens, and of entries of rows, that are hashed to distinguish automata quickly.
HASHED = 2**12


NO_ENDS: Mapping[int, NDArray[np.bool_]] = MappingProxyType({})


def complete_with(
    accepting: NDArray[np.bool_], ends: Mapping[int, NDArray[np.bool_]], eos_ids: Sequence[int]
) -> NDArray[np.bool_]:
    """Return [S] in which states some EOS id is legal.

    Args:
        accepting: [S] the states in which EOS ids are legal that are not in `ends`.
        ends: For other EOS ids, [S] the states in which they are legal.
        eos_ids: All EOS ids.
    """
    others = [accepting] if len(ends) < len(eos_ids) else []
    complete: NDArray[np.bool_] = np.logical_or.reduce([*others, *ends.values()])
    return complete


def commonest_end(ends: Mapping[int, NDArray[np.bool_]]) -> tuple[NDArray[np.bool_], dict[int, NDArray[np.bool_]]]:
    """Return the states of the EOS id that is legal in most states, and the states of each EOS id that differs from it."""
    accepting = max(ends.values(), key=np.count_nonzero)
    return accepting, {end: legal for end, legal in ends.items() if not np.array_equal(legal, accepting)}


@dataclass(frozen=True, eq=False)
class TokenAutomaton(PushdownTable):
    """The texts of a language, in tokens.

    Args:
        accepting: [S] bool, whether some EOS id is legal.
        start: The start state.
        eos_ids: The ids that end a sequence.
        pad_id: The id that a finished row may also emit, or None.
        work: The steps that compiling it took.
        dropped: Notes about parts of the language that were left out when it was compiled.
        ignored: Notes about annotations.
        remembers: [S] int8, which states follow the bracket of an array whose items a row remembers (`Remembers`); None: none
            does.
        layers: Further actions of tokens, if the language is not deterministic: automata with the same classes, states and
            frames.
    """

    accepting: NDArray[np.bool_]
    start: int
    eos_ids: tuple[int, ...]
    pad_id: int | None = None
    work: int = field(default=0, kw_only=True)
    dropped: tuple[str, ...] = field(default=(), kw_only=True)
    ignored: tuple[str, ...] = field(default=(), kw_only=True)
    remembers: NDArray[np.int8] | None = field(default=None, kw_only=True)
    layers: tuple[TokenAutomaton, ...] = field(default=(), kw_only=True)

    @classmethod
    def of(
        cls,
        class_of: Ints,
        transitions: TransitionColumns,
        accepting: NDArray[np.bool_],
        start: int,
        eos_ids: Iterable[int],
        pad_id: int | None,
        fallback: NDArray[np.int64] | None = None,
        ends: Mapping[int, NDArray[np.bool_]] = NO_ENDS,
        nesting: StackActions = FLAT,
        end_class: int | None = None,
    ) -> TokenAutomaton:
        """Turn a table by class into one by state, and give the EOS ids a class of their own.

        Args:
            class_of: [V] class of each token.
            transitions: The column of each class.
            accepting: [S] the states in which EOS ids are legal that are not in `ends`.
            start: The start state.
            eos_ids: The ids that end a sequence.
            pad_id: The id that a finished row may also emit.
            fallback: [S] the state that each state falls back to; None: no state falls back.
            ends: For some EOS ids, [S] the states in which they are legal. The classes that they have in `class_of` do not
                matter.
            nesting: The actions, which are the targets that are not states.
            end_class: The class of EOS ids that are not in `ends`, if they may pop frames before they finish.
        """
        states = len(accepting)
        eos_ids = sorted(eos_ids)
        # An EOS id that is legal nowhere keeps its class, which is dead.
        own = {end: found for end, found in ends.items() if found.any()}
        finish = [_finishing(found, transitions) for found in (*own.values(), accepting)]
        transitions = TransitionColumns.joined([transitions, *(finish if end_class is None else finish[:-1])])
        classes = len(transitions)
        if end_class is None:
            end_class = classes - 1
        narrow = np.uint8 if classes <= 2**8 else np.int16 if classes < 2**15 else np.int32
        class_of = class_of.astype(narrow)
        class_of[list(own)] = np.arange(classes - len(own), classes) - (end_class == classes - 1)
        class_of[[end for end in eos_ids if end not in ends]] = end_class
        owner = np.repeat(np.arange(classes, dtype=narrow), transitions.start[1:] - transitions.start[:-1])
        # A stable sort of 16-bit numbers is a radix sort: linear.
        order = np.argsort(transitions.source.astype(np.uint16 if states < 2**16 else np.int32), kind="stable")
        # Targets of actions are greater than those of states.
        highest = max(states, int(transitions.target.max(initial=0)))
        target: Ints = transitions.target.astype(np.int16 if highest < 2**15 else np.int32)
        row_start = starts(np.bincount(transitions.source, minlength=states))
        row_class, row_target = owner.take(order), target.take(order)
        if fallback is not None:
            row_start, row_class, row_target, fallback = shortened(
                Rows(row_start, row_class, row_target, fallback), classes
            )
        return cls(
            class_of=class_of,
            default=transitions.default.astype(np.int32),
            row_start=row_start,
            row_class=row_class,
            row_target=row_target,
            accepting=complete_with(accepting, own, eos_ids),
            start=start,
            eos_ids=tuple(eos_ids),
            pad_id=pad_id,
            fallback=fallback,
            nesting=nesting,
        )

    @property
    def ends(self) -> dict[int, NDArray[np.bool_]]:
        """For each EOS id, [S] the states in which it is legal."""
        found = {}
        for end in self.eos_ids:
            if self.fallback is None:
                legal = np.zeros(self.states, bool)
                place = np.flatnonzero((self.row_class == self.class_of[end]) & (self.row_target == FINISHED))
                legal[np.searchsorted(self.row_start, place, side="right") - 1] = True
            else:
                # In an automaton whose states fall back, an EOS id is legal in all accepting states or in none.
                first = np.flatnonzero(self.accepting)[:1].tolist()
                legal = self.accepting & (self.next(first[0], end) == FINISHED) if first else self.accepting
            found[end] = legal
        return found

    def legal_in_layers(self, mask_keys: Iterable[Iterable[MaskKey | int]]) -> NDArray[np.bool_]:
        """Return [C] bool, the classes that are legal for at least one mask key, given the mask keys of each layer."""
        found = np.zeros(self.classes, bool)
        for layer, of_layer in zip((self, *self.layers), mask_keys, strict=True):
            for mask_key in of_layer:
                # Layers share their classes of tokens, but each has its own classes of suffixes after them.
                legal = layer.legal(mask_key)[: len(found)]
                found[: len(legal)] |= legal
        return found

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes and hashes that equal automata share, and different automata seldom share."""
        # Hashing the classes of all tokens would take as long as the first mask, so some are taken at equal distances.
        some = self.class_of[:: 1 + len(self.class_of) // HASHED]
        nesting, hashed = self.nesting, (some, self.row_class[:HASHED], self.row_target[:HASHED])
        of_table = self.start, self.states, self.classes, len(self.row_class), len(self.class_of)
        hashes = (hash(table.tobytes()) for table in hashed)
        return (*of_table, nesting.frames, nesting.max_depth, len(nesting.state), *hashes)

    def equals(self, other: TokenAutomaton) -> bool:
        """Whether both are the same automaton. Most different automata differ in `sizes`, so their tables are not compared."""
        if self is other or self.sizes != other.sizes:
            return self is other
        mine, theirs = ((a.class_of, *a._arrays) for a in (self, other))  # noqa: SLF001
        return (
            self._numbers == other._numbers
            and (len(mine), len(self.layers)) == (len(theirs), len(other.layers))
            and all(map(np.array_equal, mine, theirs))
            and all(layer.equals(other_layer) for layer, other_layer in zip(self.layers, other.layers, strict=True))
        )

    @property
    def _numbers(self) -> tuple[Any, ...]:
        """All numbers that belong to the automaton; arrays and layers also do."""
        nesting, numbers = self.nesting, (self.start, self.eos_ids, self.pad_id)
        depths = nesting.frames, nesting.strings, nesting.max_depth, nesting.pops
        blocks = (nesting.blocks, nesting.open_blocks) if nesting.blocks else ()
        return (numbers, (*depths, *blocks)) if self.has_stacks else numbers

    @property
    def _arrays(self) -> Iterator[NDArray[Any]]:
        """All arrays but `class_of`."""
        yield from (self.default, self.row_start, self.row_class, self.row_target, self.accepting)
        if self.fallback is not None:
            yield self.fallback
        if self.remembers is not None:
            yield self.remembers
        yield from self.nesting.tables

    @property
    def nbytes(self) -> int:
        """Bytes of the table, `class_of` not counted."""
        return sum(table.nbytes for table in self._arrays)

    @cached_property
    def content_key(self) -> str:
        """SHA-256 of the automaton, as 64 hexadecimal digits. A saved state names its automaton by this key."""
        digest = hashlib.sha256(repr(self._numbers).encode())
        for layer in self.layers:
            digest.update(layer.content_key.encode())
        for table in (self.class_of, *self._arrays):
            digest.update(f"{table.dtype.name}{table.shape}".encode())
            digest.update(memoryview(np.ascontiguousarray(table)))  # type: ignore[arg-type]
        return digest.hexdigest()

    def without_fallback(self) -> TokenAutomaton:
        """Return the same automaton without fallbacks: the row of each state lists all that the state does."""
        if self.fallback is None:
            return self
        found, states = self, np.arange(self.states)
        below = states
        # The entry of the first state in the chain that lists a class counts.
        while True:
            goes_on = self.fallback[below] != below
            states, below = states[goes_on], self.fallback[below[goes_on]]
            if not len(states):
                return replace(found, fallback=None)
            found = found._with_rows(states, below, self)

    def _with_rows(self, states: Ints, below: Ints, rows: TokenAutomaton) -> TokenAutomaton:
        """Add to the rows of states the entries of the states below them, but for classes that they already list.

        Args:
            states: The states.
            below: The state whose row is added to each.
            rows: The automaton in which these rows are looked up.
        """
        place, owner = expand(rows.row_start[below], rows.row_start[below + 1] - rows.row_start[below])
        classes = np.int64(self.classes)
        own = np.repeat(np.arange(self.states), np.diff(self.row_start)) * classes + self.row_class
        taken = states[owner] * classes + rows.row_class[place]
        left = ~np.isin(taken, own)
        keys = np.concatenate([own, taken[left]])
        order = np.argsort(keys)
        source, symbol = np.divmod(keys[order], classes)
        target = np.concatenate([self.row_target, rows.row_target[place[left]]])[order]
        start = np.searchsorted(source, np.arange(self.states + 1))
        return replace(self, row_start=start, row_class=symbol.astype(self.row_class.dtype), row_target=target)


def _finishing(legal: NDArray[np.bool_], transitions: TransitionColumns) -> TransitionColumns:
    """Return the column of an EOS id that is legal in some states, in the types of other columns."""
    source = np.flatnonzero(legal).astype(transitions.source.dtype)
    target = np.full(len(source), FINISHED, transitions.target.dtype)
    return TransitionColumns(np.zeros(1, transitions.default.dtype), np.array([0, len(source)]), source, target)
