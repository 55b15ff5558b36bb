"""Patterns are accepted and refused as by `re`, except where the dialect differs."""

from __future__ import annotations

import os
import re
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.errors import ConfigurationError, PatternSyntaxError
from logitkit.patterns import MAX_NESTING, parse

FRAGMENTS = (
    *"()[]{}|*+?\\^$.-,:=!<>#&~PNiamsxLu01238abenUxdwsDWSBbAZ 'é\n",
    *(
        "(?",
        "(?P<",
        "(?i)",
        "(?x)",
        "(?:",
        "(?#",
        "{1,2}",
        "{,",
        "[^",
        "\\N{DIGIT ONE}",
        "\\u00e9",
        "(?<=",
        "(?<!",
    ),
    *(
        "(?=",
        "\\x4",
        "(?i-",
        "(?-s:",
        "(?P=",
        "(?(",
        "\\0",
        "\\14",
        "(?>",
        "(?au",
        "++",
        "[a-",
        "(?u)",
        "(?a)",
        "(?i:",
    ),
)


def _refusal_of_re(pattern: str) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except (re.error, ValueError, OverflowError) as error:
            return str(error)
    return None


def _refusal(pattern: str) -> PatternSyntaxError | None:
    try:
        parse(pattern)
    except PatternSyntaxError as error:
        return error
    return None


@settings(
    max_examples=4000 if os.environ.get("CI") else 1000,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))
def test_junk(pattern: str) -> None:
    theirs, ours = _refusal_of_re(pattern), _refusal(pattern)
    if ours is not None and theirs is None:
        assert "its language is not regular" in ours.reason
    if ours is None and theirs is not None:
        assert "look-behind requires fixed-width pattern" in theirs
    if ours is not None:
        assert 0 <= ours.position <= len(pattern)
        assert str(ours).startswith(ours.reason)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "|",
        "()",
        "(?:)*",
        "(?:^)*",
        "(?=a)*",
        "(?!)*",
        "(?#a\\)b)",
        "a(?#b)*",
        "(?x)a *",
        "(?x)(?#a) (?i) # c\n a",
        "(?x)a#b\\\nc\nd",
        "(?i)(?s)a",
        "(?u)a",
        "(?u)(?u:a)",
        "(?a)(?u:a)",
        "(?-i:a)",
        "a{",
        "a{}",
        "a{,}",
        "a{,3}",
        "a{1",
        "a{1,x}",
        "{}",
        "x{1}{",
        "]",
        "}",
        "[]a]",
        "[^]a]",
        "[a-]",
        "[-a]",
        "[[a]",
        "[a&&c||d~~e!--b]",
        "[\\d-]",
        "[\\b]",
        "[\\1]",
        "\\0",
        "\\08",
        "\\012",
        "\\141",
        "\\377",
        "\\ ",
        "\\é",
        "\\N{LATIN SMALL LETTER A}",
        "\\N{latin small letter a}",
        "(?P<é>a)",
        "a{4294967294}",
        "\ud800",
        "(?<=^a|\\bb)",
        "((((a)))){2}",
    ],
)
def test_accepted_by_both(pattern: str) -> None:
    assert _refusal_of_re(pattern) is None
    assert _refusal(pattern) is None


@pytest.mark.parametrize("pattern", ["(?<=a|bc)d", "(?<=a*)b", "(?<!a{1,3})b", "\\p{L}", "[\\p{Lu}\\P{Greek}]"])
def test_accepted_beyond_re(pattern: str) -> None:
    assert _refusal_of_re(pattern) is not None
    assert _refusal(pattern) is None


def test_template_flag_refused() -> None:
    """Python 3.11 takes the undocumented flag `t`; later versions do not know it."""
    error = _refusal("(?t)a")
    assert error is not None
    assert error.position == 0


def test_nesting_limit() -> None:
    assert _refusal("(?:a|b*" * MAX_NESTING + ")" * MAX_NESTING) is None
    error = _refusal("(" * 5000 + ")" * 5000)
    assert error is not None
    assert error.position == MAX_NESTING
    assert str(MAX_NESTING) in error.reason


def test_nesting_counts_open_groups_only() -> None:
    assert _refusal("(a)" * 5000) is None
    assert _refusal("[" + "(" * 5000 + "]") is None


def test_height_stays_below_what_recursion_bears() -> None:
    """Repetition, two atomic groups, alternatives and a sequence: five nodes a group are the most."""
    nested = "x"
    for _ in range(MAX_NESTING):
        nested = f"(?:{nested}y|z)*+"
    level: list[object] = [parse(nested)]
    height = 0
    while level:
        level = [child for parent in level for child in _children(parent)]
        height += 1
    assert MAX_NESTING < height <= 5 * MAX_NESTING + 2


def _children(node: object) -> list[object]:
    found: list[object] = []
    for name in ("node", "parts", "options"):
        value = getattr(node, name, ())
        found.extend(value if isinstance(value, tuple) else [value])
    return found


def test_bytes_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be str, not bytes"):
        parse(b"a")  # type: ignore[arg-type]
