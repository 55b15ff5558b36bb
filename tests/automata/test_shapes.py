"""Shapes of tokens: which there are, for which patterns they suffice, and that the classes are the same."""

from __future__ import annotations

import numpy as np
import pytest

from logitkit.compiler.bytes.transition_columns import Moves
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.tokens.effects.column_store import ColumnStore
from logitkit.compiler.tokens.effects.token_classes import classes_by_level, classes_by_shape
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import parse
from logitkit.vocabulary import Vocabulary
from logitkit.vocabulary.shapes import Shapes


def test_tokens_of_one_shape_differ_only_in_letters_of_one_kind_and_beyond_ascii() -> None:
    same = [b"now", b"try"], [b"Fn2", b"An2"], ["é".encode(), "ö".encode()], ["日".encode(), "本".encode()]
    different = [b"red", b"Red", b"r3d", b"r4d", b"red ", "ré".encode(), "日".encode()[:2], "😀".encode()]
    tokens = [None, *(token for pair in same for token in pair), *different]
    shapes = Shapes.of(tokens)
    of_id = shapes.of_id.tolist()
    assert of_id[0] == 0
    pairs = of_id[1:9]
    assert pairs[::2] == pairs[1::2]
    assert len(set(of_id)) == 1 + len(same) + len(different)
    assert len(shapes.trie.node_of_id) == len(set(of_id))


@pytest.mark.parametrize(
    "pattern", [r"[^\n]*", "[A-Za-z_][A-Za-z0-9_]{0,63}", "[0-9a-f-]{36}", r"<([a-z]+)>[^<>]*</[a-z]+>"]
)
def test_shapes_suffice(pattern: str, sentencepiece_32k: Vocabulary) -> None:
    dfa = byte_dfa_of(parse(pattern), DEFAULT_LIMITS)
    assert Shapes.suffice(dfa.byte_class)
    store = ColumnStore(Moves.of(dfa), DEFAULT_LIMITS, 0)
    expected = classes_by_level(store, dfa.byte_class, sentencepiece_32k.trie)
    store = ColumnStore(Moves.of(dfa), DEFAULT_LIMITS, 0)
    found = classes_by_shape(store, dfa.byte_class, sentencepiece_32k)
    assert found.class_of.dtype == expected.class_of.dtype
    assert np.array_equal(found.class_of, expected.class_of)
    for name in ("default", "start", "source", "target"):
        assert np.array_equal(getattr(found.transitions, name), getattr(expected.transitions, name)), name


@pytest.mark.parametrize("pattern", ["yes|no", r"\d", "[é]", r'"(\\u|[^"\\])*"', "[a-y]*"])
def test_shapes_do_not_suffice(pattern: str) -> None:
    assert not Shapes.suffice(byte_dfa_of(parse(pattern), DEFAULT_LIMITS).byte_class)
