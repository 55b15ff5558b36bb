"""The patterns that people use: one named suite for all measurements.

Each entry has texts that match and texts that do not, so that a measurement can first check that its subject is right.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A pattern of the suite, with texts that check a subject.

    Args:
        name: Its name in tables.
        pattern: Python `re` syntax.
        matching: Texts that match as a whole.
        other: Texts that do not match.
    """

    name: str
    pattern: str
    matching: tuple[str, ...]
    other: tuple[str, ...]


def _words(count: int) -> list[str]:
    """Return distinct made-up words, the same ones every time."""
    onsets = ("b", "ch", "d", "f", "gr", "k", "l", "m", "n", "pr", "s", "t", "v", "w", "z")
    vowels = ("a", "e", "i", "o", "u", "ai", "ou")
    syllables = [onset + vowel for onset in onsets for vowel in vowels]
    return [f"{syllables[i % 105]}{syllables[i * 31 % 105]}{syllables[i // 105 % 105]}" for i in range(count)]


_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_EMAIL = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_EMAIL_RFC = (
    r"(?:[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r'|"(?:[\x01-\x08\x0b\x0c\x0e-\x1f\x21\x23-\x5b\x5d-\x7f]|\\[\x01-\x09\x0b\x0c\x0e-\x7f])*")'
    r"@(?:(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
    rf"|\[(?:{_OCTET}\.){{3}}{_OCTET}\])"
)
_IPV6 = (
    r"(?:(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,7}:"
    r"|(?:[0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,5}(?::[0-9a-fA-F]{1,4}){1,2}"
    r"|(?:[0-9a-fA-F]{1,4}:){1,4}(?::[0-9a-fA-F]{1,4}){1,3}|(?:[0-9a-fA-F]{1,4}:){1,3}(?::[0-9a-fA-F]{1,4}){1,4}"
    r"|(?:[0-9a-fA-F]{1,4}:){1,2}(?::[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:(?::[0-9a-fA-F]{1,4}){1,6}"
    r"|:(?:(?::[0-9a-fA-F]{1,4}){1,7}|:))"
)
_SEMVER = (
    r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)"
    r"(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_OBJECT = (
    r"\{ ?"
    rf'"id": (?:0|[1-9]\d{{0,8}}), "name": "[^"\\\x00-\x1f]{{1,40}}", "email": "{_EMAIL}", "born": "{_DATE}", '
    rf'"active": (?:true|false), "score": {_NUMBER}, "tags": \[(?:{_STRING}(?:, {_STRING}){{0,4}})?\], '
    r'"level": "(?:low|medium|high|critical)" ?\}'
)
_RECORD = {
    "id": 7,
    "name": "Ada Lovelace",
    "email": "ada@example.org",
    "born": "1815-12-10",
    "active": True,
    "score": 9.5,
    "tags": ["first", "b\n"],
    "level": "high",
}
_ARRAYS = r"\[(?:\[(?:\d+(?:,\d+){0,9})?\](?:,\[(?:\d+(?:,\d+){0,9})?\]){0,9})?\]"
_VALUE = rf"(?:{_STRING}|{_NUMBER}|true|false|null)"
_CALL = (
    r"<function=(?:get_weather|search_web|send_mail|add_event)>"
    rf'\{{(?:"[a-z_]{{1,20}}": {_VALUE}(?:, "[a-z_]{{1,20}}": {_VALUE}){{0,5}})?\}}</function>'
)

SUITE: tuple[Entry, ...] = (
    Entry("yes or no", r"yes|no", ("yes", "no"), ("", "y", "yesno", "Yes")),
    Entry("ISO date", r"\d{4}-\d{2}-\d{2}", ("2024-02-29", "٢٠٢٤-٠٢-٢٩"), ("2024-2-29", "2024-02-2")),
    Entry("valid date", _DATE, ("2024-12-31",), ("2024-13-01", "2024-12-32")),
    Entry("time", r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?", ("23:59", "00:00:01"), ("24:00", "9:15")),
    Entry(
        "date and time",
        rf"{_DATE}T\d{{2}}:\d{{2}}:\d{{2}}(?:\.\d+)?(?:Z|[+-]\d{{2}}:\d{{2}})",
        ("2024-01-31T10:20:30Z", "2024-01-31T10:20:30.5+01:00"),
        ("2024-01-31 10:20:30Z",),
    ),
    Entry("e-mail", _EMAIL, ("ada@example.org", "a.b+c@d-e.co.uk"), ("ada@example", "@b.org", "a b@c.de")),
    Entry(
        "e-mail, RFC",
        _EMAIL_RFC,
        ("ada@example.org", '"a-b"@c.de', "x@[127.0.0.1]"),
        ("ada@-c.de", "a..b@c.de"),
    ),
    Entry(
        "URL",
        r"https?://(?:www\.)?[-a-zA-Z0-9@:%._+~#=]{1,256}\.[a-zA-Z0-9()]{1,6}\b[-a-zA-Z0-9()@:%_+.~#?&/=]*",
        ("https://example.org/a?b=c", "http://www.a.io"),
        ("ftp://example.org", "https://example"),
    ),
    Entry("UUID", _UUID, ("123e4567-e89b-12d3-a456-426614174000",), ("123e4567-e89b-12d3-a456-42661417400", "")),
    Entry("IPv4", rf"(?:{_OCTET}\.){{3}}{_OCTET}", ("127.0.0.1", "255.255.255.255"), ("256.0.0.1", "1.2.3")),
    Entry("IPv6", _IPV6, ("::1", "2001:db8::ff00:42:8329", "1:2:3:4:5:6:7:8"), ("1:2:3", ":::", "12345::")),
    Entry(
        "phone",
        r"\+?\d{1,3}[ .-]?\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,3}",
        ("+1 (555) 010 1234",),
        ("555", "+1-abc"),
    ),
    Entry(
        "float",
        r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?",
        ("3.14", "-.5e-7", "10"),
        (".", "1e", "1.2.3"),
    ),
    Entry("integer to 255", _OCTET, ("0", "99", "199", "255"), ("256", "1000", "-1")),
    Entry("year 1900 to 2099", r"(?:19|20)\d{2}", ("1900", "2099"), ("1899", "2100")),
    Entry(
        "colour",
        r"#(?:[0-9a-fA-F]{3}){1,2}|rgb\(\d{1,3}(?:, ?\d{1,3}){2}\)",
        ("#fff", "#A0b1C2", "rgb(1, 2,3)"),
        ("#ffff",),
    ),
    Entry("money", r"[$€£] ?\d{1,3}(?:,\d{3})*(?:\.\d{2})?", ("$1,234.50", "€ 5"), ("$1234", "5 €")),
    Entry("choice of 1000", "|".join(_words(1000)), (_words(1000)[0], _words(1000)[999]), ("", "ba", "xyzzy")),
    Entry("identifier", r"[A-Za-z_][A-Za-z0-9_]{0,63}", ("_x", "fooBar9", "a" * 64), ("9a", "a" * 65, "a-b")),
    Entry(
        "card number",
        r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|3[47]\d{13}",
        ("4111111111111111",),
        ("4111", "6" * 16),
    ),
    Entry("semantic version", _SEMVER, ("1.0.0", "1.2.3-rc.1+b5"), ("1.0", "01.0.0", "1.0.0-01")),
    Entry("file path", r"(?:/[^/\x00\n]{1,64}){1,16}", ("/usr/lib/x.so", "/é"), ("usr", "//", "/")),
    Entry("markdown list", r"(- [^\n]{1,80}\n){1,10}", ("- one\n", "- a\n- b\n"), ("- a", "* a\n", "- a\n\n")),
    Entry("up to 200 characters", r".{0,200}", ("", "one line", "日" * 200), ("a\nb", "x" * 201)),
    Entry("up to 2000, any", r"[\s\S]{1,2000}", ("a\nb", "é" * 2000), ("", "x" * 2001)),
    Entry("free text", r"[\s\S]*", ("", "anything\nat all 😀"), ()),
    Entry("one line", r"[^\n]+", ("a line",), ("", "a\n")),
    Entry("Unicode words", r"\w+(?: \w+)*", ("één woord", "слово 漢字"), ("", "a  b", "a,")),
    Entry("capped Unicode word", r"\w{1,20}", ("hello", "日本語"), ("", "a b", "x" * 21)),
    Entry("sentence", r"[A-Z][^.!?\n]{1,200}[.!?]", ("It works.",), ("it works.", "It works")),
    Entry(
        "GSM8K answer",
        r"(?:[^\n#]{1,200}\n){1,8}#### -?\d{1,9}",
        ("2 + 2 = 4\n#### 4",),
        ("#### 4", "a\n#### x"),
    ),
    Entry(
        "function call",
        _CALL,
        ('<function=get_weather>{"city": "Oslo", "days": 3}</function>',),
        ("<function=rm>{}</function>",),
    ),
    Entry(
        "think, then answer",
        r"<think>[\s\S]*</think>\n(?:yes|no)",
        ("<think>so</think>\nyes",),
        ("<think>so\nyes",),
    ),
    Entry("JSON string", _STRING, ('""', r'"a\n\u00e9b"', '"é"'), ('"', '"a"b"', r'"\x"')),
    Entry("JSON number", _NUMBER, ("0", "-1.5e10"), ("01", "+1", "1.")),
    Entry("integer list", r"\[(?:-?\d+(?:, -?\d+)*)?\]", ("[]", "[1, -2, 3]"), ("[1,]", "[1 2]")),
    Entry(
        "JSON object of 8 fields",
        _OBJECT,
        (json.dumps(_RECORD), json.dumps(_RECORD | {"tags": []})),
        (json.dumps(_RECORD | {"level": "none"}), "{}"),
    ),
    Entry("nested arrays", _ARRAYS, ("[]", "[[1,2],[],[3]]"), ("[[1,2]", "[1]")),
    Entry(
        "chess move",
        r"(?:[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](?:=[QRBN])?|O-O(?:-O)?)[+#]?",
        ("Nf3", "exd8=Q#", "O-O"),
        ("Zz9",),
    ),
    Entry(
        "SQL select",
        r"SELECT (?:\*|\w+(?:, \w+)*) FROM \w+(?: WHERE \w+ (?:=|<|>|LIKE) (?:\d+|'[^'\n]*'))?(?: LIMIT \d+)?;",
        ("SELECT a, b FROM t WHERE c = 'x' LIMIT 5;",),
        ("SELECT FROM t;", "DROP TABLE t;"),
    ),
    Entry("XML element", r"<([a-z]+)>[^<>]*</[a-z]+>", ("<b>text</b>",), ("<b>text", "<B></B>")),
)


def check(entry: Entry) -> None:
    """Assert that `re` sees the texts of an entry as the entry says."""
    for text in entry.matching:
        assert re.fullmatch(entry.pattern, text), (entry.name, text)
    for text in entry.other:
        assert not re.fullmatch(entry.pattern, text), (entry.name, text)
