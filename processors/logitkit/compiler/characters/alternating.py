"""Make an automaton with lookarounds deterministic.

While the text is read, a *thread* is a position together with its *obligations*: lookaheads that began earlier and must
still come true (or must not, if negative). An obligation is itself a set of threads, through the automaton of the
lookahead's body. Lookbehinds need no obligations: the automaton of each one's body runs along from every place of the text,
and what it has just matched is known. A deterministic state is the set of threads of the pattern and of the lookbehinds.

Source: alternating automata (Chandra, Kozen, Stockmeyer, 1981), determinised by sets of sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple, TypeAlias

from logitkit.budget import took
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.guarded import Guard, Guarded
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.characters.symbols import Blocks, shared_symbols, split
from logitkit.limits import Limits

# The position of a thread whose body has matched, while lookaheads inside it are still open.
MATCHED = -1

# Steps over sets of sets cost this many of the steps that limits are counted in.
STEP_COST = 40
STEP_BASE = 8


class Thread(NamedTuple):
    """One way to read the text so far."""

    position: int
    obligations: frozenset[Obligation]


class Obligation(NamedTuple):
    """A lookahead that is still open: some thread must come to a match, or none may."""

    automaton: int
    negative: bool
    threads: frozenset[Thread]


Threads: TypeAlias = frozenset[Thread]
Duties: TypeAlias = frozenset[Obligation]
NO_DUTIES: Duties = frozenset()


class State(NamedTuple):
    """A deterministic state: threads of the pattern, and of each lookbehind by its automaton."""

    main: Threads
    behind: tuple[Threads, ...]


def determinise_guarded(guarded: Guarded, alphabet: Alphabet, limits: Limits) -> SymbolDfa:
    """Run the construction from the start of the text.

    Raises:
        PatternTooLarge: There are too many states, or the construction takes too many steps.
    """
    machine = _Machine(guarded, alphabet, limits)
    start = machine.begin()
    number = {start: 0}
    states = [start]
    moves: list[dict[int, int]] = []
    accepting: list[bool] = []
    cuts: dict[tuple[int, ...], Blocks] = {}
    try:
        while len(moves) < len(states):
            state = states[len(moves)]
            accepting.append(machine.accepts(state))
            row: dict[int, int] = {}
            masks = tuple(sorted(machine.masks(state))) if state.main else ()
            blocks = cuts.get(masks)
            if blocks is None:
                limits.check_work(machine.work * STEP_COST + len(masks) * shared_symbols(masks).bit_count() // 4)
                blocks = cuts[masks] = split(masks)
            for block, _ in blocks:
                after = machine.step(state, (block & -block).bit_length() - 1)
                if not after.main:
                    continue
                target = number.setdefault(after, len(states))
                if target == len(states):
                    limits.check_states(target)
                    states.append(after)
                row[target] = row.get(target, 0) | block
            moves.append(row)
    finally:
        took(machine.work * STEP_COST)
    return SymbolDfa(moves, accepting)


class _Machine:
    def __init__(self, guarded: Guarded, alphabet: Alphabet, limits: Limits) -> None:
        self.follow = guarded.follow
        self.final = guarded.final
        self.start = guarded.start
        self.conditions = guarded.conditions
        self.mask = [alphabet.members[c] for c in guarded.charsets]
        self.every_symbol = ((1 << alphabet.size) - 1) & ~1
        self.main = len(guarded.start) - 1
        self.behind = sorted({c.automaton for c in guarded.conditions if c.behind})
        self.place = {automaton: i for i, automaton in enumerate(self.behind)}
        self.limits = limits
        self.work = 0

    def begin(self) -> State:
        """Return the state before the first character."""
        return State(
            frozenset([Thread(self.start[self.main], NO_DUTIES)]),
            tuple(frozenset([Thread(self.start[a], NO_DUTIES)]) for a in self.behind),
        )

    def accepts(self, state: State) -> bool:
        """Whether the text may end here."""
        ends = self.matches(self.main, state.main, state.behind)
        return any(all(self.holds_at_end(o) for o in duties) for duties in ends)

    def holds_at_end(self, obligation: Obligation) -> bool:
        # A body that has just matched has left a MATCHED thread, see `settled`.
        met = any(
            all(self.holds_at_end(o) for o in thread.obligations)
            for thread in obligation.threads
            if thread.position == MATCHED
        )
        return met != obligation.negative

    def step(self, state: State, symbol: int) -> State:
        """Return the state after one character of a symbol."""
        self.work += STEP_BASE
        raw_behind = [
            self.moved(threads, symbol, state.behind) | {Thread(self.start[a], NO_DUTIES)}
            for a, threads in zip(self.behind, state.behind, strict=True)
        ]
        raw_main = self.moved(state.main, symbol, state.behind)
        # Inner lookbehinds have the lower numbers: each is settled before one that may ask for it.
        behind: tuple[Threads, ...] = tuple(raw_behind)
        for i, threads in enumerate(raw_behind):
            behind = (*behind[:i], self.settled_all(threads, behind), *behind[i + 1 :])
        return State(self.settled_all(raw_main, behind), behind)

    def moved(self, threads: Threads, symbol: int, behind: tuple[Threads, ...]) -> Threads:
        """Step threads, and their obligations, over a symbol; what their lookaheads come to is settled later."""
        bit = 1 << symbol
        after: set[Thread] = set()
        for thread in threads:
            if thread.position == MATCHED:
                after.add(Thread(MATCHED, self.moved_duties(thread.obligations, symbol, behind)))
                continue
            targets = [(q, g) for q, g in self.follow[thread.position] if self.mask[q] & bit]
            self.work += len(targets) + 1
            for guard in {g for _, g in targets}:
                for more in self.resolve(guard, behind):
                    duties = self.moved_duties(thread.obligations | more, symbol, behind)
                    after.update(Thread(q, duties) for q, g in targets if g == guard)
        self.limits.check_work(self.work * STEP_COST)
        return frozenset(after)

    def moved_duties(self, duties: Duties, symbol: int, behind: tuple[Threads, ...]) -> Duties:
        return (
            frozenset(o._replace(threads=self.moved(o.threads, symbol, behind)) for o in duties) if duties else duties
        )

    def settled_all(self, threads: Threads, behind: tuple[Threads, ...]) -> Threads:
        """Drop the obligations that came true, and the threads one of whose obligations failed."""
        kept: dict[int, list[Duties]] = {}
        self.work += len(threads) + sum(len(o.threads) for t in threads for o in t.obligations)
        for thread in threads:
            duties = self.settled_duties(thread.obligations, behind)
            if duties is not None:
                kept.setdefault(thread.position, []).append(duties)
        return frozenset(Thread(p, d) for p, alternatives in kept.items() for d in weakest(alternatives))

    def settled_duties(self, duties: Duties, behind: tuple[Threads, ...]) -> Duties | None:
        if not duties:
            return duties
        settled = set()
        for obligation in duties:
            now = self.settled(obligation, behind)
            if now is False:
                return None
            if now is not True:
                settled.add(now)
        return frozenset(settled)

    def settled(self, obligation: Obligation, behind: tuple[Threads, ...]) -> Obligation | bool:
        """Return what an obligation has come to at this place: true, false, or what is still open."""
        automaton, negative, threads = obligation
        threads = self.settled_all(threads, behind)
        ends = list(self.matches(automaton, threads, behind))
        if NO_DUTIES in ends:
            return not negative
        threads |= {Thread(MATCHED, duties) for duties in ends}
        return Obligation(automaton, negative, threads) if threads else negative

    def matches(self, automaton: int, threads: Threads, behind: tuple[Threads, ...]) -> Iterator[Duties]:
        """List the ways in which an automaton has matched at this place: what each still depends on."""
        for thread in threads:
            if thread.position == MATCHED:
                yield thread.obligations
            else:
                for guard in self.final[automaton].get(thread.position, ()):
                    for more in self.resolve(guard, behind):
                        yield thread.obligations | more

    def resolve(self, guard: Guard, behind: tuple[Threads, ...]) -> list[Duties]:
        """Return the ways in which a guard can hold at this place: [] is never, [NO_DUTIES] is always."""
        ways = [NO_DUTIES]
        for number in guard:
            automaton, looks_behind, negative = self.conditions[number]
            if looks_behind:
                before = list(self.matches(automaton, behind[self.place[automaton]], behind))
                options = self.negated(before) if negative else weakest(before)
            else:
                begun = frozenset([Thread(self.start[automaton], NO_DUTIES)])
                now = self.settled(Obligation(automaton, negative, begun), behind)
                options = [] if now is False else [NO_DUTIES] if now is True else [frozenset([now])]
            ways = [a | b for a in ways for b in options]
            self.work += len(ways)
        return weakest(ways)

    def negated(self, ways: list[Duties]) -> list[Duties]:
        """Return the ways in which none of some ways comes true: of each, one obligation must fail."""
        flipped = [[o._replace(negative=not o.negative) for o in duties] for duties in weakest(ways)]
        result = []
        for choice in product(*flipped):
            self.work += 1
            self.limits.check_work(self.work * STEP_COST)
            result.append(frozenset(choice))
        return weakest(result)

    def masks(self, state: State) -> set[int]:
        """Return the sets of symbols that may make a difference to a state's next step, and all symbols."""
        found = {self.every_symbol}
        self.collect_masks(state.main, found)
        for threads in state.behind:
            self.collect_masks(threads, found)
        # A lookahead that begins now reads the next symbol as well.
        for automaton in {c.automaton for c in self.conditions if not c.behind}:
            found.update(self.mask[q] for q, _ in self.follow[self.start[automaton]])
        found.discard(0)
        return found

    def collect_masks(self, threads: Threads, found: set[int]) -> None:
        for thread in threads:
            if thread.position != MATCHED:
                found.update(self.mask[q] for q, _ in self.follow[thread.position])
            for obligation in thread.obligations:
                self.collect_masks(obligation.threads, found)


def weakest(ways: Iterable[Duties]) -> list[Duties]:
    """Keep the sets of obligations that no other is part of: the others ask for more and allow nothing else."""
    ways = list(ways)
    if len(ways) < 2:
        return ways
    kept: list[Duties] = []
    for duties in sorted(set(ways), key=len):
        if not any(k <= duties for k in kept):
            kept.append(duties)
    return kept
