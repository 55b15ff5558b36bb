"""Merge the states that accept the same texts, and drop those that accept none.

Strongly connected components are taken in reverse topological order, so all that a component can reach is minimal already.
A state on no cycle then equals an earlier one exactly if their signatures agree, a dictionary look-up; so does one whose only
cycle is a loop on itself. Only larger cycles need more: the whole cycle may be a copy of an earlier one, or fold onto itself.
Typical patterns cost one pass over their transitions.
"""

from __future__ import annotations

from collections import defaultdict

from logitkit.compiler.characters.components import components
from logitkit.compiler.characters.refinement import DEAD, refine
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits

# Stands for the state itself in the signature of a state with a loop.
SELF = -1

# Comparing cycles may take this many steps, and this many more for each state.
LEAST_COMPARED = 100_000
COMPARED_A_STATE = 10

# The cost of any automaton, of its states and moves, and of comparing those of cycles, in steps.
MINIMISING_ANY = 150
MINIMISING_STATE, MINIMISING_MOVE = 4, 12
COMPARING_STATE, COMPARING_MOVE = 15, 3

Signature = tuple[bool, frozenset[tuple[int, int]]]
# Whether a state accepts, all symbols that it reads, and its moves that leave its cycle.
Leaving = tuple[bool, int, frozenset[tuple[int, int]]]


def minimise(dfa: SymbolDfa, limits: Limits) -> SymbolDfa | None:
    """Return the minimal automaton of the same language, or None if it accepts nothing.

    Raises:
        PatternTooLarge: It takes too many steps.
    """
    limits.spend(MINIMISING_ANY + MINIMISING_STATE * len(dfa.moves) + MINIMISING_MOVE * sum(map(len, dfa.moves)))
    merger = _Merger(dfa, limits)
    for component in components(dfa.moves):
        if len(component) == 1:
            merger.single(component[0])
        else:
            merger.cycle(component)
    if merger.state_of[0] == DEAD:
        return None
    return _renumber(merger)


class _Merger:
    """The minimal automaton so far; `state_of` says where each old state went."""

    def __init__(self, dfa: SymbolDfa, limits: Limits) -> None:
        self.dfa = dfa
        self.limits = limits
        self.state_of: list[int] = [DEAD] * len(dfa.moves)
        self.moves: list[dict[int, int]] = []
        self.accepting: list[bool] = []
        self.plain: dict[Signature, int] = {}
        self.looped: dict[Signature, int] = {}
        # States on cycles: by the moves that leave their cycle, and by the cycle, of which each of these states has a number.
        self.on_cycle: dict[Leaving, list[int]] = defaultdict(list)
        self.compared = 0
        self.most_compared = LEAST_COMPARED + COMPARED_A_STATE * len(dfa.moves)
        self.cycle_of: dict[int, int] = {}
        self.cycles: list[list[int]] = []
        # How many of these are in `on_cycle`.
        self.noted = 0

    def merged_row(self, state: int, inside: dict[int, int] | None = None) -> dict[int, int]:
        """Return a state's moves in terms of the new states, or of `inside` for members of the component at hand."""
        state_of, moves = self.state_of, self.dfa.moves[state]
        if not inside:
            # Most moves lead to living states that differ.
            row = {state_of[target]: mask for target, mask in moves.items()}
            if len(row) == len(moves) and DEAD not in row:
                return row
        row = {}
        for target, mask in moves.items():
            new = inside[target] if inside and target in inside else state_of[target]
            if new != DEAD:
                row[new] = row.get(new, 0) | mask
        return row

    def single(self, state: int) -> None:
        accepts = self.dfa.accepting[state]
        loop = self.dfa.moves[state].get(state)
        row = self.merged_row(state)
        if loop is None:
            if not row and not accepts:
                return
            key = accepts, frozenset(row.items())
            found = self.plain.get(key)
            if found is None:
                found = self.plain[key] = len(self.moves)
                self.moves.append(row)
                self.accepting.append(accepts)
            self.state_of[state] = found
        else:
            if not row and not accepts:
                return
            key = (accepts, frozenset([*row.items(), (SELF, loop)]))
            found = self.looped.get(key)
            if found is None:
                # It also equals a state that it moves to, if only that state's own loop takes in more.
                for target, mask in row.items():
                    if self.plain.get((accepts, frozenset({**row, target: mask | loop}.items()))) == target:
                        found = target
                        break
            if found is None:
                new = len(self.moves)
                found = self.add(accepts, {**row, new: loop})
                self.closed([found])
            self.state_of[state] = found

    def add(self, accepts: bool, row: dict[int, int]) -> int:
        new = len(self.moves)
        self.moves.append(row)
        self.accepting.append(accepts)
        self.plain[accepts, frozenset(row.items())] = new
        if new in row:
            # States of larger cycles too: a later loop outside may equal one of them.
            self.looped[accepts, frozenset((SELF if t == new else t, m) for t, m in row.items())] = new
        return new

    def cycle(self, component: list[int]) -> None:
        members = set(component)
        outside_alive = any(
            self.dfa.accepting[s] or any(t not in members and self.state_of[t] != DEAD for t in self.dfa.moves[s])
            for s in component
        )
        if not outside_alive:
            return
        if self.copy_of_earlier(component, members):
            return
        group = refine(self.dfa, component, members, self.state_of, self.limits)
        count = max(group.values()) + 1
        if count == 1:
            # The cycle folds onto one state that loops: it may equal an earlier such state.
            state = component[0]
            row = self.merged_row(state, dict.fromkeys(component, SELF_TARGET))
            loop = row.pop(SELF_TARGET)
            new = len(self.moves)
            self.add(self.dfa.accepting[state], {**row, new: loop})
            self.finish(component, dict.fromkeys(component, new))
            return
        base = len(self.moves)
        renamed = {s: base + g for s, g in group.items()}
        representative = {g: s for s, g in reversed(list(group.items()))}
        for g in range(count):
            self.add(self.dfa.accepting[representative[g]], self.merged_row(representative[g], renamed))
        self.finish(component, renamed)

    def finish(self, component: list[int], renamed: dict[int, int]) -> None:
        for state in component:
            self.state_of[state] = renamed[state]
        self.closed(sorted(set(renamed.values())))

    def closed(self, cycle: list[int]) -> None:
        """Keep a new cycle."""
        self.cycle_of.update(dict.fromkeys(cycle, len(self.cycles)))
        self.cycles.append(cycle)

    def note_cycles(self) -> None:
        """Note the states of the cycles so far by what they do: only a larger cycle asks for that."""
        for number in range(self.noted, len(self.cycles)):
            for new in self.cycles[number]:
                row = self.moves[new]
                leaving = frozenset([(t, m) for t, m in row.items() if self.cycle_of.get(t) != number])
                self.on_cycle[self.accepting[new], _total(row), leaving].append(new)
        self.noted = len(self.cycles)

    def copy_of_earlier(self, component: list[int], members: set[int]) -> bool:
        """Map the component onto an earlier cycle if one of its states, and then all of them, equal states there."""
        self.note_cycles()
        begin, candidates = component[0], self.candidates(component[0], members)
        for state in component[1:]:
            # States from which the cycle is left tell most about which one it is.
            if not candidates:
                return False
            others = self.candidates(state, members)
            if len(others) < len(candidates):
                begin, candidates = state, others
        for candidate in candidates:
            if self.compared > self.most_compared:
                # Of thousands of cycles that look alike some may stay apart: the language is the same.
                return False
            mapped = self.simulate(begin, candidate, members)
            if mapped is not None:
                for state, new in mapped.items():
                    self.state_of[state] = new
                return True
        return False

    def candidates(self, state: int, members: set[int]) -> list[int]:
        """Return the new states on cycles that a state of a component may equal, as far as its own moves tell."""
        total = 0
        leaving: dict[int, int] = {}
        for target, mask in self.dfa.moves[state].items():
            new = self.state_of[target]
            if target in members or new != DEAD:
                total |= mask
            if target not in members and new != DEAD:
                leaving[new] = leaving.get(new, 0) | mask
        found = self.on_cycle.get((self.dfa.accepting[state], total, frozenset(leaving.items())), [])
        # It may also be on a cycle that it leads into.
        entered = {self.cycle_of[target]: None for target in leaving if target in self.cycle_of}
        return [*found, *[new for number in entered for new in self.cycles[number]]] if entered else found

    def simulate(self, state: int, candidate: int, members: set[int]) -> dict[int, int] | None:
        """Walk both automata together; return where each member went, or None as soon as they differ."""
        mapped = {state: candidate}
        todo = [state]
        while todo:
            old = todo.pop()
            new = mapped[old]
            self.limits.spend(COMPARING_STATE + COMPARING_MOVE * len(self.dfa.moves[old]))
            if self.dfa.accepting[old] != self.accepting[new]:
                return None
            theirs = self.moves[new]
            covered = 0
            for target, mask in self.dfa.moves[old].items():
                inside = target in members
                if not inside and self.state_of[target] == DEAD:
                    continue
                covered |= mask
                goal = _only_target(theirs, mask)
                if inside and target not in mapped and goal is not None:
                    mapped[target] = goal
                    todo.append(target)
                    self.compared += 1
                elif goal is None or goal != (mapped[target] if inside else self.state_of[target]):
                    return None
            if covered != _total(theirs):
                return None
        return mapped


SELF_TARGET = -2


def _only_target(row: dict[int, int], mask: int) -> int | None:
    """Return where all symbols of a mask lead to, or None if some lead elsewhere or nowhere."""
    reached = [target for target, symbols in row.items() if symbols & mask]
    return reached[0] if len(reached) == 1 and not mask & ~row[reached[0]] else None


def _total(row: dict[int, int]) -> int:
    total = 0
    for mask in row.values():
        total |= mask
    return total


def _renumber(merger: _Merger) -> SymbolDfa:
    """Number the states breadth-first from the start, so that equal languages have equal automata."""
    order = [merger.state_of[0]]
    number = {order[0]: 0}
    for old in order:
        row = merger.moves[old]
        fresh = [target for target in row if target not in number]
        if len(fresh) > 1:
            # In the order of the first symbol of each move.
            fresh.sort(key=lambda target: row[target] & -row[target])
        for target in fresh:
            number[target] = len(order)
            order.append(target)
    return SymbolDfa(
        [{number[t]: m for t, m in merger.moves[s].items()} for s in order],
        [merger.accepting[s] for s in order],
    )
