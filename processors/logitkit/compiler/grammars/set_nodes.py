"""Make a pushdown automaton over bytes deterministic: by sets of configurations, without the frames that all of them share.

A node is a set of configurations that are possible at once, each with only those frames that it does not share with all the
others of the node. The frames that all share are on the stack of the result. When a configuration needs one of these, because its
rule may end there, the innermost frame is popped, and all configurations of the node get it back: that is another node, in which
the same symbol is looked at again. A symbol that no caller of the rule can read next is not looked at so, but read.

By hand, for `sum ::= item ("+" item)*` and `item ::= "1" | "(" sum ")"` as in `bytes.pushdown_dfa`: after `(` the set is
`{(start, [after F])}`; its only frame is shared, so that it is pushed, and the node is `{(start, [])}`.

A frame of the result may also be a set of alternative stacks: `{(q, [f]), (q, [g, h])}` is `q` on the
frame `{[f], [g, h]}`.

Invariants: a node and a frame say which node comes after a pop; only symbols that are looked at again need be known there. Which
frames may lie on which is followed exactly, so that no node is made for a pair that never meets.

This need not end: in palindromes, no number of frames is shared, and the sets grow. Then the grammar is refused, or nodes are
*split*: configurations with different stacks go on by themselves, so that a symbol has several outcomes. All frames are shared
then, and a node is a set of states: there are finitely many.

By hand, for `s ::= "a" s "a" | ""`: an `a` at the start of `s` pushes the frame F and leads to the start of `s`; or, as the inner
`s` may be empty, F is popped, and the `a` is the second one of its rule. So a split node may read and pop with the same symbol,
and its pop leads to the node `{(F, [])}`, because what is read without a pop goes on elsewhere.

Source: Alur and Madhusudan, Visibly pushdown languages (2004), for frames that are sets; Nowotka and Srba, Height-deterministic
pushdown automata (2007).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.compiler.bytes.pushdown_dfa import POP
from logitkit.compiler.characters.subset import split
from logitkit.compiler.grammars.lookahead import lookahead
from logitkit.compiler.grammars.simulation import Configuration, Simulation
from logitkit.compiler.grammars.stack_machine import TAIL, StackMachine
from logitkit.compiler.grammars.views import bits
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits

__all__ = ["BOTTOM", "SetNodes"]

# Sets of more configurations, or with more frames that are not shared, come from grammars that do not become deterministic.
MOST_CONFIGURATIONS, MOST_FRAMES = 400, 60
MOST_NODES = 20_000

# The context of an empty stack.
BOTTOM = 0

# What a configuration costs, in steps.
STEPS = 12

# What it costs to join two masks of contexts, and to join two that are this much longer; and how long a mask of the size of a
# step is.
MASK_STEPS, CONTEXTS_A_STEP, CONTEXTS_KEPT = 3, 20_000, 400

NO_CONDITIONS: frozenset[int] = frozenset()

# A set of alternative stacks.
Frame: TypeAlias = frozenset[tuple[int, ...]]


# The symbols that may pop, what reading leads to, the rules that end where symbols pop, and the conditions that are open there.
Closure: TypeAlias = tuple[int, list[tuple[int, Configuration]], set[int], frozenset[frozenset[int]]]


class Plan(NamedTuple):
    """What symbols do in a node.

    Args:
        pops: The symbols that pop, as a mask.
        ending: The conditions that are still open in configurations whose rule may end at the frames that all share.
        reads: What is possible after each symbol.
    """

    pops: int
    ending: frozenset[frozenset[int]]
    reads: list[tuple[int, frozenset[Configuration]]]


class SetNodes:
    """The nodes that are reached, and what each symbol does there.

    Args:
        machine: What is made deterministic.
        limits: Bounds on the nodes and the work.
        split: Whether nodes are split, so that a symbol may have several outcomes.

    Attributes:
        rows: For each node, masks of symbols and what they do: a node, `POP`, or `-2 - m` for move `m`.
        pushed: For each move, the frames that it pushes, the outermost first.
        target: The node that each move leads to.
        frames: The frames.
        behind: The node after each node and popped frame.
        followed: The contexts of the outermost and the innermost frame of each move.
        context_frame: The frame of each context.
        below: For each context, those that may lie below it, as a mask.
        tops: For each node, the contexts that may be innermost there, as a mask.
    """

    def __init__(self, machine: StackMachine, limits: Limits, split: bool = False) -> None:
        self.machine, self.limits, self.split = machine, limits, split
        self.simulation = Simulation(machine)
        self.look = lookahead(machine, limits)
        self.returns = _returns(machine)
        self.known: dict[int, Closure] = {}
        self.every = (1 << machine.symbols) - 1
        self.number: dict[frozenset[Configuration], int] = {}
        self.nodes: list[frozenset[Configuration]] = [frozenset(), frozenset()]
        self.rows: list[list[tuple[int, int]]] = [[], []]
        self.frame_number: dict[Frame, int] = {}
        self.frames: list[Frame] = []
        self.move_number: dict[tuple[tuple[int, ...], int], int] = {}
        self.pushed: list[tuple[int, ...]] = []
        self.target: list[int] = []
        self.behind: dict[tuple[int, int], int] = {}
        self.results: dict[frozenset[Configuration], tuple[int, ...]] = {}
        # What each node does, and which of it was asked for so far.
        self.plans: list[Plan | None] = [None, None]
        self.asked, self.asked_done = [0, 0], [0, 0]
        # A context is a frame and how it was pushed.
        # It is found by the context below it in the same move, or minus the target of the move.
        self.contexts: dict[tuple[int, int], int] = {}
        self.context_frame: list[int] = [-1]
        self.below: list[int] = [0]
        self.popped_to: list[dict[int, None]] = [{}]
        self.tops, self.tops_done = [0, 0], [0, 0]
        self.next_nodes: list[dict[int, None]] = [{}, {}]
        self.next_contexts: list[dict[int, None]] = [{}, {}]
        # The outermost and the innermost context of each move that was followed.
        self.followed: dict[int, tuple[int, int]] = {}
        self.todo: list[int] = []
        self.start = self.node(frozenset([(machine.start, (), NO_CONDITIONS)]))
        self.ask(self.start, self.every)
        self.add_tops(self.start, 1 << BOTTOM)
        while self.todo:
            self.visit(self.todo.pop())

    def node(self, configurations: frozenset[Configuration]) -> int:
        """Return the number of a node."""
        found = self.number.setdefault(configurations, len(self.nodes))
        if found == len(self.nodes):
            if len(configurations) > MOST_CONFIGURATIONS or any(len(c[1]) > MOST_FRAMES for c in configurations):
                raise self.refusal("stacks of different depth stay possible at once")
            if found >= min(MOST_NODES, self.limits.states):
                raise self.refusal("it has too many states, or is not deterministic")
            self.nodes.append(configurations)
            self.rows.append([])
            self.plans.append(None)
            for masks in (self.asked, self.asked_done, self.tops, self.tops_done):
                masks.append(0)
            self.next_nodes.append({})
            self.next_contexts.append({})
        return found

    def refusal(self, why: str) -> PatternTooLarge:
        """Return the error of a grammar that does not become deterministic."""
        return PatternTooLarge(
            f"the grammar did not become deterministic within {len(self.nodes) - FIRST_STATE} states: {why}; write its rules so "
            "that the next byte decides which rule goes on, or simplify them"
        )

    def ask(self, node: int, symbols: int) -> None:
        """Ask what some symbols do in a node."""
        if symbols & ~self.asked[node]:
            self.asked[node] |= symbols
            self.todo.append(node)

    def add_tops(self, node: int, contexts: int) -> None:
        """Add contexts that may be innermost in a node."""
        if contexts & ~self.tops[node]:
            self.tops[node] |= contexts
            self.todo.append(node)

    def add_below(self, context: int, contexts: int) -> None:
        """Add contexts that may lie below another one."""
        if contexts & ~self.below[context]:
            self.below[context] |= contexts
            for node in self.popped_to[context]:
                self.add_tops(node, contexts)

    def visit(self, node: int) -> None:
        """Work off what is new about a node."""
        new = self.asked[node] & ~self.asked_done[node]
        tops = self.tops[node] & ~self.tops_done[node]
        if not new and not tops:
            return
        known_tops = self.tops_done[node]
        self.asked_done[node] |= new
        self.tops_done[node] |= tops
        spend(STEPS)
        if tops:
            following = len(self.next_nodes[node]) + len(self.next_contexts[node])
            spend(MASK_STEPS * following * (1 + len(self.below) // CONTEXTS_A_STEP))
            for after in self.next_nodes[node]:
                self.add_tops(after, tops)
            for context in self.next_contexts[node]:
                self.add_below(context, tops)
        plan = self.plans[node]
        if plan is None:
            plan = self.plans[node] = self.plan(self.nodes[node])
        pops, _, reads = plan
        if new & pops:
            self.rows[node].append((new & pops, POP))
            for context in bits(known_tops):
                self.pop(node, context, new & pops)
        if self.asked_done[node] & pops:
            for context in bits(tops):
                self.pop(node, context, self.asked_done[node] & pops)
        for mask, configurations in reads:
            symbols = mask & new if self.split else mask & new & ~pops
            if symbols:
                self.rows[node] += [(symbols, does) for does in self.read(node, configurations)]

    def pop(self, node: int, context: int, symbols: int) -> None:
        """Let symbols be looked at again behind the frame of a context."""
        if context == BOTTOM:
            return
        key = node, self.context_frame[context]
        behind = self.behind.get(key)
        if behind is None:
            behind = self.behind[key] = self.node(self.after_pop(node, self.frames[key[1]]))
        self.ask(behind, symbols)
        self.popped_to[context][behind] = None
        self.add_tops(behind, self.below[context])

    def after_pop(self, node: int, frame: Frame) -> frozenset[Configuration]:
        """Give the configurations of a node a frame back, and leave out what cannot read what is looked at again."""
        plan = self.plans[node]
        assert plan is not None
        if self.split:
            return frozenset([(below[-1], below[:-1], c) for below in frame for c in plan.ending])
        machine, ahead, symbols = self.machine, self.look.ahead, plan.pops
        found: set[Configuration] = set()
        todo = [(state, (*below, *stack), c) for state, stack, c in self.nodes[node] for below in frame]
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
        return frozenset(found)

    def read(self, node: int, configurations: frozenset[Configuration]) -> tuple[int, ...]:
        """Return what reading a symbol does, after which these are possible."""
        found = self.results.get(configurations)
        if found is None:
            found = self.results[configurations] = self.settled(configurations)
        for does in found:
            self.follow(node, does)
        return found

    def follow(self, node: int, does: int) -> None:
        """Go on after what reading a symbol does in a node."""
        if does >= 0:
            if does != FINISHED:
                self.next_nodes[node][does] = None
                self.ask(does, self.every)
                self.add_tops(does, self.tops[node])
            return
        move = -2 - does
        if move not in self.followed:
            self.followed[move] = self.new_contexts(move)
        self.next_contexts[node][self.followed[move][0]] = None
        self.add_below(self.followed[move][0], self.tops[node])

    def new_contexts(self, move: int) -> tuple[int, int]:
        """Go on after a move for the first time; return the contexts of its outermost and its innermost frame."""
        target = self.target[move]
        self.ask(target, self.every)
        found: list[int] = []
        for frame in self.pushed[move]:
            key = found[-1] if found else -target, frame
            context = self.contexts.setdefault(key, len(self.context_frame))
            if context == len(self.context_frame):
                # Masks of contexts are as long as there are contexts.
                spend(1 + context // CONTEXTS_KEPT)
                self.context_frame.append(frame)
                self.below.append(0)
                self.popped_to.append({})
            if found:
                self.add_below(context, 1 << found[-1])
            found.append(context)
        self.add_tops(target, 1 << found[-1])
        return found[0], found[-1]

    def settled(self, configurations: frozenset[Configuration]) -> tuple[int, ...]:
        """Return the nodes or moves for what is possible after a symbol."""
        if (FINISHED, (), NO_CONDITIONS) in configurations:
            return (FINISHED,)
        machine = self.machine
        found = set()
        for configuration in configurations:
            state, stack, conditions = configuration
            while stack and not conditions and machine.ends_only(state):
                state, stack = stack[-1], stack[:-1]
            found.add((state, stack, conditions))
        if len(found) > 1:
            self.simulation.work = 0
            found = self.simulation.without_needless(found)
            self.limits.spend(self.simulation.work)
        if not self.split:
            return (self.pushing(*_shared(found)),)
        by_stack: dict[tuple[int, ...], set[Configuration]] = {}
        for state, stack, conditions in found:
            by_stack.setdefault(stack, set()).add((state, (), conditions))
        return tuple(
            [self.pushing([frozenset([(frame,)]) for frame in stack], by_stack[stack]) for stack in sorted(by_stack)]
        )

    def pushing(self, frames: list[Frame], left: set[Configuration]) -> int:
        """Return the node or the move for configurations without some frames, which they share."""
        target = self.node(frozenset(left))
        if not frames:
            return target
        numbers = tuple([self.frame(frame) for frame in frames])
        move = self.move_number.setdefault((numbers, target), len(self.pushed))
        if move == len(self.pushed):
            self.pushed.append(numbers)
            self.target.append(target)
        return -2 - move

    def frame(self, frame: Frame) -> int:
        """Return the number of a frame."""
        found = self.frame_number.setdefault(frame, len(self.frames))
        if found == len(self.frames):
            self.frames.append(frame)
        return found

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
        return Plan(pops, conditions, [(block, frozenset(after)) for block, after in blocks])

    def closure(self, node: Iterable[Configuration]) -> Closure:
        """Return the symbols that may pop, what reading leads to, the rules that end where symbols pop, and conditions there."""
        machine, follow = self.machine, self.look.follow
        pops, ending = 0, set[int]()
        left_open: set[frozenset[int]] = set()
        reads: list[tuple[int, Configuration]] = []
        todo = list(node)
        seen = set(todo)
        while todo:
            state, stack, conditions = todo.pop()
            for mask, after in self.outcomes(conditions):
                for target, symbols in machine.moves[state].items():
                    if symbols & mask:
                        reads.append((symbols & mask, (target, stack, after)))
            fresh: list[Configuration] = []
            for callee, behind in machine.calls[state]:
                fresh.append((callee, stack if behind == TAIL else (*stack, behind), conditions))
            for condition, target in machine.looks[state]:
                fresh.append((target, stack, conditions | {condition}))
            if machine.final[state]:
                if stack:
                    fresh.append((stack[-1], stack[:-1], conditions))
                elif machine.rule[state] == 0:
                    reads.append((machine.end, (FINISHED, (), NO_CONDITIONS)))
                else:
                    ending.add(machine.rule[state])
                    left_open.add(conditions)
                    for mask, _ in self.outcomes(conditions):
                        pops |= mask & follow[machine.rule[state]]
            for configuration in fresh:
                if configuration not in seen:
                    if len(configuration[1]) > 2 * MOST_FRAMES or len(seen) > 10 * MOST_CONFIGURATIONS:
                        raise self.refusal("rules call each other without end before the next byte is read")
                    seen.add(configuration)
                    todo.append(configuration)
        self.limits.spend(STEPS * (len(seen) + len(reads)))
        return pops, reads, ending, frozenset(left_open)

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
                        beaten = 0
                        for symbols, (target, stack, conditions) in reads:
                            if symbols & mask & better and not conditions and self.machine.final[state]:
                                kept = target, (state, *stack), conditions
                                beaten |= symbols * (self.simulation.without_needless({kept, worse}) == {kept})
                        better &= ~mask | beaten
                if after_pop & better:
                    todo += ended - seen
                    seen |= ended
                if not better:
                    break
        self.limits.spend(self.simulation.work)
        self.simulation.work = 0
        return better

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
        for callee, behind in calls:
            if behind == TAIL:
                tails.add((machine.rule[state], machine.rule[callee]))
            else:
                found[machine.rule[callee]].add(behind)
    todo = list(tails)
    while todo:
        outer, inner = todo.pop()
        if not found[outer] <= found[inner]:
            found[inner] |= found[outer]
            todo += [tail for tail in tails if tail[0] == inner]
    return found


def _shared(found: set[Configuration]) -> tuple[list[Frame], set[Configuration]]:
    """Return the frames that all configurations share, the outermost first, and the configurations without them."""
    stacks = [stack for _, stack, _ in found]
    shortest, *_ = sorted(stacks, key=len)
    shared = len(shortest)
    for stack in stacks:
        while stack[:shared] != shortest[:shared]:
            shared -= 1
    frames: list[Frame] = [frozenset([(frame,)]) for frame in shortest[:shared]]
    left = {(state, stack[shared:], conditions) for state, stack, conditions in found} if shared else found
    if shared == len(shortest) or len(left) < 2:
        return frames, left
    # Perhaps every configuration goes with every one of some alternative stacks.
    state, stack, conditions = min(left, key=lambda c: (len(c[1]), c[0]))
    for cut in range(len(stack), 0, -1):
        top = stack[cut:]
        below = {
            s[: len(s) - len(top)]
            for q, s, c in left
            if q == state and c == conditions and s[len(s) - len(top) :] == top
        }
        if () in below:
            continue
        tops = {(q, s[cut:], c) for q, s, c in left if s[:cut] == stack[:cut]}
        tops = {(q, s, c) for q, s, c in tops if all((q, b + s, c) in left for b in below)}
        if len(left) == len({(q, b + s, c) for q, s, c in tops for b in below}):
            return [*frames, frozenset(below)], tops
    return frames, left
