"""Which configurations are needless beside others, because the others can do whatever they can.

A state simulates another one if it can read, call and end whatever the other can, and what it then leads to simulates what the
other one leads to. The automata of rules are deterministic, so pairs of states are followed together.

By hand, for `s ::= "i" s ("e" s)? | "x"`: after `ii`, the `e` may belong to either `i`. With the stacks written innermost last,
`(s, [after])` and `(s, [after, after])` are both alive; the second one can drop its innermost frame without reading, because a
rule may end in `after`, and so it can do all that the first one can. The first one is dropped, and every text stays possible.

Which frames all configurations of a set share: these are pushed, and the set goes on without them.

By hand: `{(p, [f, g]), (q, [f])}` shares `f`; `{(q, [f]), (q, [g, h])}` is `q` on one frame, the set of stacks `{[f], [g, h]}`.
"""

from __future__ import annotations

from typing import TypeAlias

from logitkit.compiler.grammars.stack_machine import TAIL, StackMachine

__all__ = ["Configuration", "Frame", "Simulation", "after_reading", "shared_frames"]

# A set of alternative stacks.
Frame: TypeAlias = frozenset[tuple[int, ...]]


def shared_frames(found: set[Configuration]) -> tuple[list[Frame], set[Configuration]]:
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


# A state, the frames on top of those that all configurations share (innermost last), and conditions that are still open.
Configuration: TypeAlias = tuple[int, tuple[int, ...], frozenset[int]]

# Pairs of states that are compared for one question.
MOST_PAIRS = 2000


def after_reading(better: dict[int, int], worse: dict[int, int]) -> list[tuple[int, int]] | None:
    """Return the pairs of states after the symbols that a state reads, or None if another one does not read all of them.

    Args:
        better: Where the other one goes, and with which symbols, as masks.
        worse: Where the state goes.
    """
    found: list[tuple[int, int]] = []
    for target, mask in worse.items():
        left = mask
        for other, symbols in better.items():
            if symbols & left:
                left &= ~symbols
                found.append((other, target))
        if left:
            return None
    return found


class Simulation:
    """Compares states of a machine, and remembers."""

    def __init__(self, machine: StackMachine) -> None:
        self.machine = machine
        self.known: dict[tuple[int, int], bool] = {}
        self.work = 0

    def simulates(self, better: int, worse: int) -> bool:
        """Whether a state can do whatever another one can, with any stack."""
        if better == worse:
            return True
        if (better, worse) not in self.known:
            seen = {(better, worse)}
            todo = [(better, worse)]
            holds = True
            while todo and holds:
                pair = todo.pop()
                self.work += 10
                found = self._after(*pair)
                holds = found is not None and len(seen) < MOST_PAIRS
                for following in found or ():
                    if following[0] != following[1] and following not in seen and self.known.get(following) is not True:
                        seen.add(following)
                        todo.append(following)
            if holds:
                self.known.update(dict.fromkeys(seen, True))
            else:
                self.known[better, worse] = False
        return self.known[better, worse]

    def _after(self, better: int, worse: int) -> list[tuple[int, int]] | None:
        """Return the pairs that must hold too, or None if the pair does not hold."""
        machine = self.machine
        if (machine.final[worse] and not machine.final[better]) or self.known.get((better, worse)) is False:
            return None
        found = after_reading(machine.moves[better], machine.moves[worse])
        if found is None:
            return None
        for mine, theirs in (
            (machine.calls[worse], dict(machine.calls[better])),
            (machine.looks[worse], dict(machine.looks[better])),
        ):
            for label, target in mine:
                if label not in theirs or (target != theirs[label] and TAIL in (target, theirs[label])):
                    return None
                found.append((theirs[label], target))
        return found

    def without_needless(self, configurations: set[Configuration]) -> set[Configuration]:
        """Drop each configuration that another one makes needless; those with shorter stacks first."""
        final = self.machine.final
        poppable = {}
        for state, stack, conditions in configurations:
            popped = [(state, len(stack))]
            while popped[-1][1] and final[popped[-1][0]]:
                at = popped[-1][1] - 1
                popped.append((stack[at], at))
            poppable[state, stack, conditions] = popped
        left = dict.fromkeys(configurations)
        self.work += 5 * len(left) ** 2
        for needless in sorted(configurations, key=lambda c: (len(c[1]), c[0], c[1], sorted(c[2]))):
            state, stack, conditions = needless
            depth = len(stack)
            for other in left:
                if other is needless or other[1][:depth] != stack or not other[2] <= conditions:
                    continue
                if not all(final[frame] for frame in other[1][depth:]) and poppable[other][-1][1] > depth:
                    continue
                # Where it drops frames first, what is left of them must be droppable too.
                if any(
                    at >= depth and all(final[f] for f in other[1][depth:at]) and self.simulates(t, state)
                    for t, at in poppable[other]
                ):
                    del left[needless]
                    break
        return set(left)
