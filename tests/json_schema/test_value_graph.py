"""A value that leads from several places to one state is written once, and the texts stay the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.characters.positions import count_positions, positions_of
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.value_graph import with_values_once
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns.construction import concatenate
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Empty, Graph, Node
from tests.json_schema.acceptance import BYTES, Accepted

TEXTS = [Empty(), *map(parse, ("a", "b", "[ab]"))]
VALUES = [None, *map(parse, ("c", "cd?", "(?:ab|c){2}", "(?:d|)"))]
EDGES = st.tuples(st.sampled_from(TEXTS), st.sampled_from(VALUES), st.integers(0, 3))


@given(st.lists(st.lists(EDGES, max_size=4), min_size=4, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_texts_are_the_same(rows: list[list[tuple[Node, Node | None, int]]], accepting: list[bool]) -> None:
    written = Graph(
        tuple(
            [tuple([(concatenate([text, *([value] if value else [])]), t) for text, value, t in row]) for row in rows]
        ),
        tuple(accepting),
    )
    once = with_values_once(rows, accepting)
    found, expected = (TextLanguage.of_tree(graph, DEFAULT_LIMITS) for graph in (once, written))
    assert (found - expected).is_empty
    assert (expected - found).is_empty
    assert len(found.dfa.moves if found.dfa else ()) == len(expected.dfa.moves if expected.dfa else ())
    assert count_positions(once) <= count_positions(written)


def test_a_value_is_written_once() -> None:
    value = parse("v{9}")
    rows: list[list[tuple[Node, Node | None, int]]] = [
        [(parse(letter), value, 1) for letter in "abcdefgh"],
        [(parse("x"), None, 2)],
        [],
    ]
    once = with_values_once(rows, [False, False, True])
    assert len(positions_of(once, DEFAULT_LIMITS).charsets) == 8 + 9 + 1


def test_members_that_may_be_left_out() -> None:
    """Each of them is read from every state before it, as the branches are merged into one graph."""
    names = "abcdefgh"
    members: dict[str, Any] = {name: {"enum": [[1, 2], [3]]} for name in names}
    schema = {
        "type": "object",
        "properties": members,
        "additionalProperties": False,
        "anyOf": [{"required": ["a"]}, {"required": ["h"]}],
    }
    accepted = Accepted(lk.JsonSchema(schema, BYTES))
    for chosen in range(2 ** len(names)):
        kept = [name for i, name in enumerate(names) if chosen >> i & 1]
        text = "{" + ",".join([f'"{name}":[{"1,2" if name < "d" else "3"}]' for name in kept]) + "}"
        assert accepted.accepts(text.encode()) == ("a" in kept or "h" in kept)
    assert not accepted.accepts(b'{"a":[1]}')
    assert not accepted.accepts(b'{"b":[3],"a":[3]}')
