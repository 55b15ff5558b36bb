"""One token, whatever its text is: the masks are those of brute force over small vocabularies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.languages import Language, any_text, any_token, either, json_schema, optional, repeat, sequence, special
from logitkit.languages.any_tokens import AnyToken
from tests.examples import examples
from tests.languages.comparison import TooMany, compare
from tests.languages.patterns import Chars, Several, pattern_of
from tests.languages.vocabularies import BYTES, GAPS, JSON, NAMED, SHOWN, SPELLED, TWO_ENDS

VOCABULARIES = {"named": NAMED, "spelled": SPELLED, "gaps": GAPS, "two ends": TWO_ENDS, "bytes": BYTES}
TOKEN, OTHER = special("<t>"), special("<o>")
AB = pattern_of(Several(Chars("ab"), 1, 3))
RECORD = json_schema({"type": "array", "items": {"enum": [True, None]}, "maxItems": 2})

LANGUAGES: dict[str, Language] = {
    "one": any_token(),
    "one but": any_token(TOKEN),
    "one but an ordinary token": sequence(any_token(special(0)), "b"),
    "three": sequence(any_token(), any_token([TOKEN, special(1)]), any_token()),
    "after text": sequence(AB, TOKEN, any_token(OTHER), "b"),
    "before text": sequence("a", any_token(), AB),
    "several up to a token": sequence(repeat(any_token(TOKEN)), TOKEN, optional("a")),
    "several, or the token that ends them": sequence(repeat(any_token(), 1, 3), TOKEN),
    "a few": sequence("<", repeat(any_token([TOKEN, OTHER]), 0, 2), OTHER),
    "either": either(sequence(any_token(), "a"), sequence(TOKEN, "b")),
    "before free text": sequence(any_token(), any_text("<t>"), any_token(TOKEN)),
    "in free text": sequence(any_text(TOKEN), any_token(TOKEN), any_text(TOKEN)),
}


@pytest.mark.parametrize("closing", [False, 9])
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", LANGUAGES)
def test_masks(name: str, kind: str, closing: int) -> None:
    compare(LANGUAGES[name], VOCABULARIES[kind], shown=SHOWN if kind == "bytes" else None, closing=closing)


@pytest.mark.parametrize("vocabulary", [JSON, BYTES], ids=["json", "bytes"])
def test_masks_beside_values(vocabulary: lk.Vocabulary) -> None:
    shown = SHOWN if vocabulary is BYTES else None
    compare(sequence(RECORD, TOKEN, any_token(TOKEN), RECORD), vocabulary, shown=shown)


def test_all_tokens_are_excluded() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    with pytest.raises(ConfigurationError, match="spell no text"):
        any_token([special(0), special(1)]).constraint(vocabulary)
    compare(either(any_token([special(0), special(1)]), special(0)), vocabulary)


def test_other_text_in_the_same_place_is_refused() -> None:
    for language in (either(any_token(), "a"), sequence(repeat(any_token()), "a"), sequence(any_text(), any_token())):
        with pytest.raises(ConfigurationError, match="and other text begin at the same point"):
            language.constraint(NAMED)


def test_it_is_not_text() -> None:
    constraint = sequence(special("<t>"), any_token()).constraint(NAMED)
    with pytest.raises(ConfigurationError, match="so it is not one over text alone"):
        lk.then(constraint, None, "b")


def test_wrong_arguments() -> None:
    wrong: Any = any_token
    with pytest.raises(ConfigurationError, match="exclude holds '<t>'; allowed are tokens, such as special"):
        wrong("<t>")
    with pytest.raises(ConfigurationError, match="exclude is 3"):
        wrong(3)


tokens = st.sampled_from([TOKEN, OTHER, special(0)])
leaves: st.SearchStrategy[Language] = (
    st.builds(AnyToken, st.lists(tokens, max_size=2).map(tuple))
    | tokens
    | tokens
    | st.sampled_from([AB, any_text(TOKEN)])
)


def larger(inner: st.SearchStrategy[Language]) -> st.SearchStrategy[Language]:
    several = st.tuples(inner, st.integers(0, 2), st.none() | st.integers(0, 2))
    return (
        st.lists(inner, min_size=1, max_size=4).map(lambda parts: sequence(*parts))
        | st.lists(inner, min_size=1, max_size=2).map(lambda options: either(*options))
        | several.map(lambda given: repeat(given[0], given[1], None if given[2] is None else given[1] + given[2]))
    )


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.filter_too_much])
@given(
    st.recursive(leaves, larger, max_leaves=6),
    st.sampled_from([NAMED, SPELLED, GAPS, TWO_ENDS]),
    st.sampled_from([False, False, 3, 6]),
)
def test_random_languages(language: Language, vocabulary: lk.Vocabulary, closing: int) -> None:
    try:
        compare(language, vocabulary, most=300, closing=closing)
    except (TooMany, PatternTooLarge):
        assume(False)
    except ConfigurationError as error:
        if "begin at the same point" not in str(error):
            raise
        assume(False)
