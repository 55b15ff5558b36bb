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
*split*: configurations with different stacks go on by themselves, so that a symbol has several actions. All frames are shared
then, and a node is a set of states: there are finitely many.

By hand, for `s ::= "a" s "a" | ""`: an `a` at the start of `s` pushes the frame F and leads to the start of `s`; or, as the inner
`s` may be empty, F is popped, and the `a` is the second one of its rule. So a split node may read and pop with the same symbol,
and its pop leads to the node `{(F, [])}`, because what is read without a pop goes on elsewhere.

Source: Alur and Madhusudan, Visibly pushdown languages (2004), for frames that are sets; Nowotka and Srba, Height-deterministic
pushdown automata (2007).
"""

from __future__ import annotations

from collections import deque

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.bytes.pushdown_views import bits
from logitkit.compiler.grammars.plans import MOST_CONFIGURATIONS, MOST_FRAMES, NO_CONDITIONS, STEPS, Plan, Plans
from logitkit.compiler.grammars.simulation import Configuration, Frame, shared_frames
from logitkit.compiler.grammars.stack_machine import StackMachine
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits

__all__ = ["BOTTOM", "LrStates"]

MOST_NODES = 20_000

# The context of an empty stack.
BOTTOM = 0

# The cost of joining two masks of contexts, in steps; the number of contexts that adds this cost once more; and the number of
# contexts in a mask of the size of a step.
MASK_STEPS, CONTEXTS_A_STEP, CONTEXTS_KEPT = 3, 20_000, 400

# The cost of looking at the symbols of a node again after the frame of one context, in steps.
POP_STEPS = 8


class LrStates:
    """The nodes that are reached, and what each symbol does there.

    Args:
        machine: The automaton that is made deterministic.
        limits: Bounds on the nodes and the work.
        split: Whether nodes are split, so that a symbol may have several actions.

    Attributes:
        rows: For each node, masks of symbols and what they do: a `PushdownStep`, in which nodes are the states.
        pushed: For each move, the frames that it pushes, the outermost first.
        target: The node that each move leads to.
        frames: The frames.
        return_state: The node after each node and popped frame.
        followed: The contexts of the outermost and the innermost frame of each move.
        context_frame: The frame of each context.
        below: For each context, those that may lie below it, as a mask.
        tops: For each node, the contexts that may be innermost there, as a mask.
    """

    def __init__(self, machine: StackMachine, limits: Limits, split: bool = False) -> None:
        self.machine, self.limits, self.split = machine, limits, split
        self.planner = Plans(machine, limits, self.refusal)
        self.every = self.planner.every
        self.number: dict[frozenset[Configuration], int] = {}
        self.nodes: list[frozenset[Configuration]] = [frozenset(), frozenset()]
        self.rows: list[list[tuple[int, int]]] = [[], []]
        self.frame_number: dict[Frame, int] = {}
        self.frames: list[Frame] = []
        self.move_number: dict[tuple[tuple[int, ...], int], int] = {}
        self.pushed: list[tuple[int, ...]] = []
        self.target: list[int] = []
        self.return_state: dict[tuple[int, int], int] = {}
        self.results: dict[frozenset[Configuration], tuple[int, ...]] = {}
        # The plan of each node, and the symbols of it that were asked for so far.
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
        # Nodes that were not visited yet are taken first, the newest before others, so that stacks that grow without end are met
        # early. Then follow the others, the oldest first: what is new about a node grows while it waits.
        self.fresh: list[int] = []
        self.todo: deque[int] = deque()
        self.start = self.node(frozenset([(machine.start, (), NO_CONDITIONS)]))
        self.ask(self.start, self.every)
        self.add_tops(self.start, 1 << BOTTOM)
        while self.fresh or self.todo:
            self.visit(self.fresh.pop() if self.fresh else self.todo.popleft())

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

    @property
    def mask_steps(self) -> int:
        """The cost of joining two masks of contexts, in steps."""
        return MASK_STEPS * (1 + len(self.below) // CONTEXTS_A_STEP)

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
            self.wait(node)

    def add_tops(self, node: int, contexts: int) -> None:
        """Add contexts that may be innermost in a node."""
        if contexts & ~self.tops[node]:
            self.tops[node] |= contexts
            self.wait(node)

    def wait(self, node: int) -> None:
        """Let a node be visited later."""
        if self.plans[node] is None:
            self.fresh.append(node)
        else:
            self.todo.append(node)

    def add_below(self, context: int, contexts: int) -> None:
        """Add contexts that may lie below another one."""
        if contexts & ~self.below[context]:
            self.below[context] |= contexts
            spend(self.mask_steps * len(self.popped_to[context]))
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
            spend(self.mask_steps * following)
            for after in self.next_nodes[node]:
                self.add_tops(after, tops)
            for context in self.next_contexts[node]:
                self.add_below(context, tops)
        plan = self.plans[node]
        if plan is None:
            plan = self.plans[node] = self.planner.plan(self.nodes[node])
        pops, _, reads = plan
        if new & pops:
            self.rows[node].append((new & pops, POP))
            self.pop_all(node, known_tops, new & pops)
        if self.asked_done[node] & pops:
            self.pop_all(node, tops, self.asked_done[node] & pops)
        for mask, configurations in reads:
            symbols = mask & new if self.split else mask & new & ~pops
            if symbols:
                self.rows[node] += [(symbols, does) for does in self.read(node, configurations)]

    def pop_all(self, node: int, contexts: int, symbols: int) -> None:
        """Let symbols be looked at again after the frames of some contexts are popped."""
        spend((POP_STEPS + self.mask_steps) * contexts.bit_count())
        for context in bits(contexts & ~(1 << BOTTOM)):
            key = node, self.context_frame[context]
            return_state = self.return_state.get(key)
            if return_state is None:
                return_state = self.return_state[key] = self.node(self.after_pop(node, self.frames[key[1]]))
            self.ask(return_state, symbols)
            self.popped_to[context][return_state] = None
            self.add_tops(return_state, self.below[context])

    def after_pop(self, node: int, frame: Frame) -> frozenset[Configuration]:
        """Give the configurations of a node a frame back."""
        plan = self.plans[node]
        assert plan is not None
        if self.split:
            spend(len(frame) * len(plan.ending))
            return frozenset([(below[-1], below[:-1], c) for below in frame for c in plan.ending])
        return self.planner.after_pop(self.nodes[node], frame, plan.pops)

    def read(self, node: int, configurations: frozenset[Configuration]) -> tuple[int, ...]:
        """Return what reading a symbol does, after which these are possible."""
        found = self.results.get(configurations)
        spend(2 + len(configurations))
        if found is None:
            found = self.results[configurations] = self.settled(configurations)
        for does in found:
            self.follow(node, does)
        return found

    def follow(self, node: int, does: int) -> None:
        """Go on after what reading a symbol does in a node."""
        if PushdownStep.is_state(does):
            if does != FINISHED:
                self.next_nodes[node][does] = None
                self.ask(does, self.every)
                self.add_tops(does, self.tops[node])
            return
        move = PushdownStep.move(does)
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
        found = self.planner.possible(configurations)
        spend(len(found) * (1 + min([len(stack) for _, stack, _ in found])))
        if not self.split:
            return (self.pushing(*shared_frames(found)),)
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
        return PushdownStep.push(move)

    def frame(self, frame: Frame) -> int:
        """Return the number of a frame."""
        found = self.frame_number.setdefault(frame, len(self.frames))
        if found == len(self.frames):
            self.frames.append(frame)
        return found
