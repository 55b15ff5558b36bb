"""What the trees of rules may hold, and which rules have the empty text."""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Graph, Look, Machine, Node, Repeat

__all__ = ["check_trees", "nullable_rules"]

# Functions that walk a tree call themselves up to three times per level.
DEEPEST_TREE = 200


def _inside(tree: Node) -> Iterator[Node]:
    match tree:
        case Concat(inside) | Alternate(inside):
            yield from inside
        case Repeat(node):
            yield node
        case Graph(moves):
            yield from (node for row in moves for node, _ in row)
        case _:
            return


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
                case Call(definition):
                    if not 0 <= definition < count:
                        raise GrammarError(f"rule {rule} calls rule {definition}, but the grammar has {count} rules")
                    calls[definition] = None
                case Look(Characters(), False, True) | Empty() | Machine():
                    pass
                case Concat() | Alternate() | Repeat() | Graph():
                    todo.extend([(node, depth + 1) for node in _inside(tree)])
                case _:
                    raise GrammarError(f"rule {rule} has a node {type(tree).__name__}, which rules may not have")
        limits.spend(4 * len(deepest))
        called.append(list(calls))
    return called


def nullable_rules(rules: Rules, called: list[list[int]], limits: Limits) -> set[int]:
    """Return the rules that have the empty text, without a condition on what follows."""
    callers: list[list[int]] = [[] for _ in called]
    for rule, calls in enumerate(called):
        for callee in calls:
            callers[callee].append(rule)
    found: set[int] = set()
    todo = list(range(len(called)))[::-1]
    while todo:
        rule = todo.pop()
        if rule in found:
            continue
        known: dict[int, bool] = {}
        if _nullable(rules.bodies[rule], found, known):
            found.add(rule)
            todo.extend(callers[rule])
        limits.spend(3 * len(known) + 3)
    return found


def _nullable(tree: Node, found: set[int], known: dict[int, bool]) -> bool:
    match tree:
        case Characters() | Look():
            return False
        case Empty():
            return True
        case Call(definition):
            return definition in found
        case Machine(_, accepting):
            return accepting[0]
    if id(tree) in known:
        return known[id(tree)]
    match tree:
        case Concat(parts):
            answer = all(_nullable(part, found, known) for part in parts)
        case Alternate(options):
            answer = any(_nullable(option, found, known) for option in options)
        case Repeat(node, minimum):
            answer = minimum == 0 or _nullable(node, found, known)
        case Graph(moves, accepting):
            reached = {0: None}
            todo = [0]
            while todo:
                row = moves[todo.pop()]
                fresh = [t for node, t in row if t not in reached and _nullable(node, found, known)]
                reached.update(dict.fromkeys(fresh))
                todo.extend(fresh)
            answer = any(accepting[state] for state in reached)
        case _:
            raise AssertionError(type(tree).__name__)
    known[id(tree)] = answer
    return answer
