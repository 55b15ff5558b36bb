"""Refused languages, with messages that say what to do; and languages as values."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit import languages
from logitkit.errors import ConfigurationError, LogitkitError, PatternTooLarge, VocabularyError
from logitkit.languages import (
    Language,
    any_text,
    choice,
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
from tests.languages.vocabularies import BYTES, JSON, NAMED

# Arguments of types that no type checker lets pass.
ANY: Any = languages
ANYTHING = json_schema(True)

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: ANY.literal(3), "text is 3 of type int; allowed is str"),
    (lambda: literal("a\ud800"), "text has a lone surrogate at position 1"),
    (lambda: choice("ab"), "options is 'ab'; allowed is a list of texts"),
    (lambda: choice([]), "options is empty; give at least one text"),
    (lambda: ANY.choice(["a", 1]), r"options\[1\] is 1 of type int; allowed is str"),
    (lambda: ANY.choice([ANY.regex("a")]), r"of type RegexText; allowed is str, and `either` for languages"),
    (lambda: ANY.regex(3), "pattern is 3 of type int; allowed is str"),
    (lambda: regex("("), "missing \\)"),
    (lambda: regex(r"(a)\1"), "its language is not regular"),
    (lambda: ANY.regex("a", exclude=special("<t>")), "exclude holds a special token, which never occurs"),
    (lambda: regex("a", exclude=["b", ""]), "exclude holds ''; allowed are texts that are not empty"),
    (lambda: special(""), "token is ''; allowed are the name of a special token and a token id"),
    (lambda: ANY.special(True), "token is True; allowed are the name"),
    (lambda: special("\ud800"), "token has a lone surrogate at position 0"),
    (lambda: ANY.any_text(3), r"until is 3; allowed are a text, special\(...\), or a list of these"),
    (lambda: any_text([""]), r"until holds ''; allowed are texts that are not empty, and special\(...\)"),
    (lambda: ANY.any_text(exclude=regex("a")), "exclude is RegexText"),
    (lambda: json_schema(3), "schema is of type int; give a dict"),
    (
        lambda: ANY.json_schema(True, whitespace="wide"),
        "whitespace is 'wide'; allowed are 'compact', 'spaced', 'bounded'",
    ),
    (lambda: ANY.json_schema(True, lax="no"), "lax is 'no'; allowed are True and False"),
    (lambda: ANY.json_schema(True, strict_formats=1), "strict_formats is 1; allowed are True and False"),
    (lambda: ANY.sequence("a", 3), r"parts\[1\] is 3 of type int; allowed are languages of logitkit.languages"),
    (either, "options is empty; give at least one language"),
    (lambda: ANY.either("a", None), r"options\[1\] is None of type NoneType"),
    (lambda: ANY.optional(3), "item is 3 of type int"),
    (lambda: repeat("a", -1), "least is -1; allowed are integers from 0"),
    (lambda: ANY.repeat("a", True), "least is True; allowed are integers from 0"),
    (lambda: repeat("a", 2, 1), "most is 1; allowed are None and integers from 2, which is 'least'"),
    (lambda: ANY.repeat("a", separator=3), "separator is 3 of type int"),
    (lambda: ANY.tag("a", 3, "b"), "content is 3 of type int"),
    (lambda: ANY.tag("a", "b", None), r"parts\[2\] is None"),
    (lambda: dispatch({}), "tags is {}; allowed is a mapping from at least one trigger to its tag"),
    (lambda: ANY.dispatch({3: "a"}), "tags holds 3; allowed are texts that are not empty"),
    (lambda: ANY.dispatch({"a": None}), r"tags\['a'\] is None"),
    (lambda: dispatch({"a": "b"}), "the tag of the trigger 'a' begins with LiteralText"),
    (lambda: dispatch({special("<t>"): "<t>a"}), r"the tag of the trigger special\('<t>'\) begins with LiteralText"),
    (lambda: dispatch({"ab": "ab", "a": "a"}), "the trigger 'ab' contains the trigger 'a', which starts its tag first"),
    (lambda: dispatch({"a": "a"}, at_least=-1), "at_least is -1; allowed are integers from 0"),
    (lambda: dispatch({"a": "a"}, 2, stop_after_first=True), "at_least is 2; allowed are 0 and 1, as the text ends"),
    # Arguments of a constraint.
    (lambda: ANY.literal("a").constraint(3), "vocabulary is of type int; give a logitkit.Vocabulary"),
    (lambda: literal("a").constraint(lk.Vocabulary([b"a"], [])), "the vocabulary has no EOS id"),
    (
        lambda: special("<x>").constraint(NAMED),
        r"no token '<x>'; its special tokens are: '<t>', '<e>', '<o>'. Use literal",
    ),
    (lambda: any_text(special("<x>")).constraint(NAMED), "the vocabulary has no token '<x>'"),
    (lambda: special(-1).constraint(NAMED), "there is no token -1; allowed are ids from 0 to 16"),
    (lambda: special(10**30).constraint(NAMED), "allowed are ids from 0 to 16"),
    (lambda: literal("z").constraint(NAMED), "the tokens of the vocabulary spell no text that the language matches"),
    (lambda: regex("ab", exclude="b").constraint(BYTES), "the language matches no text at all"),
    (lambda: any_text("a", exclude="a").constraint(BYTES), "the language matches no text at all"),
    (lambda: dispatch({"a": "a"}, 1, exclude="a").constraint(BYTES), "the language matches no text at all"),
    (lambda: json_schema(False).constraint(BYTES), "no value satisfies the schema"),
    (lambda: any_text("<t>" * 9).constraint(NAMED), "has more than 8 special tokens in it; give it in parts"),
    (lambda: ANY.literal("a").constraint(NAMED, closing="x"), "closing is 'x'; allowed are a maximum number of tokens"),
    (lambda: literal("a").constraint(NAMED, closing=0), "closing is 0; allowed are"),
    (lambda: literal("ab").constraint(NAMED, closing=1), "closing is 1, but the shortest text .* takes 2 tokens"),
    (lambda: ANYTHING.constraint(JSON, max_depth=0), "max_depth is 0; allowed are integers from 1 to 1024"),
    (lambda: ANY.json_schema(True).constraint(JSON, max_depth=1.5), "max_depth is 1.5; allowed"),
    (lambda: ANYTHING.constraint(JSON, max_depth=10**9), "max_depth is 1000000000; allowed"),
    (lambda: ANY.literal("a").constraint(NAMED, limits=3), "limits is 3"),
    (
        lambda: sequence(any_text(), ANYTHING).constraint(BYTES),
        "a bracket may begin a JSON value .* put a marker before",
    ),
]


@pytest.mark.parametrize(("make", "problem"), REFUSED, ids=[problem for _, problem in REFUSED])
def test_what_makes_no_sense_is_refused(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(LogitkitError, match=problem) as error:
        make()
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "language",
    [
        repeat("a", 0, 10**9),
        repeat("ab", 10**6, 10**6),
        repeat(any_text("b"), 10**30),
        repeat(special("<t>"), 10**6),
        dispatch({"a": "a"}, at_least=10**9),
    ],
    ids=repr,
)
def test_what_takes_too_many_states_is_refused(language: Language) -> None:
    with pytest.raises(PatternTooLarge, match=r"states|steps"):
        language.constraint(NAMED)


SCHEMAS = [{"type": "integer", "maximum": number} for number in range(501)]


@pytest.mark.parametrize(
    "language",
    [
        either(*(sequence(f"<{n}>", json_schema(schema)) for n, schema in enumerate(SCHEMAS))),
        dispatch({f"<{n}>": tag(f"<{n}>", json_schema(schema), "</a>") for n, schema in enumerate(SCHEMAS)}),
    ],
    ids=["either", "dispatch"],
)
def test_too_many_schemas_are_refused_before_any_is_compiled(language: Language) -> None:
    with (
        patch("logitkit.languages.schemas.schema_grammar", side_effect=AssertionError("compiled")),
        pytest.raises(
            PatternTooLarge,
            match=r"501 different schemas in the language; allowed are 500, or more with a larger limits",
        ),
    ):
        language.constraint(BYTES, limits=lk.Limits(states=75_000, work=10**9))


@given(st.lists(st.text("ab<", min_size=1, max_size=6), min_size=1, max_size=6, unique=True))
def test_triggers_that_end_inside_others(triggers: list[str]) -> None:
    inside = any(other in trigger[:-1] for trigger in triggers for other in triggers)
    try:
        dispatch({trigger: trigger for trigger in triggers})
        refused = False
    except ConfigurationError as error:
        refused = "which starts its tag first" in str(error)
    assert refused == inside


@pytest.mark.parametrize("depth", [99, 101, 5000])
def test_languages_in_languages(depth: int) -> None:
    language: Language = literal("a")
    for _ in range(depth):
        language = optional(language)
    if depth < 100:
        assert language.constraint(NAMED).automaton.states > 2
    else:
        with pytest.raises(
            ConfigurationError, match="more than 100 languages inside each other; write repetitions by repeat"
        ):
            language.constraint(NAMED)


def test_a_special_token_that_only_one_vocabulary_has() -> None:
    language = sequence(special("<o>"), "a")
    assert language.constraint(NAMED).own_ids() == (15,)
    with pytest.raises(VocabularyError, match="no token '<o>'; its special tokens are: none"):
        language.constraint(lk.Vocabulary([b"a", None], 1))


ONE_OF_EACH: list[tuple[Callable[[], Language], Callable[[], Language]]] = [
    (lambda: literal("a"), lambda: literal("b")),
    (lambda: choice(["a", "b"]), lambda: choice(["b", "a"])),
    (lambda: regex("a*"), lambda: regex("a*", exclude="aa")),
    (lambda: special("<t>"), lambda: special("<o>")),
    (lambda: any_text("a"), lambda: any_text(exclude="a")),
    (lambda: json_schema({"type": "boolean"}), lambda: json_schema({"type": "null"})),
    (lambda: json_schema(True), lambda: json_schema(True, whitespace="bounded")),
    (lambda: sequence("a", "b"), lambda: either("a", "b")),
    (lambda: repeat("a", 1), lambda: repeat("a", 1, separator="b")),
    (lambda: tag("<", any_text(), ">"), lambda: tag("<", any_text(), "<")),
    (lambda: dispatch({"a": "ab"}), lambda: dispatch({"a": "ab"}, stop_after_first=True)),
]


@pytest.mark.parametrize(("make", "other"), ONE_OF_EACH)
def test_languages_and_constraints_are_values(make: Callable[[], Language], other: Callable[[], Language]) -> None:
    language = make()
    for same in (make(), copy.copy(language), copy.deepcopy(language), pickle.loads(pickle.dumps(language))):
        assert same == language
        assert hash(same) == hash(language)
        assert repr(same) == repr(language)
    assert language != other()
    constraint = language.constraint(JSON)
    for again in (make().constraint(JSON), copy.deepcopy(constraint), pickle.loads(pickle.dumps(constraint))):
        assert again == constraint
        assert hash(again) == hash(constraint)
        assert again.automaton.content_key == constraint.automaton.content_key
    assert constraint != other().constraint(JSON)
    assert constraint != language.constraint(JSON, closing=9)
    assert constraint != language.constraint(BYTES)
    with pytest.raises(AttributeError):
        language.item = literal("a")  # type: ignore[attr-defined]
