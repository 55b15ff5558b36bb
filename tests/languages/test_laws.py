"""Laws of combinations: languages that are equal allow the same tokens after every sequence of tokens."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.languages import (
    Language,
    any_text,
    dispatch,
    either,
    json_schema,
    literal,
    optional,
    regex,
    repeat,
    sequence,
    special,
    tag,
)
from logitkit.languages.combined import InOrder
from logitkit.languages.free_text import AnyText
from logitkit.protocol.state import select
from logitkit.runtime.constraint import Constraint
from tests.examples import examples
from tests.languages.comparison import accepts, masks_of, rows_of
from tests.languages.random_languages import languages
from tests.languages.vocabularies import BYTES, GAPS, JSON, NAMED, SPELLED

vocabularies = st.sampled_from([NAMED, SPELLED, GAPS])
# More states than this are not compared.
MOST = 2000


def constraint_of(language: Language, vocabulary: lk.Vocabulary) -> Constraint | None:
    """Return the constraint of a language, or None if the vocabulary spells none of its texts."""
    try:
        return language.constraint(vocabulary)
    except PatternTooLarge:
        assume(False)
    except ConfigurationError:
        pass
    return None


def same(one: Language, other: Language, vocabulary: lk.Vocabulary) -> bool:
    """Whether two languages allow the same tokens, wherever the tokens lead."""
    first, second = constraint_of(one, vocabulary), constraint_of(other, vocabulary)
    if first is None or second is None:
        return first is second
    context = lk.Context.of([[]], vocabulary.size)
    states = first.init_state(context), second.init_state(context)
    met = set(zip(*map(rows_of, states), strict=True))
    while True:
        context = lk.Context.of([[]] * len(states[0].left), vocabulary.size)
        masks = masks_of(first, states[0], context)
        if not torch.equal(masks, masks_of(second, states[1], context)):
            return False
        masks[:, list(vocabulary.eos_ids)] = False
        rows, tokens = masks.nonzero(as_tuple=True)
        if not len(rows):
            return True
        states = first.advance(select(states[0], rows), tokens), second.advance(select(states[1], rows), tokens)
        pairs = list(zip(*map(rows_of, states), strict=True))
        fresh = {pair: row for row, pair in enumerate(pairs) if pair not in met}
        met |= fresh.keys()
        if not fresh:
            return True
        if len(met) >= MOST:
            assume(False)
        chosen = torch.tensor(list(fresh.values()))
        states = select(states[0], chosen), select(states[1], chosen)


@settings(max_examples=examples(30))
@given(languages(), languages(), languages(), vocabularies)
def test_sequence_is_associative(x: Language, y: Language, z: Language, vocabulary: lk.Vocabulary) -> None:
    flat = sequence(x, y, z)
    assert same(sequence(sequence(x, y), z), flat, vocabulary)
    assert same(sequence(x, sequence(y, z)), flat, vocabulary)


@settings(max_examples=examples(30))
@given(languages(), vocabularies)
def test_the_empty_text_is_the_identity(x: Language, vocabulary: lk.Vocabulary) -> None:
    assert sequence(x) == either(x) == x
    assert same(sequence(x, literal("")), x, vocabulary)
    assert same(sequence("", x), x, vocabulary)
    assert same(InOrder((x,)), x, vocabulary)
    assert same(sequence(x, sequence()), x, vocabulary)


@settings(max_examples=examples(16))
@given(languages(), languages(), languages(), vocabularies)
def test_either_is_a_union(x: Language, y: Language, z: Language, vocabulary: lk.Vocabulary) -> None:
    assert same(either(x, y), either(y, x), vocabulary)
    assert same(either(x, either(y, z)), either(either(x, y), z), vocabulary)
    assert same(either(x, x), x, vocabulary)
    assert same(sequence(x, either(y, z)), either(sequence(x, y), sequence(x, z)), vocabulary)
    assert same(sequence(either(x, y), z), either(sequence(x, z), sequence(y, z)), vocabulary)


@settings(max_examples=examples(30))
@given(languages(), languages(), vocabularies)
def test_repetitions_unrolled(x: Language, between: Language, vocabulary: lk.Vocabulary) -> None:
    assert same(optional(x), either(x, ""), vocabulary)
    assert same(repeat(x, 0, 0), literal(""), vocabulary)
    assert same(repeat(x, 1, 1, between), x, vocabulary)
    assert same(repeat(x, 1), sequence(x, repeat(x)), vocabulary)
    assert same(repeat(x), optional(repeat(x, 1)), vocabulary)
    assert same(repeat(x, 2, 3), sequence(x, x, optional(x)), vocabulary)
    assert same(repeat(x, 1, None, between), sequence(x, repeat(sequence(between, x))), vocabulary)
    assert same(repeat(x, 0, 2, between), either("", x, sequence(x, between, x)), vocabulary)


@settings(max_examples=examples(30))
@given(languages(), vocabularies)
def test_tags(x: Language, vocabulary: lk.Vocabulary) -> None:
    if not isinstance(x, AnyText):
        assert same(tag("<", x, ">"), sequence("<", x, ">"), vocabulary)
    assert same(tag("<", any_text(), "b>"), sequence("<", any_text("b>")), vocabulary)
    found = dispatch({"<t": tag("<t", x, ">")}, at_least=1, stop_after_first=True, exclude="b")
    assert same(found, sequence(any_text("<t", exclude="b"), x, ">"), vocabulary)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "array", "items": {"type": "null"}},
    {"type": "array", "maxItems": 0},
    {"enum": [{"a": True}, []]},
]
# Short enough that one often begins another one of another list.
BEGINS = st.lists(
    st.text("ab<", min_size=1, max_size=2).map(lambda text: text + ":"), min_size=4, max_size=6, unique=True
)
# Some begin like a JSON value, like each other, or outside of ASCII.
ODD = st.lists(st.text('ab<\u00e9\u00e8[{",', min_size=1, max_size=5), min_size=4, max_size=6)
ITEMS = st.lists(st.sampled_from(SCHEMAS), min_size=6, max_size=6)


@settings(max_examples=examples(60), deadline=None)
@given(st.one_of(BEGINS, ODD), BEGINS, ITEMS, st.data())
def test_options_that_begin_with_texts(
    begins: list[str], others: list[str], schemas: list[dict[str, Any]], data: st.DataObject
) -> None:
    (together, grouped), (second, second_grouped) = (_options(one, schemas) for one in (begins, others))
    assert same(together, grouped, JSON)
    value = json_schema({"type": ["array", "string"], "items": {"type": "null"}, "maxLength": 1})
    around = data.draw(
        st.sampled_from(
            [
                lambda x, y: either(regex("[ab<]*|\u00e9"), x),
                lambda x, y: repeat(x, 1, 2, "<"),
                lambda x, y: either(x, value),
                either,
                lambda x, y: either(x, sequence("a", y)),
                lambda x, y: sequence(x, optional(y)),
                lambda x, y: _in_text(x),
            ]
        )
    )
    assert same(around(together, second), around(grouped, second_grouped), JSON)


def test_options_that_end_like_a_label() -> None:
    """After the bracket of an array whose items a row remembers, a label such as `*1000000` is read until it is taken out."""
    array = json_schema({"type": "array", "uniqueItems": True, "items": {"type": "string"}})
    after = sequence(repeat(json_schema({"type": "string"}), separator=","), "]")
    options = either(*(sequence(f"{begin}1000000", after) for begin in "abcd"))
    # The bracket alone is a text too, so the array is written in place, in the automaton that reads the options.
    constraint = either(array, "[", options).constraint(BYTES)
    expected = {
        b'a1000000"x","x"]': True,
        b"d1000000]": True,
        b'["x","y"]': True,
        b"[": True,
        b'["x","x"]': False,
        b'a"x"]': False,
        b'a1"x"]': False,
        b"a1000001]": False,
    }
    assert {text: accepts(constraint, text) for text in expected} == expected


def _options(begins: list[str], schemas: list[dict[str, Any]]) -> tuple[Language, Language]:
    """Return options that begin with texts, all together, and in groups of which each is too small for words."""
    options = [sequence(begin, json_schema(schema)) for begin, schema in zip(begins, schemas, strict=False)]
    return either(*options), either(either(*options[:3]), either(*options[3:]))


def _in_text(language: Language) -> Language:
    return dispatch({"<t": sequence("<t", language)}, at_least=1, stop_after_first=True)


def test_languages_that_differ_are_told_apart() -> None:
    """Or the tests above would show nothing."""
    pairs: list[tuple[Language | str, Language | str]] = [
        ("a", "b"),
        ("a", "ab"),
        ("a", optional("a")),
        (any_text("<t>"), any_text(special("<t>"))),
    ]
    for one, other in pairs:
        assert not same(sequence(one, "b"), sequence(other, "b"), NAMED)
    assert not same(repeat("a", 1, 3), repeat("a", 1, 4), NAMED)
    assert not same(literal("é"), literal("a"), NAMED)
    assert same(literal("t"), literal("tt"), GAPS), "neither can be spelled"
