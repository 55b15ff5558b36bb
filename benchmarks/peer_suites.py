"""Patterns that the peers measure and test themselves with, so that a suite of our own choice is not the only one.

Those of outlines-core are its benchmark of regular expressions (`benchmarks/bench_regex_guide.py`), those of XGrammar its tests
of mask generation (`tests/python/test_regex_converter.py`). LLGuidance measures grammars in Lark; its lexemes are written as
patterns here (`parser/benches/compute_mask.rs`, `python/torch_tests/test_matcher.py`).
"""

from __future__ import annotations

from benchmarks.suite import Entry

_SPAN_WORDS = (
    "of resulting case which cultures a core extreme selflessness spiritual various However both vary in other "
    "secular the religious among moral and It object worldviews altruism traditional material aspect or life beings "
    "virtue is however opposite concern an practice it for s quality religions In Altruism animals happiness many "
    "become principle human selfishness may synonym"
).replace(" ", "|")
_EDGE = r"""['"\ ,]?"""
_SPAN = rf"({_EDGE}((?:{_SPAN_WORDS}){_EDGE})+{_EDGE}"
_ARGUMENT = r"([^|\(\)\n]{1,})"
_SPANS = rf"{_SPAN}\s\|\s{_ARGUMENT}\s\|\s{_SPAN[1:]}(\s\|\s\({_ARGUMENT}\s\|\s{_ARGUMENT}\))*\n)*"
_CLEAR_SPAN = rf"""['"\ ,]?(?:{_SPAN_WORDS})(?:['"\ ,]?(?:{_SPAN_WORDS}))*['"\ ,]{{0,2}}"""
_CLEAR_ARGUMENT = r"[^|()\n]+"
_CLEAR_TAIL = rf"(?:\s\|\s\({_CLEAR_ARGUMENT}\s\|\s{_CLEAR_ARGUMENT}\))*"
_CLEAR_SPANS = rf"(?:{_CLEAR_SPAN}\s\|\s{_CLEAR_ARGUMENT}\s\|\s{_CLEAR_SPAN}{_CLEAR_TAIL}\n)*"

_DAY, _MONTH = r"([1-9]|0[1-9]|1[0-9]|2[0-9]|3[0-1])", r"([1-9]|0[1-9]|1[0-2])"
_BETWEEN, _YEAR = r"(\.|-|/)", r"([0-9][0-9]|19[0-9][0-9]|20[0-9][0-9])"
_HOST = r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
_TO_255 = r"(25[0-5]|2[0-4]\d|[01]?\d\d?)"
_CLOCK = r"([01]\d|2[0123]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0123]):[0-5]\d)"
_CALENDAR = r"\d\d\d\d-(0[1-9]|1[0-2])-([0-2]\d|3[01])"

PEER_SUITES: tuple[Entry, ...] = (
    Entry("outlines-core: email", rf"{_NAME}(?:\.{_NAME})*@{_HOST}", ("a.b@c.de",), ("a@b",)),
    Entry(
        "outlines-core: complex_phone",
        r"\+?\d{1,4}?[-.\s]?\(?\d{1,3}?\)?[-.\s]?\d{1,4}[-.\s]?\d{1,4}[-.\s]?\d{1,9}",
        ("+1 (555) 010-1234",),
        ("12", "555-abc"),
    ),
    Entry("outlines-core: simple_phone", r"\+?[1-9][0-9]{7,14}", ("+4915112345",), ("123",)),
    Entry(
        "outlines-core: date",
        rf"{_DAY}{_BETWEEN}{_MONTH}{_BETWEEN}{_YEAR}|{_YEAR}{_BETWEEN}{_MONTH}{_BETWEEN}{_DAY}",
        ("31.12.1999", "2024-01-31"),
        ("1.1.1",),
    ),
    Entry("outlines-core: time", r"(0?[1-9]|1[0-2]):[0-5]\d\s?(am|pm)?", ("09:15 am",), ("13:15",)),
    Entry(
        "outlines-core: ip",
        r"(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)",
        ("127.0.0.1",),
        ("256.0.0.1",),
    ),
    Entry(
        "outlines-core: url",
        r"(https?:\/\/)?([\da-z\.-]+)\.([a-z\.]{2,6})([\/\w \.-]*)*\/?",
        ("https://example.org/a",),
        ("x",),
    ),
    Entry("outlines-core: ssn", r"\d{3}-\d{2}-\d{4}", ("078-05-1120",), ("078-05-112",)),
    Entry("outlines-core: complex_span", _SPANS, ("", "altruism | is | selflessness\n"), ("altruism",)),
    Entry("XGrammar: contains a", r".+a.+", ("bbbabb",), ("a", "bbb")),
    Entry("XGrammar: IPv4", rf"({_TO_255}.)({_TO_255}.)({_TO_255}.){_TO_255}", ("123.45.67.89",), ("1.2.3",)),
    Entry("XGrammar: date-time", rf"^{_CALENDAR}T{_CLOCK}$", ("2024-05-19T14:23:45Z",), ("2024-05-19",)),
    Entry("XGrammar: date", rf"^{_CALENDAR}$", ("2024-05-19",), ("2024-13-19",)),
    Entry("XGrammar: time", rf"^{_CLOCK}$", ("14:23:45Z",), ("24:23:45Z",)),
    Entry(
        "XGrammar: email",
        r"""^([\w!#$%&'*+/=?^_`{|}~-]+(\.[\w!#$%&'*+/=?^_`{|}~-]+)*"""
        r"""|"([\w!#$%&'*+/=?^_`{|}~\-(),:;<>@[\].]|\\")+")@(([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+"""
        r"""[a-z0-9]([a-z0-9-]*[a-z0-9])?)$""",
        ("simple@example.com", '"a@b"@c.de'),
        ("a@b",),
    ),
    Entry("LLGuidance: digits", r"\d+", ("12",), ("", "1a")),
    Entry("LLGuidance: alternatives", r"(foo[12]23|bar)", ("foo123", "bar"), ("foo",)),
    Entry("LLGuidance: numbers", r"[0-9]+(,[0-9]+)*", ("1,23",), ("1,",)),
    Entry("LLGuidance: up to END", r".*END", ("a END",), ("EN",)),
    Entry("LLGuidance: class, then END", r"[a-zA-Z0-9 ]*END", ("a END",), ("a-END",)),
    Entry("LLGuidance: A, B, C", r".*A.*B.*C", ("xAyBzC",), ("ACB",)),
    Entry("LLGuidance: three ends", r".*(END1|END2|END3)", ("a END2",), ("END4",)),
)

# Languages equal to those of patterns on which `re` may take exponential time to say no.
QUICK_FOR_RE = {
    "outlines-core: url": r"(?:https?://)?[\da-z.-]+\.[a-z.]{2,6}[/\w .-]*/?",
    "outlines-core: complex_span": _CLEAR_SPANS,
}


def judged_by(entry: Entry) -> str:
    """Return the pattern that `re` judges texts by."""
    return QUICK_FOR_RE.get(entry.name, entry.pattern)
