r"""`\p{...}` and `\P{...}`."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
import regex  # type: ignore[import-untyped]

from logitkit.patterns import CharSet
from logitkit.patterns.unicode_classes import GROUPS
from logitkit.patterns.unicode_scripts import ALIASES, CATEGORIES, RANGES
from tests.patterns.character_sets import every_character, set_by_parser


def test_categories_over_all_code_points() -> None:
    expected: dict[str, list[tuple[int, int]]] = {}
    for code_point, name in enumerate(map(unicodedata.category, every_character())):
        for category in (name, name[0], *(("LC",) if name in GROUPS["LC"] else ())):
            expected.setdefault(category, []).append((code_point, code_point))
    assert set(expected) == set(CATEGORIES.values())
    for category, members in expected.items():
        assert set_by_parser(rf"\p{{{category}}}") == CharSet.of(members), category


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\p{Lu}", r"\p{Uppercase_Letter}"),
        (r"\p{Lu}", r"\p{uppercase letter}"),
        (r"\p{Lu}", r"\p{gc=Lu}"),
        (r"\p{Lu}", r"\p{General_Category=UPPERCASELETTER}"),
        (r"\p{L&}", r"\p{LC}"),
        (r"\P{Lu}", r"\p{^Lu}"),
        (r"\P{Lu}", r"[^\p{Lu}]"),
        (r"\p{L}", r"[\p{Lu}\p{Ll}\p{Lt}\p{Lm}\p{Lo}]"),
        (r"\p{Greek}", r"\p{Script=Greek}"),
        (r"\p{Greek}", r"\p{sc=Grek}"),
        (r"\p{Any}", r"[\s\S]"),
        (r"\p{ASCII}", r"[\x00-\x7f]"),
        (r"\p{Assigned}", r"\P{Cn}"),
        (r"\p{Nd}", r"\d"),
    ],
)
def test_same_class(one: str, other: str) -> None:
    assert set_by_parser(one) == set_by_parser(other)


def test_case_is_folded_before_negation() -> None:
    letters = set_by_parser(r"\p{Lu}", "i")
    assert ord("a") in letters
    assert ord("ª") not in letters
    assert set_by_parser(r"\P{Lu}", "i") == ~letters
    assert set_by_parser(r"\p{^Lu}", "i") == ~letters
    assert set_by_parser(r"\P{^Lu}", "i") == letters
    assert set_by_parser(r"[\P{Lu}]", "i") == ~letters


@pytest.mark.parametrize(
    "pattern", [r"\p{L}", r"\P{L}", r"\p{^L}", r"\P{^L}", r"[\p{Lu}\P{P}é]", r"[^\p{Lu}1]", r"\p{Greek}", r"\p{Cs}"]
)
def test_under_the_flag_a_a_property_has_its_characters_of_ascii(pattern: str) -> None:
    r"""As in the package `regex`: `\P` is the complement, as `\W` is."""
    judge = regex.compile(f"(?a:{pattern})")
    for at, character in enumerate(every_character()):
        if at < 0x3000 or 0xD7F0 <= at < 0xE010:
            assert (at in set_by_parser(pattern, "a")) == (judge.fullmatch(character) is not None), hex(at)


def test_under_the_flags_a_and_i_a_property_has_the_variants_of_ascii() -> None:
    assert set_by_parser(r"\p{Lu}", "ai") == CharSet.of([(0x41, 0x5A), (0x61, 0x7A)])
    assert set_by_parser(r"\P{Lu}", "ai") == ~set_by_parser("[A-Za-z]")
    assert set_by_parser(r"(?u:\p{L})", "a") == set_by_parser(r"\p{L}")


@pytest.mark.parametrize(
    ("script", "inside", "outside"),
    [
        ("Greek", "αΩἀ", "aа·"),
        ("Cyrillic", "аЯѣ", "aα"),
        ("Latin", "aZéßſ", "1αа"),
        ("Han", "日本々〇", "あカ。"),
        ("Hiragana", "あん", "アー日"),
        ("Katakana", "アン", "あ"),
        ("Hangul", "한ㄱ", "日"),
        ("Arabic", "عربى", "א،"),
        ("Hebrew", "אב", "ع"),
        ("Devanagari", "कख", "ক।"),
        ("Thai", "กข", "฿ລ"),
        ("Common", "1 .😀ー", "aα"),
        ("Inherited", "\u0301", "á"),
    ],
)
def test_script(script: str, inside: str, outside: str) -> None:
    charset = set_by_parser(rf"\p{{Script={script}}}")
    assert all(ord(character) in charset for character in inside)
    assert not any(ord(character) in charset for character in outside)


def test_scripts_divide_all_assigned_characters() -> None:
    """Each character of the running Python's Unicode has one script, none two."""
    counts = Counter(code_point for name in RANGES for code_point in set_by_parser(rf"\p{{sc={name}}}"))
    assert set(counts.values()) == {1}
    unknown = set_by_parser(r"\p{sc=Unknown}")
    for code_point, category in enumerate(map(unicodedata.category, every_character())):
        assert category in ("Cn", "Co", "Cs") or code_point not in unknown


def test_script_aliases_name_scripts() -> None:
    assert set(ALIASES.values()) <= set(RANGES)
    assert not set(ALIASES) & set(RANGES)
