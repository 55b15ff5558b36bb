"""Classes match exactly the code points that they match in `re`, over all of Unicode."""

from __future__ import annotations

import re
import warnings

import pytest

from logitkit.patterns import case_table
from tests.patterns.character_sets import set_by_parser, set_by_re

CLASSES = [
    *(".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S"),
    *(
        "k",
        "K",
        "K",
        "s",
        "ſ",
        "S",
        "ß",
        "ẞ",
        "i",
        "I",
        "İ",
        "ı",
        "σ",
        "ς",
        "Σ",
        "µ",
        "μ",
        "Μ",
        "é",
        "É",
        "1",
        "日",
    ),
    *(
        "[a-z]",
        "[A-Z]",
        "[a-zſK]",
        "[^a-z]",
        "[^ß]",
        "[^ẞx]",
        "[k]",
        "[^k]",
        "[ſ-ƀ]",
        "[k-s]",
        "[α-ω]",
        "[^α-ω]",
    ),
    *(
        "[İ]",
        "[ıx]",
        "[ﬅ-ﬆ]",
        "[\u0345-\u0350]",
        "[Ḁ-ỿ]",
        "[Ⅰ-Ⅷ]",
        "[Ⓐ-Ⓩ]",
        "[Ა-Ჰ]",
        "[\u0000-\uffff]",
        "[Ꭰ-Ᏼ]",
    ),
    *(
        r"[\w-]",
        r"[^\w]",
        r"[\W_]",
        r"[^\W\d_]",
        r"[\d\s]",
        r"[\D\S]",
        r"[^\D\S]",
        r"[\Wk]",
        r"[^\Wſ]",
        r"[\s\S]",
    ),
    *(
        "a|b|k",
        "[a]|[^a-y]",
        "[]-a]",
        "[^]-a]",
        "[a-]",
        r"[\b\n]",
        r"[\x00-\x1f]",
        r"[\101-\132]",
        "[[a]",
        "[a&&k]",
    ),
    # Beyond the Basic Multilingual Plane `re` folds by other rules.
    *(
        "𐐀",
        "𐐨",
        "[𐐀]",
        "[𐐀a]",
        "[𐐨a]",
        "[^𐐀a]",
        "[^𐐨k]",
        "[𐐀-𐐧]",
        "[𐐨-𐑏]",
        "[^𐐀-𐐧]",
        "[k-𐐀]",
        "[\u0200-\U00010000]",
    ),
    *(
        "[𞤀-𞤡]",
        "[\U00010000-\U0010ffff]",
        "[\u0080-\U0010ffff]",
        "[é-😀]",
        "[^\ufb00-\U0001e900]",
        "[😀k]",
        r"[𐐀\w]",
    ),
]


@pytest.mark.parametrize("flags", ["", "i", "a", "ai", "s", "is"])
def test_class_over_all_code_points(flags: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [c for c in CLASSES if set_by_parser(c, flags) != set_by_re(c, flags)] == []


@pytest.mark.parametrize(
    ("flags", "written", "step"), [("i", "{}", 1), ("i", "[{}1]", 5), ("ai", "{}", 5), ("ai", "[{}1]", 5)]
)
def test_characters_that_have_case(flags: str, written: str, step: int) -> None:
    """Alone, and inside brackets beside another one, against all characters that have case."""
    cased = "".join(map(chr, case_table(ascii_only=False).equivalents))
    for character in cased[::step]:
        pattern = written.format(character)
        charset = set_by_parser(pattern, flags)
        ours = [other for other in cased if ord(other) in charset]
        assert ours == re.findall(f"(?{flags}:{pattern})", cased), pattern


def test_cased_characters_are_all_known() -> None:
    """Characters that the case table leaves out match only themselves."""
    table = case_table(ascii_only=False)
    for code_point in range(0x110000):
        character = chr(code_point)
        if code_point not in table.equivalents:
            assert character.lower() == character == character.upper()


@pytest.mark.parametrize("letter", "dsw")
@pytest.mark.parametrize("flags", ["", "a"])
def test_case_changes_no_perl_class(letter: str, flags: str) -> None:
    r"""`re` asks whether the lowercase is in `\w`; that is the same only while this holds."""
    charset = set_by_re(rf"\{letter}", flags)
    for upper, lower in case_table(ascii_only=bool(flags)).lower.items():
        assert (upper in charset) == (lower in charset)


def test_alternatives_beyond_the_basic_plane_fold() -> None:
    """`re` joins single characters into a class, where it forgets to fold this one; here it is folded."""
    assert set_by_parser("𐐀|a", "i") == set_by_parser("𐐨|a", "i")


def test_unicode_flag_inside_ascii() -> None:
    assert set_by_parser("(?u:\\w)", "a") == set_by_re("\\w")
    assert set_by_parser("(?a:\\w)", "u") == set_by_re("\\w", "a")
    assert set_by_parser("(?-i:k)", "i") == set_by_re("k")
