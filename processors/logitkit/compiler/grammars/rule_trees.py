"""The nodes that the trees of rules may hold, and which rules have a text of some kind, such as the empty one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.inner_trees import inside
from logitkit.patterns.syntax import (
    Alternate,
    Call,
    Characters,
    Concat,
    Empty,
    Graph,
    Look,
    Machine,
    Node,
    Repeat,
)

__all__ = ["check_trees", "deriving", "nullable_rules"]

# Functions that walk a tree call themselves up to three times per level.
DEEPEST_TREE = 200


def check_trees(rules: Rules, limits: Limits) -> list[list[int]]:
    """Check what may stand in the trees, and return the rules that each rule calls.

    Raises:
        GrammarError: A call or the start names a rule that does not exist, or a tree has a node that rules may not have.
        PatternTooLarge: A tree is nested too deeply.
    """
    count = len(rules.bodies)
    if not 0 <= rules.start < count:
        raise GrammarError(f"the start is rule {rules.start}, but the grammar has {count} rules")
    called = []
    for rule, body in enumerate(rules.bodies):
        deepest: dict[int, int] = {}
        calls: dict[int, None] = {}
        todo: list[tuple[Node, int]] = [(body, 1)]
        while todo:
            tree, depth = todo.pop()
            if type(tree) is Characters or deepest.get(id(tree), 0) >= depth:
                continue
            deepest[id(tree)] = depth
            if depth > DEEPEST_TREE:
                raise PatternTooLarge(
                    f"a rule is nested more than {DEEPEST_TREE} levels deep; give its parts names of their own"
                )
            match tree:
                case Call(callee):
                    if not 0 <= callee < count:
                        raise GrammarError(f"rule {rule} calls rule {callee}, but the grammar has {count} rules")
                    calls[callee] = None
                case Look(Characters() | Machine(), False, True) | Empty() | Machine():
                    pass
                case Concat() | Alternate() | Repeat() | Graph():
                    todo.extend([(node, depth + 1) for node in inside(tree)])
                case _:
                    raise GrammarError(f"rule {rule} has a node {type(tree).__name__}, which rules may not have")
        limits.spend(4 * len(deepest))
        called.append(list(calls))
    return called


def nullable_rules(rules: Rules, limits: Limits) -> set[int]:
    """Return the rules that have the empty text, without a condition on what follows."""

    def is_empty(leaf: Node) -> bool:
        return isinstance(leaf, Empty) or (isinstance(leaf, Machine) and leaf.accepting[0])

    return {rule for rule, nullable in enumerate(deriving(rules.bodies, is_empty, limits)) if nullable}


def deriving(bodies: Sequence[Node], holds: Callable[[Node], bool], limits: Limits) -> list[bool]:
    """Return which rules have a text of which something holds for each leaf of the trees, in linear time.

    Trees are goals: a sequence waits for all of its parts, a choice for one of its options, and a call for its rule. A goal that
    waits for nothing any more has been met, and everybody who waited for it waits for one less.

    Args:
        bodies: The tree of each rule.
        holds: Tells whether it holds for a leaf. Atomic groups and assertions are leaves too.
        limits: Bounds on the work.
    """
    # For each goal, rules first, how many others it waits for, and who waits for it.
    missing, waits = [1] * len(bodies), [list[int]() for _ in bodies]
    # By identity, since a node may stand in trees many times.
    goals: dict[int, int] = {}
    trees: list[Node] = []
    # The goals that wait for one less, as often as they do.
    met: list[int] = []

    def goal(count: int) -> int:
        missing.append(count)
        waits.append([])
        return len(missing) - 1

    def wait(waiting: int, tree: Node) -> None:
        if isinstance(tree, Call):
            waits[tree.rule].append(waiting)
        elif isinstance(tree, Concat | Alternate | Repeat | Graph):
            if id(tree) not in goals:
                goals[id(tree)] = goal(len(tree.parts) if isinstance(tree, Concat) else 1)
                trees.append(tree)
            waits[goals[id(tree)]].append(waiting)
        elif holds(tree):
            met.append(waiting)

    for rule, body in enumerate(bodies):
        wait(rule, body)
    while trees:
        tree = trees.pop()
        number = goals[id(tree)]
        match tree:
            case Repeat(_, 0):
                met.append(number)
            case Graph(moves, accepting):
                states = [goal(1) for _ in moves]
                waits[states[0]].append(number)
                met.extend([state for state, accepts in zip(states, accepting, strict=True) if accepts])
                for state, row in zip(states, moves, strict=True):
                    for label, target in row:
                        step = goal(2)
                        waits[step].append(state)
                        waits[states[target]].append(step)
                        wait(step, label)
            case _:
                for part in inside(tree):
                    wait(number, part)
    limits.spend(3 * len(missing))
    while met:
        number = met.pop()
        missing[number] -= 1
        if missing[number] == 0:
            met.extend(waits[number])
    return [count <= 0 for count in missing[: len(bodies)]]
