"""Sets of strings against `re`, Python's sets and `json`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import PatternSyntaxError, PatternTooLarge
from logitkit.json_schema import StringSet
from logitkit.limits import DEFAULT_LIMITS, Limits
from tests.json_schema.ecma import python_pattern

WORDS = ["".join(word) for size in range(5) for word in itertools.product("abc", repeat=size)]
CHARACTERS = 'ab1_Z -.\n\r\t\v\x00\x1f"\\/\x7fé\u0663\u017f\u2028\ufeff\uffff😀'

SIMPLE = st.recursive(
    st.sampled_from(["a", "b", "c", "[ab]", "[^a]", "", "ab", "bc"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda node: f"(?:{node})*"),
        inner.map(lambda node: f"(?:{node}){{1,2}}"),
        inner.map(lambda node: f"(?!{node})"),
    ),
    max_leaves=6,
)
ATOMS = r"""
a b 1 . \d \D \w \W \s \S [^] [] [^a] [\d-] [\s\d] [^\W_] ^ $ \b \B \- \/ \cJ \x61 \u0061 \u{1F600}
[\u{1F600}] [\b] \0 \. \\
\p{L} \P{L} [\p{Lu}a] é " - a{2} a{0,2}? b+? [a-z]*
"""
ECMA = st.recursive(
    st.sampled_from(ATOMS.split()),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        inner.map(lambda node: f"(?<name>{node})"),
        inner.map(lambda node: f"(?:{node})*"),
        inner.map(lambda node: f"(?={node})"),
        inner.map(lambda node: f"(?!{node})"),
    ),
    max_leaves=5,
).filter(lambda pattern: pattern.count("<name>") < 2)


def _accepts(strings: StringSet) -> Callable[[str], bool]:
    dfa = byte_dfa_of(strings.tree(), DEFAULT_LIMITS)
    return lambda text: dfa.accepts(text.encode())


@given(SIMPLE, SIMPLE)
def test_the_algebra_is_that_of_sets(a: str, b: str) -> None:
    first, second = (TextLanguage.of_pattern(pattern, DEFAULT_LIMITS) for pattern in (a, b))
    in_a, in_b = ({word for word in WORDS if re.fullmatch(pattern, word)} for pattern in (a, b))
    every = set(WORDS)
    for language, wanted in (
        (first & second, in_a & in_b),
        (first | second, in_a | in_b),
        (first - second, in_a - in_b),
        (~first, every - in_a),
        (~(first - second) & (second | ~first), (every - (in_a - in_b)) & (in_b | (every - in_a))),
    ):
        assert {word for word in WORDS if language.contains(word)} == wanted
        assert language.is_empty <= (not wanted)
        assert not language.is_everything or wanted == every
    assert (first | ~first).is_everything
    assert (first & ~first).is_empty
    assert (first - first).longest == 0


@given(st.sets(st.text(CHARACTERS, max_size=4), max_size=6), st.sets(st.text(CHARACTERS, max_size=4), max_size=6))
def test_finite_sets_are_listed(a: set[str], b: set[str]) -> None:
    first, second = (StringSet.of_values(texts, DEFAULT_LIMITS) for texts in (a, b))
    assert (first & second).values() == sorted(a & b)
    assert (first | second).values() == sorted(a | b)
    assert (first - second).values() == sorted(a - b)
    assert first.longest == max(map(len, a), default=0)
    assert (~first).values() is None
    assert (~~first).values(len(a)) == sorted(a)
    assert not a or first.values(len(a) - 1) is None


@given(ECMA, st.lists(st.text(CHARACTERS, max_size=5), min_size=4, max_size=4))
def test_patterns_find_what_ecma_finds(pattern: str, texts: list[str]) -> None:
    # `\B` in the empty text, which `re` has another opinion about, stands apart below.
    strings = StringSet.matching(pattern, DEFAULT_LIMITS)
    for text in [*texts, "", "a", "aa", "😀", "1a"]:
        if text or r"\B" not in pattern:
            assert strings.contains(text) == bool(re.search(python_pattern(pattern), text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("(^a$|^b$)", ["a", "b"], ["ab"]),
        ("^$", [""], ["\n"]),
        (r"\B", ["", "aa"], ["a"]),
        (r"\bb", ["b", "éb", " b"], ["ab"]),
        ("^.$", ["a", "\x85", "😀"], ["\n", "\r", "\u2028", "\u2029"]),
        (r"^[\w-.]+$", ["a-.b"], ["a b"]),
        (r"^\${x}$", ["${x}"], ["x"]),
        ("^{}]$", ["{}]"], ["{}"]),
        (r"^(?=.*\d)(?=.*[a-z]).{4,8}$", ["abc1"], ["abcd", "1234", "a1"]),
        (r"(?<=a)b(?<!ab)c|(?<!x)y", ["y"], ["abc", "xy"]),
        (r"^\p{Script=Greek}+$", ["λόγος"], ["logos"]),
        (r"^[\uD83D\uDE00-\uD83D\uDE05]$", ["😃"], ["🚀"]),
    ],
)
def test_patterns_by_hand(pattern: str, found: list[str], not_found: list[str]) -> None:
    strings = StringSet.matching(pattern, DEFAULT_LIMITS)
    assert [text for text in (*found, *not_found) if strings.contains(text)] == found


@given(
    st.lists(st.tuples(st.sampled_from(["", "^", "^^"]), SIMPLE, st.sampled_from(["", "$"])), min_size=1, max_size=12)
)
def test_options_are_found_as_by_re(options: list[tuple[str, str, str]]) -> None:
    """Each option has anchors of its own."""
    pattern = "|".join(map("".join, options))
    strings = StringSet.matching(pattern, DEFAULT_LIMITS)
    assert [w for w in WORDS if strings.contains(w)] == [w for w in WORDS if re.search(python_pattern(pattern), w)]


def test_many_words_without_anchors_are_searched_at_once() -> None:
    words = [f"UNIT_{i}" for i in range(100)]
    strings = StringSet.matching("|".join(words), Limits(work=1_000_000))
    assert strings.contains("x UNIT_42 y")
    assert not strings.contains("x UNIT_ y")


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        (r"(a)\1", 3),
        (r"x\k<n>", 1),
        ("ab**", 3),
        ("a++", 2),
        ("a{2}{3}", 4),
        ("ab{,3}", 2),
        ("(?i)a", 0),
        (r"$\Z", 1),
        (r"\a", 0),
        ("é[b-a]", 2),
        ("x[a", 1),
        ("(a", 0),
        ("[0-9]a)", 6),
        (r"..\p{Nonsense}", 2),
        ("a(?P<n>b)", 1),
        (r"\u{110000}", 0),
        (r"a\u12", 1),
        ("ab\\", 2),
    ],
)
def test_an_invalid_pattern_is_refused_with_its_position(pattern: str, position: int) -> None:
    with pytest.raises(PatternSyntaxError) as refused:
        StringSet.matching(pattern, DEFAULT_LIMITS)
    assert (refused.value.pattern, refused.value.position) == (pattern, position)


@given(st.sets(st.text(CHARACTERS, max_size=3), min_size=1, max_size=5), st.text(CHARACTERS, max_size=3))
def test_each_string_has_one_text(members: set[str], other: str) -> None:
    for strings, wanted in (
        (StringSet.of_values(members, DEFAULT_LIMITS), lambda text: text in members),
        (~StringSet.of_values(members, DEFAULT_LIMITS), lambda text: text not in members),
        (StringSet.of_length(1, 2, DEFAULT_LIMITS), lambda text: 1 <= len(text) <= 2),
    ):
        accepts = _accepts(strings)
        for text in (*members, other):
            written = json.dumps(text, ensure_ascii=False)
            assert accepts(written) == wanted(text)
            assert not accepts(written[:-1])
            assert not accepts(written + " ")


@pytest.mark.parametrize(
    "spelling",
    [r'"\u0061"', r'"\/"', r'"\u000a"', r'"\u001F"', '"\n"', '"\x1f"', r'"\u0022"', r'"\ud83d\ude00"', r'"\x"', "a"],
)
def test_other_spellings_are_not_written(spelling: str) -> None:
    assert not _accepts(StringSet.everything(DEFAULT_LIMITS))(spelling)


def test_every_control_character_is_escaped() -> None:
    accepts = _accepts(StringSet.everything(DEFAULT_LIMITS))
    for code_point in range(0x100):
        assert accepts(json.dumps(chr(code_point), ensure_ascii=False))
        assert accepts(f'"{chr(code_point)}"') == (code_point >= 0x20 and chr(code_point) not in '"\\')


def test_lengths_count_code_points() -> None:
    strings = StringSet.of_length(2, 2000, DEFAULT_LIMITS)
    accepts = _accepts(strings)
    for character in ("a", "\n", "\x01", "😀"):
        for length in (0, 1, 2, 1999, 2000, 2001):
            assert accepts(json.dumps(character * length, ensure_ascii=False)) == (2 <= length <= 2000)
    assert strings.longest == 2000
    assert StringSet.of_length(3, None, DEFAULT_LIMITS).longest is None
    assert StringSet.matching("^(?:ab)*$", DEFAULT_LIMITS).longest is None
    assert StringSet.of_length(3, 2, DEFAULT_LIMITS).is_empty
    assert StringSet.of_length(0, None, DEFAULT_LIMITS).is_everything


COUNTED = (
    "^a*$",
    "^(ab)*$",
    "a",
    "^[ab]{1,3}$",
    "^(a|bb)*$",
    "^a{3}b*$",
    "^(aaa|b)?$",
    "^(a[b]+|bb)$",
    "^$",
    "^(a{5}|b{2})*$",
)


@pytest.mark.parametrize("pattern", [*COUNTED, "^a{2,17}b$", "^a{0,20}", "^[ab]{3}a{1,16}$"])
def test_a_set_with_lengths_is_that_with_states_for_each(pattern: str) -> None:
    texts = ["", *("".join(letters) for n in range(1, 7) for letters in itertools.product("ab", repeat=n)), "a" * 17]
    for minimum, maximum in itertools.product((0, 1, 2, 4), (None, 0, 1, 3, 5, 9)):
        strings = StringSet.matching(pattern, DEFAULT_LIMITS) & StringSet.of_length(minimum, maximum, DEFAULT_LIMITS)
        expanded = StringSet(strings.language)
        assert strings.is_empty == expanded.is_empty
        assert strings.longest == expanded.longest
        assert all(strings.values(most) == expanded.values(most) for most in (0, 1, 5, 64))
        for text in texts:
            legal = re.search(pattern, text) and minimum <= len(text) <= (99 if maximum is None else maximum)
            assert strings.contains(text) == expanded.contains(text) == bool(legal)


def test_lone_surrogates_are_in_no_set() -> None:
    strings = StringSet.of_values(["a", "\ud800"], DEFAULT_LIMITS)
    assert strings.values() == ["a"]
    assert not StringSet.everything(DEFAULT_LIMITS).contains("\udfff")
    assert StringSet.matching(r"^[\uD800-\uDFFF]$", DEFAULT_LIMITS).is_empty


def test_limits_hold() -> None:
    with pytest.raises(PatternTooLarge):
        StringSet.of_length(0, 100_000, DEFAULT_LIMITS).expand()
    few = Limits(states=50)
    with pytest.raises(PatternTooLarge):
        StringSet.of_length(0, 40, few).tree()
    with pytest.raises(PatternTooLarge):
        StringSet.matching("^(?:.{7})*$", few) & StringSet.matching("^(?:.{8})*$", few)


def test_the_empty_set_has_no_tree() -> None:
    with pytest.raises(ValueError, match="no string"):
        StringSet.of_values([], DEFAULT_LIMITS).tree()
