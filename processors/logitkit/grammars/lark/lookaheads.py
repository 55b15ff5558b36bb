r"""Lookaheads at the beginning of a terminal, such as `/(?!true|false|null)[a-z]+/`.

The terminal `/(?!X)Y/` reads a text of Y unless the text, together with what follows it, begins with a text of X. So it has
three parts:

1. The texts of Y that do not begin with a text of X: the intersection of Y with the complement of `X.*`.
2. A text of Y with which a text of X may begin must not be followed by the rest of it.
3. Nothing else is forbidden.

By hand, for `/(?!true)[a-z]+/`: `true` and `truest` are not texts, and `tru` is one that no `e` follows.

The rest in 2 is known if it has few texts. Otherwise, a lexer decides most cases: where `/(?![a-z]*x)[a-z]+/` has read `a`, it
reads on as long as letters follow, so it does not end before one. In `/(?!.*--)[a-z-]+/`, the condition is about all text after
the terminal, however far away, so it is refused. With `&` and `~`, the author can say which text a condition is about.

`/(?=X)Y/` is a text of both Y and `X.*`. A text of Y that needs what follows it to be one of `X.*` is not one by itself: if a
lexer reads on there, it is left out, and refused otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from logitkit.grammars.lark.continuations import Continuation
from logitkit.grammars.lark.lexeme import EdgeAssertion, Lexeme
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Concat, Look, Machine, Node

__all__ = ["LeadingLookaheads", "leading_lookaheads", "looking_ahead"]


class LeadingLookaheads(NamedTuple):
    """A terminal that begins with lookaheads.

    Args:
        conditions: For each lookahead, the tree that it looks for from the beginning, and whether it is negative.
        rest: The terminal without them.
    """

    conditions: tuple[tuple[Node, bool], ...]
    rest: Node


def leading_lookaheads(tree: Node) -> LeadingLookaheads | None:
    """Take the lookaheads off the beginning of a tree; None if it has none.

    Single characters may stand before a lookahead, as in `/"(?!x)[a-z]+"/`: it then looks for these characters too.

    Example:
        >>> from logitkit.patterns import parse
        >>> found = leading_lookaheads(parse("a(?!b)c"))
        >>> found.conditions == ((parse("ab"), True),), found.rest == parse("ac")
        (True, True)
    """
    parts = _flat(tree)
    conditions, before = list[tuple[Node, bool]](), list[Node]()
    while parts:
        part = parts[0]
        if isinstance(part, Look) and not part.behind:
            conditions.append((concatenate([*before, part.node]), part.negative))
        elif isinstance(part, Characters):
            before.append(part)
        else:
            break
        parts.pop(0)
    return LeadingLookaheads(tuple(conditions), concatenate([*before, *parts])) if conditions else None


def _flat(tree: Node) -> list[Node]:
    """Return the parts of a tree, with those of parts inside of it."""
    done, todo = list[Node](), [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, Concat):
            todo.extend(reversed(node.parts))
        else:
            done.append(node)
    return done


# The costs of a pair of states, and of a pair of transitions.
_STATE_STEPS, _PAIR_STEPS = 20, 10

# Instead of a state of the automaton of a condition: what it looks for cannot be found any more, or has been found.
_NEVER, _FOUND = -1, -2


def looking_ahead(rest: Lexeme, condition: Lexeme, negative: bool, any_split: bool, limits: Limits) -> Lexeme:
    """Return the texts of a terminal that satisfy a lookahead at its beginning.

    Args:
        rest: The terminal without the lookahead.
        condition: The texts that the lookahead looks for.
        negative: Whether one must not be found.
        any_split: Whether terminals split a text in any way, so that one may end where it could go on.
        limits: Bounds on the automata.

    Raises:
        EdgeAssertion: Whether a text is allowed depends on text after it that is not known.
        PatternTooLarge: A limit is exceeded.
    """
    if any(condition.forbidden) and (any_split or not negative):
        raise EdgeAssertion("looks for a text whose end looks ahead too")
    pairs = [(0, _found(condition, 0))]
    number = {pairs[0]: 0}
    moves: list[list[tuple[CharSet, int]]] = []
    forbidden: list[Continuation | None] = []
    for state, beside in pairs:
        limits.check_states(len(pairs))
        limits.spend(_STATE_STEPS)
        mine, row = rest.forbidden[state], list[tuple[CharSet, int]]()
        moves.append(row)
        if beside == (_FOUND if negative else _NEVER):
            forbidden.append(None)
            continue
        left = rest.machine.moves[state]
        end = condition.forbidden[beside] if beside >= 0 else None
        if end is not None:
            # It has been found if the next character may follow it.
            mine, left = None, tuple([(charset & end.now, target) for charset, target in left])
        elif mine is not None and beside >= 0:
            goes_on = CharSet.union([charset for charset, target in left if rest.forbidden[target] is not None])
            mine = _forbidden(mine, condition, beside, negative, CharSet() if any_split else goes_on, limits)
        forbidden.append(mine)
        for charset, target in left:
            for part, after in _steps(charset, condition, beside, limits):
                pair = (target, after)
                if pair not in number:
                    number[pair] = len(pairs)
                    pairs.append(pair)
                row.append((part, number[pair]))
    return _without_dead_ends(moves, forbidden)


def _found(condition: Lexeme, state: int) -> int:
    """Return a state of a condition, or that it has been found there, whatever follows."""
    end = condition.forbidden[state]
    return _FOUND if end is not None and not end else state


def _steps(charset: CharSet, condition: Lexeme, beside: int, limits: Limits) -> list[tuple[CharSet, int]]:
    """Split a set of characters by the states of a condition that they lead to."""
    if beside < 0:
        return [(charset, beside)] if charset else []
    found: list[tuple[CharSet, int]] = []
    for read, after in condition.machine.moves[beside]:
        limits.spend(_PAIR_STEPS + len(charset.ranges) + len(read.ranges))
        found.append((charset & read, _found(condition, after)))
        charset = charset - read
    return [(part, after) for part, after in (*found, (charset, _NEVER)) if part]


def _forbidden(
    mine: Continuation, condition: Lexeme, beside: int, negative: bool, goes_on: CharSet, limits: Limits
) -> Continuation | None:
    """Return what must not follow a text with which what is looked for may begin, or None if the text may not end there.

    Args:
        mine: The texts that must not follow it anyway.
        condition: The texts that the lookahead looks for.
        beside: The state of their automaton after the text.
        negative: Whether one must not be found.
        goes_on: The characters with which the terminal goes on to a longer text, so that a lexer does not end it before them.
        limits: Bound on the work.
    """
    machine = condition.machine
    if not negative:
        if CharSet.union([charset for charset, _ in machine.moves[beside]]) - goes_on:
            raise EdgeAssertion("must be followed by the rest of what its lookahead looks for")
        return None
    found = mine
    for charset, target in machine.moves[beside]:
        rest = None if any(condition.forbidden) else Continuation.exactly(machine, target, limits)
        if rest is not None:
            found |= Continuation(CharSet(), ((charset, rest),)) if rest else Continuation(charset)
        elif charset - goes_on:
            raise EdgeAssertion("looks at text after it that has no limit")
        else:
            found |= Continuation(charset)
    return found


def _without_dead_ends(moves: list[list[tuple[CharSet, int]]], forbidden: list[Continuation | None]) -> Lexeme:
    """Return a lexeme of the states from which a text may still end."""
    before = [list[int]() for _ in moves]
    for state, row in enumerate(moves):
        for _, target in row:
            before[target].append(state)
    alive = {state for state, ends in enumerate(forbidden) if ends is not None}
    todo = list(alive)
    while todo:
        fresh = {state for state in before[todo.pop()] if state not in alive}
        alive |= fresh
        todo.extend(fresh)
    number = {state: at for at, state in enumerate(sorted({0, *alive}))}
    rows = [tuple([(charset, number[target]) for charset, target in moves[s] if target in alive]) for s in number]
    ends = tuple([forbidden[state] for state in number])
    return Lexeme(Machine(tuple(rows), tuple([end is not None for end in ends])), ends)
