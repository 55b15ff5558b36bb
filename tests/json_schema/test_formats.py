"""Formats against the official cases and Python's own readers of dates and addresses."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import re
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import StringSet
from logitkit.json_schema.formats import INTEGERS, NOT_ENFORCED, STRING_FORMATS
from logitkit.limits import DEFAULT_LIMITS
from tests.json_schema.acceptance import acceptor
from tests.json_schema.format_rules import NUMBER_RULES, RULES
from tests.json_schema.official import DIALECTS, format_cases, groups, has_a_label

# Cases of the official suite, by format: text, and whether it is valid.
CASES = {
    name: [
        test
        for group in groups()
        if group.file == f"draft2020-12/optional/format/{name}"
        for test in group.tests
        if isinstance(test[0], str)
    ]
    # The others are OpenAPI's, and have no official cases.
    for name in sorted(STRING_FORMATS - {"base64url", "byte", "char", "color", "url"})
}


def _format(name: str) -> StringSet:
    return StringSet.of_format(name, DEFAULT_LIMITS)


def test_every_format_has_a_rule_of_its_own() -> None:
    # Which domains `idn-email` allows is known for a few scripts only; its test asks another library.
    assert {*RULES} == STRING_FORMATS - {"idn-email"}
    assert {*NUMBER_RULES} == {*INTEGERS}


def test_the_page_names_every_format() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json-schema.md").read_text("utf-8")
    section = page[page.index("`format` is enforced for") : page.index("Any other format is an annotation")]
    assert {*re.findall(r"`([a-z0-9-]+)`", section)} >= STRING_FORMATS | {*INTEGERS}


@pytest.mark.parametrize("name", CASES)
def test_the_official_cases(name: str) -> None:
    assert CASES[name]
    strings = _format(name)
    dfa = byte_dfa_of(strings.tree(), DEFAULT_LIMITS)
    for text, valid in CASES[name]:
        expected = valid and not (name == "hostname" and has_a_label(text))
        assert strings.contains(text) == expected, text
        assert dfa.accepts(json.dumps(text, ensure_ascii=False).encode()) == expected, text


@pytest.mark.parametrize(
    ("draft", "name"), [case for case in format_cases() if case[1] not in ("unknown", *NOT_ENFORCED)]
)
def test_the_official_cases_of_all_drafts(draft: str, name: str) -> None:
    assert format_cases()[draft, name]
    schema = {"$schema": DIALECTS[draft], "type": "string", "format": name}
    if name not in STRING_FORMATS:
        # Its cases are those of `pattern`, and of the format `regex`.
        assert name == "ecmascript-regex"
        return
    accepts = acceptor(schema)
    for text, valid in format_cases()[draft, name]:
        is_new = name == "hostname" and draft not in ("draft6", "draft4")
        expected = valid and not (is_new and has_a_label(text))
        assert accepts(json.dumps(text, ensure_ascii=False)) == expected, text


@pytest.mark.parametrize("year", [0, 1, 4, 100, 400, 1900, 2000, 2023, 2024, 2100, 9999])
def test_every_day_there_is(year: int) -> None:
    dates, moments = _format("date"), _format("date-time")
    # The year 0, which Python does not have, is a leap year as 2000 is.
    for month in range(14):
        for day in range(34):
            try:
                exists = bool(datetime.date(year or 2000, month, day))
            except ValueError:
                exists = False
            written = f"{year:04}-{month:02}-{day:02}"
            assert dates.contains(written) == exists
            assert moments.contains(f"{written}T00:00:00Z") == exists


@given(st.datetimes(timezones=st.timezones()) | st.datetimes(timezones=st.just(datetime.UTC)))
def test_moments_of_python(moment: datetime.datetime) -> None:
    offset = moment.utcoffset()
    assert offset is not None
    # Python has offsets of seconds, as places had before they had time zones.
    assert _format("date-time").contains(moment.isoformat()) == (offset.total_seconds() % 60 == 0)
    assert _format("time").contains(moment.isoformat()[11:]) == (offset.total_seconds() % 60 == 0)


@given(st.integers(0, 1439), st.sampled_from("+-"), st.integers(0, 23), st.sampled_from([0, 15, 30, 45]))
def test_leap_seconds_end_a_day_in_utc(local: int, sign: str, hours: int, minutes: int) -> None:
    offset = (hours * 60 + minutes) * (1 if sign == "+" else -1)
    for at in (local, (1439 + offset) % 1440):
        time = f"{at // 60:02}:{at % 60:02}:60{sign}{hours:02}:{minutes:02}"
        is_one = (at - offset) % 1440 == 1439
        assert _format("time").contains(time) == (is_one and minutes % 30 == 0)
        for day in ("06-30", "12-31", "07-01", "01-01", "03-31"):
            # The date in UTC is the day before where the offset takes it there.
            ends = day in ("07-01", "01-01") if at < offset else day in ("06-30", "12-31")
            listed = minutes == 0 and -12 * 60 <= offset <= 14 * 60
            assert _format("date-time").contains(f"1998-{day}T{time}") == (is_one and ends and listed)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_addresses_of_python(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    name = f"ipv{address.version}"
    for text in {str(address), address.exploded, str(address).upper()}:
        assert _format(name).contains(text)
        assert _format("uri").contains(f"http://{f'[{text}]' if address.version == 6 else text}:80/")
    assert not _format(f"ipv{10 - address.version}").contains(str(address))


@given(
    st.from_regex(r"\A[0-9a-fA-F:.]{2,20}\Z")
    | st.lists(st.sampled_from(["", "0", "1", "ab", "::", "1.2.3.4"])).map(":".join)
)
def test_a_text_that_is_not_an_address(text: str) -> None:
    for name in ("ipv4", "ipv6"):
        assert _format(name).contains(text) == RULES[name](text)


@given(st.uuids())
def test_uuids_of_python(given_: uuid.UUID) -> None:
    assert _format("uuid").contains(str(given_))
    assert not _format("uuid").contains(given_.hex)


FRAGMENTS = {
    "email": ["a", "A.b", '"', '"x y"', "@", ".", "-", "example", "[1.2.3.4]", "[IPv6:::1]", "é", " "],
    "hostname": ["a", "Z9", "-", "--", ".", "a" * 30, "_"],
    "uri": ["a", ":", "/", "//", "?", "#", "@", "%41", "%4", "[::1]", "1", "[", "é", " ", "<"],
    "uri-reference": ["a", ":", "/", "//", "?", "#", "@", "%41", "%4", "[::1]", "1", "[", "é", " ", "<"],
    "iri-reference": [
        "a",
        ":",
        "/",
        "?",
        "#",
        "%41",
        "é",
        "\ue000",
        "\ufffe",
        "\U000e0fff",
        "\U000e1000",
        "\U0010fffd",
        " ",
    ],
    "uri-template": ["a", "/", "{", "}", "{+x}", "{x:3}", "{x*,y}", "{", "%41", "%", " ", "'"],
    "json-pointer": ["/", "~", "~0", "~1", "~2", "a", "é", "\n"],
    "relative-json-pointer": ["0", "1", "01", "#", "/", "/a", "~0", "~"],
    "byte": ["A", "b", "/", "+", "Q==", "8=", "=", "-", "AAAA", "\n"],
    "base64url": ["A", "b", "_", "-", "Q==", "8=", "=", "/", "AAAA"],
    "char": ["a", "é", "\U0001f600", "\n"],
    "color": ["#", "fff", "aB0", "1", "g", "red", "TEAL", "fuch", "sia", "ſia", "blac", "k", "\u212a"],
    "url": ["a", ":", "/", "//", "?", "#", "@", "%41", "[::1]", "1", " "],
    "duration": ["P", "T", "1Y", "2M", "3D", "4H", "5M", "6S", "7W", "8"],
}


@pytest.mark.parametrize("text", ["fuchsia", "FUCHSIA", "fuchſia", "black", "blac\u212a"])
def test_a_name_of_a_colour_is_ascii(text: str) -> None:
    assert _format("color").contains(text) == RULES["color"](text) == text.isascii()


@given(st.data(), st.sampled_from(sorted(FRAGMENTS)))
def test_made_of_fragments(data: st.DataObject, name: str) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from(FRAGMENTS[name]), max_size=7)))
    assert _format(name).contains(text) == RULES[name](text), text


def test_a_relative_path_begins_without_a_colon() -> None:
    for name in ("uri-reference", "iri-reference"):
        assert [text for text in ("a:b", "./1:b", "1/b:c", "1:b", ":") if _format(name).contains(text)] == [
            "a:b",
            "./1:b",
            "1/b:c",
        ]


def test_internationalised_addresses() -> None:
    strings = _format("idn-email")
    for text, valid in (
        ("δοκιμή@παράδειγμα.gr", True),
        ("用户@例子.广告", True),
        ("a@b.example", True),
        ('"é ü"@bücher.example', True),
        ("a@Bücher.example", False),
        ("a@büc--her.example", True),
        ("a@ab--ücher.example", False),
        ("a@-ü.example", False),
        ("a@" + 12 * "ü", False),
        ("a b@ü", False),
        # Not normalised: a letter and a mark.
        ("user@cafe\u0301.example", True),
        ("cafe\u0301@example.com", True),
        ("user@\u0301cafe.example", False),
        ("user@ab--e\u0301.example", False),
        ("user@e\u0301-.example", False),
    ):
        assert strings.contains(text) == valid, text


def test_an_apostrophe_in_a_template() -> None:
    for text, valid in (("a'b", True), ("'", True), ("{'a'}", False), ("{a}'{b}", True)):
        assert _format("uri-template").contains(text) == valid, text


@given(st.binary(max_size=9))
def test_what_python_encodes(content: bytes) -> None:
    assert _format("byte").contains(base64.b64encode(content).decode())
    encoded = base64.urlsafe_b64encode(content).decode()
    assert _format("base64url").contains(encoded)
    assert _format("base64url").contains(encoded.rstrip("="))


@pytest.mark.parametrize("name", ["binary", "password", "html", "commonmark"])
def test_any_string_is_of_them(name: str) -> None:
    assert _format(name).is_everything


@pytest.mark.parametrize("name", [*NOT_ENFORCED, "int32", "phone", ""])
def test_others_have_no_strings(name: str) -> None:
    with pytest.raises(UnsupportedSchema, match="is not one of strings that are enforced"):
        _format(name)
