"""Trees whose parts are joined by a graph."""

from __future__ import annotations

from itertools import product

import pytest

from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import Concat, Empty, Graph, parse

# Optional members a, bb, c? in order, with commas between them; the last may itself be empty.
A, B, C, COMMA = parse("a"), parse("bb"), parse("c?"), parse(",")
LIST = Graph(
    (
        ((A, 3), (Empty(), 1)),
        ((B, 4), (Empty(), 2)),
        ((C, 5),),
        ((COMMA, 1),),
        ((COMMA, 2),),
        (),
    ),
    (False, False, False, True, True, True),
)


@pytest.mark.parametrize("around", ["{}", "<{}>"])
def test_a_graph_reads_what_its_paths_spell(around: str) -> None:
    tree = LIST if around == "{}" else Concat((parse("<"), LIST, parse(">")))
    dfa = byte_dfa_of(tree, DEFAULT_LIMITS)
    spelled = {"", "a", "bb", "c", "a,", "a,bb", "a,c", "bb,", "bb,c", "a,bb,", "a,bb,c"}
    for length in range(7):
        for special_tokens in product("abc,", repeat=length):
            text = "".join(special_tokens)
            assert dfa.accepts(around.format(text).encode()) == (text in spelled), text


def test_a_loop_through_nothing_ends() -> None:
    tree = Graph((((Empty(), 1), (A, 0)), ((Empty(), 0),)), (False, True))
    dfa = byte_dfa_of(tree, DEFAULT_LIMITS)
    assert [dfa.accepts(text) for text in (b"", b"aaa", b"b")] == [True, True, False]


def test_many_optional_parts_are_few_positions_or_refused() -> None:
    names = [f"{i:03}" for i in range(300)]
    row = [((parse(name), i + 1), (Empty(), i + 1)) for i, name in enumerate(names)]
    tree = Graph((*row, ()), (*[False] * 300, True))
    assert byte_dfa_of(tree, DEFAULT_LIMITS).accepts("".join(names[::3]).encode())
    with pytest.raises(PatternTooLarge):
        byte_dfa_of(tree, Limits(work=20_000))
