"""Rules of a limited number of tokens, as automata over bytes see them: states in the rule read signs beside characters.

An automaton over bytes does not know where tokens end. So each state in such a rule exists twice: before the first end of a
token in the rule it is *fresh*, and after that it is *later*. Three signs say so. They are numbered like special tokens, but no
token stands for them:

    fresh    leads from a fresh state to itself
    later    leads from a fresh state to the later one, and from a later state to itself
    end      leads to the end of the rule, from each state in which its text may end when the limit is reached

By hand, for at most 3 tokens of `/[a-z]+/`: the states are the start, F (fresh), L (later) and the end. A letter leads from the
start to F, from F to F and from L to L. `fresh` leads from F to F, `later` from F and L to L, and `end` from F and L to the end.

A set of states that reads `fresh` and comes to itself is in the rule as a whole. If it comes to a smaller set, then other text
may stand there too. `compiler.tokens.limited_rules` turns the signs into counts of tokens.

A larger and a smaller set may read the same, if the rule has all of the other text. Making an automaton minimal would merge
them, so other text in the place of a rule is looked for before. Only the same rule may stand there: where it can go on or begin
again, as in `r*`, its new text has the smaller count, and so allows all that the other one does.

Invariants: rules with the same limit have the same signs. The state before the rule reads none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from logitkit.compiler.bytes.limit_signs import LimitSigns, is_limit, other_text
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.subset import Check
from logitkit.compiler.characters.symbols import Symbol
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import with_inside
from logitkit.patterns.syntax import Characters, Empty, Graph, Look, Machine, Node

__all__ = ["check_alone", "with_signs", "without_signs"]


def without_signs(tree: Node, tokens: Sequence[str | int]) -> Node:
    """Return a tree in which a rule with a limit may end wherever the limit may end it.

    Args:
        tree: The tree.
        tokens: The special tokens of the grammar, by name or id.
    """
    if not isinstance(tree, Characters):
        return with_inside(tree, lambda node: without_signs(node, tokens))
    first = tree.charset.ranges[0][0] if tree.charset else 0
    token = tokens[Symbol.number(first)] if Symbol.is_special_token(first) else 0
    if not isinstance(token, int) or not is_limit(token):
        return tree
    most = LimitSigns.most_of(token)
    return Empty() if most and token == LimitSigns.of(most).end else Characters(CharSet())


def with_signs(tree: Machine | Graph, symbols: Sequence[int], whole: bool = True) -> Graph:
    """Return the tree of a terminal in which the states read the signs of a limit.

    Args:
        tree: A deterministic automaton. Where a condition on the next character follows a text, an edge with it leads to a state
            without moves.
        symbols: The symbols of the signs, in the order of `LimitSigns`.
        whole: Whether a text may also end before the limit is reached.
    """
    fresh, later, end = [Characters(CharSet.single(symbol)) for symbol in symbols]
    rows: list[list[tuple[Node, int]]] = [
        [(label if not isinstance(label, CharSet) else Characters(label), target) for label, target in row]
        for row in tree.moves
    ]
    count = len(rows)
    last = 1 + 2 * count

    def copied(state: int, shift: int) -> list[tuple[Node, int]]:
        return [(node, last if isinstance(node, Look) else shift + target) for node, target in rows[state]]

    moves = [copied(0, 1)]
    for shift in (1, 1 + count):
        for state, row in enumerate(rows):
            found = copied(state, shift)
            if shift == 1:
                found.append((fresh, shift + state))
            found.append((later, 1 + count + state))
            if tree.accepting[state] or any(isinstance(node, Look) for node, _ in row):
                found.append((end, last))
            moves.append(found)
    ends = [whole and accepts for accepts in tree.accepting]
    return Graph((*map(tuple, moves), ()), (ends[0], *ends, *ends, True))


def check_alone(positions: Positions, masks: Sequence[int], signs: Sequence[tuple[int, int]]) -> list[Check]:
    """Return the check that where a rule with a limit may stand, nothing else may, for `determinise`.

    Args:
        positions: The position automaton. After a sign, it reads what it reads beside this sign.
        masks: The symbols that each position reads.
        signs: Each limit, with its signs `fresh` and `later` as a mask.

    Raises:
        ConfigurationError: The check raises this error if other text may stand there too.
    """
    most_of = {p: most for p, mask in enumerate(masks) for most, sign in signs if mask & sign}

    def check(state: tuple[int, ...]) -> None:
        found = [p for p in state if p in most_of]
        if found and not set(state).issubset(chain.from_iterable([positions.follow[p] for p in found])):
            raise other_text(most_of[found[0]])

    return [check] if most_of else []
