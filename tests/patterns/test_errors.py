"""Each refusal says what is wrong, where, and what to write instead."""

from __future__ import annotations

import pytest

from logitkit.errors import PatternSyntaxError
from logitkit.patterns import parse

NOT_REGULAR = "its language is not regular"


@pytest.mark.parametrize(
    ("pattern", "position", "reason"),
    [
        # parentheses
        ("ab)c", 2, r"unbalanced parenthesis; for a literal ) write \)"),
        ("ab(c", 2, r"missing ), unterminated subpattern; for a literal ( write \("),
        ("(a(b)", 0, "missing ), unterminated subpattern"),
        ("a(?", 1, "unexpected end of pattern"),
        ("a(?P", 1, "unexpected end of pattern"),
        ("a(?#b", 1, "missing ), unterminated comment"),
        ("(?#a\\)", 0, "missing ), unterminated comment"),
        ("a(?", 1, r"for a literal ( write \("),
        # names
        ("(?P<>a)", 4, "missing group name"),
        ("(?P<a", 4, "missing >, unterminated group name"),
        ("(?P<1a>b)", 4, "bad character in group name '1a'"),
        ("(?P<a>b)(?P<a>c)", 12, "redefinition of group name 'a'"),
        ("(?<a>b)(?P<a>c)", 11, "redefinition of group name 'a'"),
        ("(?<>a)", 3, "missing group name"),
        ("(?<a", 3, "missing >, unterminated group name"),
        ("(?<1a>b)", 3, "bad character in group name '1a'"),
        ("(?'a'b)", 0, "write (?P<name>...)"),
        # not regular
        (r"(a)b\1", 4, rf"backreference \1 is not supported, because {NOT_REGULAR}; write out"),
        (r"(a\1)", 2, NOT_REGULAR),
        (r"(?P<a>b)(?P=a)", 8, f"backreference (?P=a) is not supported, because {NOT_REGULAR}"),
        (r"(a)?(?(1)b|c)", 4, "conditional group (?(...)...) is not supported"),
        (r"a\1", 1, r"invalid group reference 1; for a character by its octal number write \0"),
        (r"(a)\12", 3, "invalid group reference 12"),
        ("(?R)", 0, f"recursion is not supported, because {NOT_REGULAR}"),
        ("(a)(?1)", 3, "recursion"),
        ("(?P>a)", 0, "recursion"),
        (r"\k<a>", 0, "backreferences are not supported"),
        (r"\g{1}", 0, "backreferences are not supported"),
        # other extensions
        ("(?|a|b)", 0, "unknown extension ?|; write (?:...)"),
        ("(?^a)", 0, "turn flags off by name"),
        ("(?PA)", 0, "unknown extension ?PA"),
        ("(?@a)", 0, "unknown extension ?@"),
        # flags
        ("a(?i)b", 1, "global flags not at the start of the expression; write (?i:...)"),
        ("|(?ms)b", 1, "write (?ms:...)"),
        ("((?i)b)", 1, "global flags not at the start"),
        ("(?L)a", 2, "the flag L is for bytes patterns; leave it out"),
        ("(?iL:a)", 3, "the flag L is for bytes patterns"),
        ("(?-L:a)", 3, "the flag L is for bytes patterns"),
        ("(?au:a)", 2, "the flags a and u exclude each other"),
        ("(?a)(?u)b", 4, "the flags a and u exclude each other"),
        ("(?-a:b)", 3, "cannot turn off the flags a and u"),
        ("(?i-su:b)", 5, "cannot turn off the flags a and u"),
        ("(?i-i:b)", 2, "flag i turned on and off"),
        ("(?i-:b)", 4, "missing flag after -"),
        ("(?iz)b", 3, "unknown flag z; known are a, i, m, s, x, u"),
        ("(?i", 3, "missing -, : or )"),
        ("(?i.", 3, "missing -, : or )"),
        ("(?i-s)", 5, "missing :"),
        ("(?-i", 4, "missing :"),
        # repetition
        ("*a", 0, r"nothing to repeat; for a literal * write \*"),
        ("a|{2}", 2, r"nothing to repeat; for a literal { write \{"),
        ("(?:+a)", 3, "nothing to repeat"),
        ("^*", 1, r"an anchor cannot be repeated; for a literal * write \*"),
        (r"a\b+", 3, "an anchor cannot be repeated"),
        ("a**", 2, "multiple repeat; put the inner repetition into a group (?:...)"),
        ("a*?+", 3, "multiple repeat"),
        ("a++*", 3, "multiple repeat"),
        ("a{2}{3}", 4, "multiple repeat"),
        ("a{3,2}", 1, "min repeat 3 greater than max repeat 2"),
        ("a{4294967295}", 1, "the repetition number is too large; the largest is 4294967294"),
        ("a{1," + "9" * 5000 + "}", 1, "the repetition number is too large"),
        # escapes
        ("ab\\", 2, r"bad escape (end of pattern); write \\ for a backslash"),
        ("[ab\\", 3, "bad escape (end of pattern)"),
        ("(?x)a # b\\", 9, "bad escape (end of pattern) in a comment"),
        (r"a\xg1", 1, r"incomplete escape \x: 2 hexadecimal digits wanted"),
        (r"a\u12", 1, r"incomplete escape \u12: 4 hexadecimal digits wanted"),
        (r"[\U0001F60]", 1, r"incomplete escape \U0001F60: 8 hexadecimal digits wanted"),
        (r"\U00110000", 0, "the last code point is 0010FFFF"),
        (r"\400", 0, "octal escape \\400 is outside of 0 to 0o377"),
        (r"[\8]", 1, r"bad escape \8"),
        (r"\y", 0, r"bad escape \y"),
        (r"a\z", 1, r"bad escape \z; write \Z"),
        (r"\h", 0, r"bad escape \h; write [ \t]"),
        (r"\R", 0, r"write (?:\r\n|"),
        (r"\e", 0, r"write \x1b"),
        (r"\Qa.b\E", 0, "escape each special character"),
        (r"[\A]", 1, r"bad escape \A inside brackets"),
        (r"[\B]", 1, r"bad escape \B inside brackets"),
        (r"\N", 0, r"missing { after \N; write for instance \N{EM DASH}"),
        (r"\N{DIGIT ONE", 0, "missing }, unterminated character name"),
        (r"\N{}", 0, "missing character name"),
        (r"a\N{NO SUCH NAME}", 1, "undefined character name 'NO SUCH NAME'"),
        (r"\N{LATIN SMALL LETTER A WITH MACRON AND GRAVE}", 0, "undefined character name"),
        (r"\pL", 0, r"missing { after \p; write for instance \p{Lu}"),
        (r"a\p{Klingon}", 1, "property 'Klingon' is not supported; write a general category such as Lu or a script"),
        (r"\p{gc=Greek}", 0, "is not supported"),
        (r"\p{sc=Lu}", 0, "is not supported"),
        (r"[\P{]", 1, "missing }, unterminated property name"),
        # brackets
        ("a[b", 1, r"unterminated character set; for a literal [ write \["),
        ("[]", 0, "unterminated character set"),
        ("[^]", 0, "unterminated character set"),
        ("[a-", 0, "unterminated character set"),
        ("a[bz-a]", 3, "bad character range z-a: its end comes before its start"),
        (
            r"[\d-z]",
            1,
            r"bad character range \d-z: a class cannot begin or end a range; for a literal - write \-",
        ),
        (r"[a-\p{L}]", 1, r"bad character range a-\p{L}"),
    ],
)
def test_refused(pattern: str, position: int, reason: str) -> None:
    with pytest.raises(PatternSyntaxError) as caught:
        parse(pattern)
    assert reason in caught.value.reason
    assert caught.value.position == position
    assert caught.value.pattern == pattern


def test_caret_points_at_the_place() -> None:
    with pytest.raises(PatternSyntaxError) as caught:
        parse("(?x)\na # first\nb** c\nd")
    assert str(caught.value).splitlines()[1:] == ["    b** c", "      ^"]
