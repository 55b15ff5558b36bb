"""The rules of a context-free grammar, as syntax trees that call each other, and which rules have a text of some kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.construction import inside
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

__all__ = ["Rules", "check_trees", "deriving", "nullable_rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """A context-free grammar.

    A tree may contain `Call(i)`, a text of rule `i`, in any place and any number, so rules may be ambiguous, nullable, and left-
    or right-recursive. The symbol `Symbol.special_token(i)` stands for special token `i` of `special_tokens`.
    A negative `Look` ahead for one character may stand anywhere: the text after this place must not begin with such a
    character. Readers use it for the longest match of a lexer. There are no other assertions and no atomic groups: a reader
    compiles patterns that have them to a `Machine`.

    Args:
        bodies: The tree of each rule.
        start: The rule of the whole text.
        special_tokens: The ids of special tokens, which stand for themselves and not for their texts. `OTHERS` stands for all ids
            without text that are not listed.
    """

    bodies: tuple[Node, ...]
    start: int = 0
    special_tokens: tuple[int, ...] = ()


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

    Args:
        bodies: The tree of each rule.
        holds: Tells whether it holds for a leaf. Atomic groups and assertions are leaves too.
        limits: Bounds on the work.
    """
    goals = _Goals(len(bodies), holds)
    for rule, body in enumerate(bodies):
        goals.wait(rule, body)
    goals.take_trees()
    limits.spend(3 * len(goals.missing))
    goals.meet()
    return [count <= 0 for count in goals.missing[: len(bodies)]]


class _Goals:
    """Trees as goals: a sequence waits for all of its parts, a choice for one of its options, and a call for its rule.

    A goal that waits for nothing any more has been met, and everybody who waited for it waits for one less.

    Args:
        rules: The number of rules, whose goals come first.
        holds: Tells whether something holds for a leaf.
    """

    def __init__(self, rules: int, holds: Callable[[Node], bool]) -> None:
        self.holds = holds
        # For each goal, how many others it waits for, and who waits for it.
        self.missing, self.waits = [1] * rules, [list[int]() for _ in range(rules)]
        # By identity, since a node may stand in trees many times.
        self.of_tree: dict[int, int] = {}
        self.trees: list[Node] = []
        # The goals that wait for one less, as often as they do.
        self.met: list[int] = []

    def add(self, count: int) -> int:
        """Add a goal that waits for some others."""
        self.missing.append(count)
        self.waits.append([])
        return len(self.missing) - 1

    def wait(self, waiting: int, tree: Node) -> None:
        """Let a goal wait for a tree."""
        if isinstance(tree, Call):
            self.waits[tree.rule].append(waiting)
        elif isinstance(tree, Concat | Alternate | Repeat | Graph):
            if id(tree) not in self.of_tree:
                self.of_tree[id(tree)] = self.add(len(tree.parts) if isinstance(tree, Concat) else 1)
                self.trees.append(tree)
            self.waits[self.of_tree[id(tree)]].append(waiting)
        elif self.holds(tree):
            self.met.append(waiting)

    def take_trees(self) -> None:
        """Let the trees that are waited for wait for what is inside of them."""
        while self.trees:
            tree = self.trees.pop()
            number = self.of_tree[id(tree)]
            match tree:
                case Repeat(_, 0):
                    self.met.append(number)
                case Graph():
                    self.take_graph(number, tree)
                case _:
                    for part in inside(tree):
                        self.wait(number, part)

    def take_graph(self, number: int, graph: Graph) -> None:
        """Let a graph wait for its first state, a state for one of its steps, and a step for its label and its target."""
        states = [self.add(1) for _ in graph.moves]
        self.waits[states[0]].append(number)
        self.met.extend([state for state, accepts in zip(states, graph.accepting, strict=True) if accepts])
        for state, row in zip(states, graph.moves, strict=True):
            for label, target in row:
                step = self.add(2)
                self.waits[step].append(state)
                self.waits[states[target]].append(step)
                self.wait(step, label)

    def meet(self) -> None:
        """Meet all goals that wait for nothing."""
        while self.met:
            number = self.met.pop()
            self.missing[number] -= 1
            if self.missing[number] == 0:
                self.met.extend(self.waits[number])
