"""The plan of a node: which symbols are read, with what is possible afterwards, and which pop the innermost frame.

A symbol that no caller of the rule can read next is not looked at again after the frame is popped, but read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from logitkit.compiler.bytes.byte_dfa import FINISHED
from logitkit.compiler.characters.symbols import split
from logitkit.compiler.grammars.lookahead import lookahead
from logitkit.compiler.grammars.simulation import Configuration, Frame, Simulation
from logitkit.compiler.grammars.stack_machine import TAIL, StackMachine
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits

__all__ = ["MOST_CONFIGURATIONS", "MOST_FRAMES", "NO_CONDITIONS", "STEPS", "Plan", "Plans"]

# Sets of more configurations, or with more frames that are not shared, come from grammars that do not become deterministic.
MOST_CONFIGURATIONS, MOST_FRAMES = 400, 16

# More calls before a byte is read come from grammars in which rules call each other without end.
MOST_CALLS = 120

# The cost of a configuration, in steps.
STEPS = 12

# The number of masks that are compared with a symbol in the time of one step.
MASKS_A_STEP = 2

NO_CONDITIONS: frozenset[int] = frozenset()

# The symbols that may pop, what reading leads to, the rules that end where symbols pop, and the conditions that are open there.
Closure: TypeAlias = tuple[int, list[tuple[int, Configuration]], set[int], frozenset[frozenset[int]]]


class Plan(NamedTuple):
    """The effects of symbols in a node.

    Args:
        pops: The symbols that pop, as a mask.
        ending: The conditions that are still open in configurations whose rule may end at the frames that all share.
        reads: The configurations that are possible after each symbol.
    """

    pops: int
    ending: frozenset[frozenset[int]]
    reads: list[tuple[int, frozenset[Configuration]]]


class Plans:
    """The plans of nodes.

    Args:
        machine: The automaton that is made deterministic.
        limits: Bound on the work.
        refusal: Returns the error of a grammar that does not become deterministic, for a reason.
    """

    def __init__(self, machine: StackMachine, limits: Limits, refusal: Callable[[str], PatternTooLarge]) -> None:
        self.machine, self.limits, self.refusal = machine, limits, refusal
        self.simulation = Simulation(machine)
        self.ahead, self.follow = lookahead(machine, limits)
        self.returns = _returns(machine)
        self.known: dict[int, Closure] = {}
        self.every = (1 << machine.symbols) - 1

    def possible(self, configurations: frozenset[Configuration]) -> set[Configuration]:
        """Return what is possible after a symbol, without what is needless."""
        found = set()
        for configuration in configurations:
            state, stack, conditions = configuration
            while stack and not conditions and self.machine.ends_only(state):
                state, stack = stack[-1], stack[:-1]
            found.add((state, stack, conditions))
        if len(found) > 1:
            found = self.simulation.without_needless(found)
            self.limits.spend(self.simulation.work)
            self.simulation.work = 0
        return found

    def after_pop(self, node: Iterable[Configuration], frame: Frame, symbols: int) -> frozenset[Configuration]:
        """Give the configurations of a node a frame back, and leave out what cannot read what is looked at again."""
        machine, ahead = self.machine, self.ahead
        found: set[Configuration] = set()
        todo = [(state, (*below, *stack), c) for state, stack, c in node for below in frame]
        seen = set(todo)
        while todo:
            state, stack, conditions = todo.pop()
            # A condition that all of the symbols meet is settled, and so are conditions that none of them meets.
            ways = self.outcomes(conditions)
            if not any(mask & symbols for mask, _ in ways):
                continue
            if all(not left for mask, left in ways if mask & symbols) and not symbols & ~sum(mask for mask, _ in ways):
                conditions = NO_CONDITIONS
            fresh = [(target, stack, conditions | {look}) for look, target in machine.looks[state]]
            own = any(mask & symbols for mask in machine.moves[state].values()) or machine.calls[state]
            if conditions or (own and ahead[state] & symbols):
                found.add((state, stack, conditions))
            if machine.final[state] and not conditions:
                if stack:
                    fresh.append((stack[-1], stack[:-1], conditions))
                else:
                    found.add((state, stack, conditions))
            todo += [configuration for configuration in fresh if configuration not in seen]
            seen.update(fresh)
        self.limits.spend(STEPS * len(seen))
        return frozenset(found)

    def plan(self, node: Iterable[Configuration]) -> Plan:
        """Return what symbols do in a node."""
        pops, reads, ending, conditions = self.closure(node)
        if pops:
            pops &= ~self.better_read(pops, reads, ending)
        by_mask: dict[int, list[Configuration]] = {}
        for mask, configuration in reads:
            by_mask.setdefault(mask, []).append(configuration)
        masks = tuple(by_mask)
        if len(masks) == 1:
            return Plan(pops, conditions, [(masks[0], frozenset(by_mask[masks[0]]))])
        blocks = [(block, [c for m in members for c in by_mask[masks[m]]]) for block, members in split(masks)]
        self.limits.spend(len(blocks) * (1 + len(masks) // MASKS_A_STEP) + sum([len(after) for _, after in blocks]))
        return Plan(pops, conditions, [(block, frozenset(after)) for block, after in blocks])

    def closure(self, node: Iterable[Configuration]) -> Closure:
        """Return the symbols that may pop, what reading leads to, the rules that end where symbols pop, and conditions there."""
        machine, follow = self.machine, self.follow
        pops, ending = 0, set[int]()
        left_open: set[frozenset[int]] = set()
        reads: list[tuple[int, Configuration]] = []
        todo = list(node)
        seen = set(todo)
        while todo:
            state, stack, conditions = todo.pop()
            outcomes = self.outcomes(conditions)
            reads += self.reads(state, stack, outcomes)
            fresh = [
                (callee, stack if return_state == TAIL else (*stack, return_state), conditions)
                for callee, return_state in machine.calls[state]
            ]
            fresh += [(target, stack, conditions | {condition}) for condition, target in machine.looks[state]]
            if machine.final[state]:
                if stack:
                    fresh.append((stack[-1], stack[:-1], conditions))
                elif machine.rule[state] == 0:
                    reads.append((machine.end, (FINISHED, (), NO_CONDITIONS)))
                else:
                    ending.add(machine.rule[state])
                    left_open.add(conditions)
                    for mask, _ in outcomes:
                        pops |= mask & follow[machine.rule[state]]
            for configuration in fresh:
                if configuration not in seen:
                    if len(configuration[1]) > MOST_CALLS or len(seen) > 10 * MOST_CONFIGURATIONS:
                        raise self.refusal("rules call each other without end before the next byte is read")
                    seen.add(configuration)
                    todo.append(configuration)
        self.limits.spend(STEPS * (len(seen) + len(reads)))
        return pops, reads, ending, frozenset(left_open)

    def reads(
        self, state: int, stack: tuple[int, ...], outcomes: list[tuple[int, frozenset[int]]]
    ) -> list[tuple[int, Configuration]]:
        """Return what reading symbols leads to from a state, given what they do to open conditions."""
        return [
            (symbols & mask, (target, stack, after))
            for mask, after in outcomes
            for target, symbols in self.machine.moves[state].items()
            if symbols & mask
        ]

    def better_read(self, pops: int, reads: list[tuple[int, Configuration]], ending: set[int]) -> int:
        """Return the symbols that need not pop, because reading them here makes possible whatever reading them after a pop does.

        By hand, for `s ::= "i" s ("e" s)? | "x"`: in the state after the inner `s`, an `e` may be read, or a frame be popped and
        the `e` read there. The first leads to the same state as the second, with a frame more, whose rule may end at once.
        """
        better = 0
        for mask, (_, _, conditions) in reads:
            better |= mask & pops * (not conditions)
        todo, seen = list(ending), set(ending)
        while todo and better:
            for state in self.returns[todo.pop()]:
                after_pop, after_read, ended, _ = self.alone(state)
                if not self.machine.final[state]:
                    # Its frame must be read on, if it is kept.
                    better &= ~after_pop
                for mask, worse in after_read:
                    if mask & better:
                        better &= ~mask | self.beaten(state, mask & better, worse, reads)
                        # Many states may be compared with many others, so each comparison counts at once.
                        self.limits.spend(self.simulation.work)
                        self.simulation.work = 0
                if after_pop & better:
                    todo += ended - seen
                    seen |= ended
                if not better:
                    break
        return better

    def beaten(self, state: int, mask: int, worse: Configuration, reads: list[tuple[int, Configuration]]) -> int:
        """Return the symbols, at least of a mask, after which reading them before a pop does all that `worse` does after it."""
        found = 0
        if self.machine.final[state]:
            for symbols, (target, stack, conditions) in reads:
                if symbols & mask and not conditions:
                    kept = target, (state, *stack), conditions
                    found |= symbols * (self.simulation.without_needless({kept, worse}) == {kept})
        return found

    def alone(self, state: int) -> Closure:
        """Return what a state does after its frame was popped."""
        found = self.known.get(state)
        if found is None:
            found = self.known[state] = self.closure([(state, (), NO_CONDITIONS)])
        return found

    def outcomes(self, conditions: frozenset[int]) -> list[tuple[int, frozenset[int]]]:
        """Return the symbols that open conditions allow, with the conditions that are then still open."""
        if not conditions:
            return [(self.every, NO_CONDITIONS)]
        found = {NO_CONDITIONS: self.every}
        for condition in conditions:
            row = self.machine.moves[condition]
            # Neither a special token nor the end of the text is a character.
            ways: dict[int | None, int] = {None: self.every >> self.machine.step.shape[1] << self.machine.step.shape[1]}
            for target, mask in row.items():
                key = None if target == self.machine.free else target
                ways[key] = ways.get(key, 0) | mask
            after: dict[frozenset[int], int] = {}
            for left, mask in found.items():
                for way, symbols in ways.items():
                    if mask & symbols:
                        key2 = left if way is None else left | {way}
                        after[key2] = after.get(key2, 0) | (mask & symbols)
            found = after
        return [(mask, left) for left, mask in found.items()]


def _returns(machine: StackMachine) -> list[set[int]]:
    """Return for each rule the states in which its callers go on."""
    found: list[set[int]] = [set() for _ in range(max(machine.rule) + 1)]
    tails: set[tuple[int, int]] = set()
    for state, calls in enumerate(machine.calls):
        for callee, return_state in calls:
            if return_state == TAIL:
                tails.add((machine.rule[state], machine.rule[callee]))
            else:
                found[machine.rule[callee]].add(return_state)
    todo = list(tails)
    while todo:
        outer, inner = todo.pop()
        if not found[outer] <= found[inner]:
            found[inner] |= found[outer]
            todo += [tail for tail in tails if tail[0] == inner]
    return found
