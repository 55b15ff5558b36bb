"""Random languages, whose masks are those of brute force."""

from __future__ import annotations

import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.languages import Language
from tests.examples import examples
from tests.languages.comparison import TooMany, compare
from tests.languages.matcher import Matcher
from tests.languages.patterns import Tree, pattern_of, written
from tests.languages.random_languages import SCHEMAS, languages, trees
from tests.languages.vocabularies import BYTES, GAPS, JSON, NAMED, ONE_END, SECOND_END, SHOWN, SPELLED, TWO_ENDS

AMBIGUOUS = "no automaton with one stack can follow both"


def same_masks(language: Language, vocabulary: object, **options: object) -> None:
    """Compare all masks, unless the language has too many texts or is refused as ambiguous."""
    try:
        compare(language, vocabulary, most=300, **options)  # type: ignore[arg-type]
    except TooMany:
        assume(False)
    except PatternTooLarge:
        # Free text in free text may take many states.
        assume(False)
    except ConfigurationError as error:
        if AMBIGUOUS not in str(error):
            raise
        assume(False)


@settings(max_examples=examples(200))
@given(languages(), st.sampled_from([NAMED, SPELLED, GAPS]))
def test_texts_and_tokens(language: Language, vocabulary: object) -> None:
    same_masks(language, vocabulary)


@settings(max_examples=examples(120))
@given(languages(), st.sampled_from([ONE_END, TWO_ENDS, SECOND_END]), st.sampled_from([False, 1, 2, 4]))
def test_eos_in_languages(language: Language, vocabulary: object, closing: bool | int) -> None:
    same_masks(language, vocabulary, closing=closing)


@settings(max_examples=examples(60))
@given(languages())
def test_with_all_bytes(language: Language) -> None:
    same_masks(language, BYTES, shown=SHOWN)


@settings(max_examples=examples(60))
@given(languages(SCHEMAS), st.booleans())
def test_values(language: Language, all_bytes: bool) -> None:
    if all_bytes:
        same_masks(language, BYTES, shown=SHOWN, max_depth=2)
    else:
        same_masks(language, JSON, max_depth=2)


@settings(max_examples=examples(60))
@given(languages(), st.sampled_from([NAMED, SPELLED, GAPS]), st.integers(1, 6))
def test_within_a_number_of_tokens(language: Language, vocabulary: object, closing: int) -> None:
    same_masks(language, vocabulary, closing=closing)


@settings(max_examples=examples(200))
@given(trees(), st.text("ab<t>é\n", max_size=6))
def test_the_matcher_reads_patterns_as_re_does(tree: Tree, text: str) -> None:
    matcher = Matcher(pattern_of(tree), BYTES)
    found = matcher.start()
    for byte in text.encode():
        found = matcher.after(found, byte)
    assert found.is_complete == (re.fullmatch(written(tree), text, re.DOTALL) is not None)
