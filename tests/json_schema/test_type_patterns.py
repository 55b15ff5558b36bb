"""Random patterns of types, with flags, which pydantic matches with Rust's engine or with Python's. Pydantic is the judge."""

from __future__ import annotations

import re
import warnings
from itertools import product
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from logitkit.errors import PatternTooLarge
from logitkit.json_schema import StringSet
from logitkit.json_schema.python_patterns import python_as_ecma
from logitkit.json_schema.rust_patterns import rust_as_ecma
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples
from tests.patterns.strategies import patterns, texts_for

EXAMPLES = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))

# Letters that are equal in any case in some versions of Unicode only, or by some rules only.
CHARACTERS = "aAkKsSzZ1 _-#\n\r.éÉßẞſKAǅΣςİıℵ\u0345\u2028\ua7dc\u019bΐΐﬅﬆ"
ATOMS = [
    *(
        "a",
        "K",
        "s",
        "ß",
        "é",
        "İ",
        "ı",
        "Σ",
        ".",
        "^",
        "$",
        "#",
        " ",
        "x?",
        r"\b",
        r"\B",
        r"\x{e9}",
        r"\u00c9",
        r"\x4b",
    ),
    *(
        r"\d",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\D",
        r"\p{Lu}",
        r"\pL",
        "[a-k]",
        "[^a]",
        "[^s-z]",
        "[A-Z_]",
        r"[^\w]",
        r"[\Wa]",
    ),
    *(
        "[-a]",
        "[]a]",
        "[^-K]",
        "[a-]",
        "[é-ſ]",
        "[ßk]",
        "[^ß]",
        "[^é]",
        "[a-z0-9 #]",
        "[^İ]",
        "[--a]",
        "[^ΐ]",
        "[^\u019b]",
        "[ ^ a ]",
        "[ ] -]",
        "[]-a]",
        "[A- ]",
        "[ - - a]",
        "( ?i:s)",
    ),
]
# Rust's engine repeats anchors and repetitions too; in verbose mode, white space may come between.
QUANTIFIERS = st.sampled_from(
    ["*", "+", "?", "{1,2}", "{2}", "*?", "**", " *", "{ 1 , 2 } ?", "{2,} ?", "\n?", "+ ?", "#\n+"]
)
RUST: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.builds("(?{}:{}\n)".format, st.sampled_from(["i", "s", "m", "x", "im", "i-s", "U", "-i", "isx"]), inner),
        st.builds("(?:{}){}".format, inner, QUANTIFIERS),
        st.builds("{}{}".format, inner, QUANTIFIERS),
        inner.map(lambda node: f"^(?:{node}\n?)$"),
        st.tuples(st.sampled_from(["(?i)", "(?m)", "(?s)", "(?x)"]), inner).map("".join),
    ),
    max_leaves=6,
)


def _validator(pattern: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(Annotated[str, Field(pattern=pattern)])
    except Exception:
        assume(False)
        raise


def _is_valid(validator: TypeAdapter[Any], text: str) -> bool:
    try:
        validator.validate_python(text)
    except ValidationError:
        return False
    return True


@EXAMPLES
@given(RUST, st.lists(st.text(CHARACTERS, max_size=4), min_size=10, max_size=30))
def test_every_text_of_a_pattern_of_rust_validates(pattern: str, texts: list[str]) -> None:
    validator = _validator(pattern)
    strings = StringSet.matching(rust_as_ecma(pattern), DEFAULT_LIMITS)
    for text in [*texts, *CHARACTERS]:
        assert not strings.contains(text) or _is_valid(validator, text), text


@pytest.mark.parametrize(
    "pattern",
    [
        # Quantifiers of anchors, and of repetitions.
        *(r"^?a", r"^*a$+", r"\A{2}a\z?", r"(?m)^?a$*", r"\b{2}a", r"^a**$", r"^a{2}{2}$", r"^(a?){2}+$", r"^a{2}*?$"),
        # White space and comments, which verbose mode leaves out nearly everywhere.
        *("(?x)^\n?a", "(?x)^a+ ?$", "(?x)^a{2} ?$", "(?x)^a{1 #c\n,2 }$", "^a{ 1 , 2 }$", "(?x)^a #*\n* ?$"),
        *(
            "(?x)^[ ^a]$",
            "(?x)^[ ]a]$",
            "(?x)^[A- ]$",
            "(?x)^[a- -b]$",
            "(?x)^[ - -b]$",
            "(?x)^[a #]\n]$",
            "(?x)^( ?i:a)$",
        ),
        # A bracket at the beginning of a class ends its beginning.
        "^[]-a]$",
    ],
)
def test_a_pattern_of_rust_has_the_same_texts(pattern: str) -> None:
    validator, strings = _validator(pattern), StringSet.matching(rust_as_ecma(pattern), DEFAULT_LIMITS)
    texts = ["".join(text) for length in range(5) for text in product("aA-^] #\n", repeat=length)]
    assert [t for t in texts if strings.contains(t)] == [t for t in texts if _is_valid(validator, t)]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("^[]--a]$", "'--' in a class of characters"),
        (r"\b{start}a", r"'\\b{start}', a word boundary"),
        (r"a\>", r"'\\>', a word boundary"),
        (r"(?x)\x{ 61 }", r"white space inside of the escape \x"),
        (r"(?x)\p {L}", r"white space inside of the escape \p"),
        (r"(?x)a{1 2}", "white space inside of a number"),
    ],
)
def test_a_pattern_of_rust_that_cannot_be_written_is_refused(pattern: str, reason: str) -> None:
    _validator(pattern)
    with pytest.raises(PydanticUserError) as caught:
        rust_as_ecma(pattern)
    assert reason in str(caught.value)


@pytest.mark.parametrize("pattern", ["(?i)^{}$", "(?i)^[{}]$", "(?i)^[^{}]$", "(?i)^[{}-{}]$"])
def test_every_letter_in_any_case_validates(pattern: str) -> None:
    """All letters of `CHARACTERS`, and all characters of the first blocks that have case."""
    others = [chr(c) for c in [*range(0x250), *range(0x370, 0x590), *range(0x1C80, 0x2000), *range(0x2100, 0x2190)]]
    for letter in sorted({*CHARACTERS} - {*"^$.#-\n\r \u2028"}):
        written = pattern.replace("{}", letter)
        validator, strings = _validator(written), StringSet.matching(rust_as_ecma(written), DEFAULT_LIMITS)
        accepted = [other for other in others if strings.contains(other)]
        assert all(_is_valid(validator, other) for other in accepted), letter
        assert accepted or letter not in others, letter


@EXAMPLES
@given(patterns(atomic=False, depth=2), st.data())
def test_a_pattern_of_python_is_found_in_the_same_texts(pattern: str, data: st.DataObject) -> None:
    try:
        strings = StringSet.matching(python_as_ecma(pattern), DEFAULT_LIMITS)
    except PatternTooLarge:
        assume(False)
    for _ in range(3):
        text = data.draw(texts_for(pattern).filter(lambda text: not re.search("[\ud800-\udfff]", text)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = re.search(pattern, text) is not None
        assert strings.contains(text) == found, text
