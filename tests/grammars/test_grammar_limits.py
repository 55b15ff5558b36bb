"""Hostile grammars end with little work: those that grow with their number of rules, and those that grow by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logitkit.budget import one_budget, spent
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.syntax import Call, Node, Repeat
from tests.grammars.pushdowns import accepts
from tests.grammars.test_pushdown_dfa import either, one_of, sequence

COUNT = 10_000


def nested(node: Node, levels: int, maximum: int) -> Node:
    for _ in range(levels):
        node = Repeat(node, 0, maximum)
    return node


def tower(levels: int) -> tuple[Node, ...]:
    rules: list[Node] = []
    for doubled in range(0, 3 * levels, 3):
        rules += [
            sequence(Call(doubled + 1), Call(doubled + 1)),
            Repeat(either(Call(doubled + 2), Call(0)), 0, 1),
            sequence(*(Repeat(part, 0, None) for part in (one_of("a"), Call(doubled + 3), one_of("b")))),
        ]
    return *rules, Repeat(one_of("abcdefghijklmnopqrstuvwxyz"), 0, None)


HOSTILE: dict[str, Callable[[], tuple[Node, ...]]] = {
    "chain": lambda: (*(either(sequence("a", Call(i + 1)), "b") for i in range(COUNT)), one_of("c")),
    "names of names": lambda: (*(Call(i + 1) for i in range(COUNT)), one_of("c")),
    "mutual": lambda: tuple(
        either(sequence("(", Call((7 * i + 1) % COUNT), ")", Call((13 * i + 5) % COUNT)), "b") for i in range(COUNT)
    ),
    "left-recursive": lambda: tuple(either(sequence(Call((i + 1) % COUNT), "a"), "b") for i in range(COUNT)),
    "doubled": lambda: (*(sequence(Call(i + 1), Call(i + 1)) for i in range(60)), one_of("c")),
    "doubled, of an optional letter": lambda: (
        *(sequence(Call(i + 1), Call(i + 1)) for i in range(75)),
        Repeat(one_of("c"), 0, 1),
    ),
    "doubled, optional and repeated": lambda: tower(10),
    "counts of counts": lambda: (nested(Repeat(one_of("abc"), 0, None), 3, 99),),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars_are_refused(name: str) -> None:
    rules, limits = Rules(HOSTILE[name]()), Limits()
    with one_budget(limits.work):
        with pytest.raises(PatternTooLarge):
            pushdown_dfa(rules, limits)
        # Steps are counted before they are made, those of all rules or all contexts at once.
        assert spent() < 1.5 * limits.work


def test_optional_parts_may_be_nested_deeply() -> None:
    tree: Node = one_of("a")
    for _ in range(60):
        tree = Repeat(sequence("a", tree), 0, 1)
    limits = Limits()
    with one_budget(limits.work):
        dfa = pushdown_dfa(Rules((tree,)), limits)
        assert spent() < 50_000
    assert accepts(dfa, b"a" * 59)
    assert not accepts(dfa, b"a" * 62)
