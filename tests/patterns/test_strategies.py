"""The strategies reach the whole dialect, and texts that match: else what they test would pass unseen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from logitkit.patterns import Alternate, Anchor, Atomic, Concat, Look, Node, Repeat, parse
from tests.patterns.strategies import matches_in_re, patterns, texts_for

DRAWN = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

CONSTRUCTS = {
    "global flags": r"\A\(\?[imsxa]+\)",
    "scoped flags": r"\(\?[imsxau]*-?[imsx]+:",
    "lookahead": r"\(\?=",
    "negative lookahead": r"\(\?!",
    "lookbehind": r"\(\?<=",
    "negative lookbehind": r"\(\?<!",
    "atomic group": r"\(\?>",
    "possessive": r"[*+?}]\+",
    "lazy": r"[*+?}]\?",
    "named group": r"\(\?P<n",
    "comment": r"\(\?#",
    "verbose comment": r"# a comment",
    "counted": r"\{\d,\d\}",
    "anchor": r"\\Z",
    "boundary": r"\\[bB]",
    "negated class": r"\[\^",
    "named character": r"\\N\{",
    "octal": r"\\[0-3][0-7][0-7]",
    "not ASCII": r"[^\x00-\x7f]",
}


def test_every_construct_is_drawn() -> None:
    seen: Counter[str] = Counter()

    @DRAWN
    @given(patterns())
    def draw(pattern: str) -> None:
        seen.update(name for name, written in CONSTRUCTS.items() if re.search(written, pattern))

    draw()
    assert {name for name in CONSTRUCTS if not seen[name]} == set()


def test_texts_match_and_fail() -> None:
    outcomes: Counter[bool] = Counter()

    @DRAWN
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        pattern = data.draw(patterns())
        text = data.draw(texts_for(pattern))
        outcomes[matches_in_re(pattern, text)] += 1

    draw()
    assert min(outcomes[True], outcomes[False]) >= 50


@pytest.mark.parametrize("left_out", ["lookarounds", "anchors", "atomic"])
def test_constructs_can_be_left_out(left_out: str) -> None:
    node = {"lookarounds": Look, "anchors": Anchor, "atomic": Atomic}[left_out]

    @DRAWN
    @given(patterns(**{left_out: False}))
    def draw(pattern: str) -> None:
        assert not any(isinstance(found, node) for found in _nodes(parse(pattern)))

    draw()


def test_flags_can_be_left_out() -> None:
    @DRAWN
    @given(patterns(flags=False))
    def draw(pattern: str) -> None:
        assert not re.search(r"\(\?[imsxau-]", pattern)

    draw()


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Concat(children) | Alternate(children):
            for child in children:
                yield from _nodes(child)
        case Repeat() | Atomic() | Look():
            yield from _nodes(node.node)
