"""Patterns among the stops of `StopStrings`: against Python's `re`, which searches the decoded text after each token."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.pattern_occurrences import longest_match
from logitkit.compiler.language import pattern_dfa
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples
from tests.processors.four_logits import AB
from tests.processors.stops import asked
from tests.registry import EOS, TOKENS, ids, vocabulary

Stop = str | int | re.Pattern[str]


def expected(stops: Sequence[Stop], output: Sequence[int], tokens: Sequence[bytes | None] = TOKENS) -> tuple[int, ...]:
    """Return which stop ends first, where it begins and ends in bytes, and its token; of several, the one that begins first."""
    said = b""
    for number, token in enumerate(output):
        if token == EOS:
            break
        start, said = len(said), said + (tokens[token] or b"")
        # Bytes that are no character become lone surrogates, which no stop here matches.
        text = said.decode("utf-8", "surrogateescape")
        found = []
        for which, stop in enumerate(stops):
            if isinstance(stop, int):
                if stop == token:
                    found.append((len(said), start, which))
                continue
            pattern = stop if isinstance(stop, re.Pattern) else re.compile(re.escape(stop))
            found += [
                (size(text[:end]), size(text[:begin]), which)
                for begin in range(len(text))
                for end in range(begin + 1, len(text) + 1)
                if pattern.fullmatch(text, begin, end)
            ]
        if found:
            end, begin, which = min(found)
            return which, begin, end, number
    return -1, -1, -1, -1


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


ATOMS = ("a", "b", "[ab]", "1", "[0-9]", "é", "[é€]", "cat", "(ab|1)", "(a|abc)")
REPEATS = ("", "", "?", "{2}", "{1,3}", "{0,2}")
patterns = (
    st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)), min_size=1, max_size=4)
    .map(lambda parts: "".join(map("".join, parts)))
    .filter(lambda pattern: not re.fullmatch(pattern, ""))
    .map(re.compile)
)
stops = st.lists(
    patterns | st.sampled_from(["a", "ab", "1,", "é", "dog", *ids(b"20", b",")]) | patterns, min_size=1, max_size=3
)
likely = ids(
    b"a", b"b", b"ab", b"abc", b"1", b"10", b"20", b"1,", b"\xc3", b"\xa9", b"\xc3\xa9", b"\xe2", b"\x82\xac", b"cat"
)
outputs = st.lists(st.sampled_from(likely) | st.sampled_from([*range(len(TOKENS))]), max_size=9)


@settings(max_examples=examples(400), deadline=None)
@given(stops, outputs)
def test_against_the_search_of_re(stops: list[Stop], output: list[int]) -> None:
    processor = lk.StopStrings(stops, vocabulary())
    wanted = expected(stops, output)
    assert asked(processor, output) == wanted
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert asked(processor, output) == wanted


@settings(max_examples=examples(100), deadline=None)
@given(stops, outputs)
def test_a_stream_holds_back_what_may_be_a_stop(stops: list[Stop], output: list[int]) -> None:
    stream = lk.TextStream(vocabulary(), stops)
    shown = "".join([stream.feed(token) for token in output])
    which, begin, _, _ = expected(stops, output)
    said = b"".join(TOKENS[token] or b"" for token in itertools.takewhile(lambda token: token != EOS, output))
    if which >= 0:
        assert shown == said[:begin].decode("utf-8", "replace")
        assert stream.stop == stops[which]
    else:
        assert said.decode("utf-8", "replace").startswith(shown) or "\ufffd" in said.decode("utf-8", "replace")
        assert shown + stream.finish() == said.decode("utf-8", "replace")


@pytest.mark.parametrize("pattern", ["a?b{1,2}c", "(ab|ba){2}", "[ab]{2,4}c", "aa?ba", "(a|ab)(c|bcd)?c"])
def test_no_more_is_held_back_than_may_be_a_stop(pattern: str) -> None:
    """All beginnings of matches are listed, so that the longest one with which a text ends is known."""
    tokens = {letter: ids(letter.encode())[0] for letter in "abcd"}
    processor = lk.StopStrings([re.compile(pattern)], vocabulary())
    matches = [
        "".join(m)
        for n in range(1, 8)
        for m in itertools.product("abcd", repeat=n)
        if re.fullmatch(pattern, "".join(m))
    ]
    beginnings = {match[:end] for match in matches for end in range(len(match))}
    context = lk.Context.of([[]], 72)
    for text in map("".join, itertools.product("abc", repeat=6)):
        state = processor.init_state(context)
        for number, letter in enumerate(text, 1):
            state = processor.advance(state, torch.tensor([tokens[letter]]))
            if processor.fired(state):
                break
            held = max(end for end in range(number + 1) if text[number - end : number] in beginnings)
            assert processor.pending(state).tolist() == [held], text[:number]


@pytest.mark.parametrize(
    ("stops", "text", "wanted"),
    [
        ([re.compile("[0-9]{3}")], b"ab1234", (0, 2, 5)),
        # The first end wins, and of several with one end the first begin, then the first in the list.
        ([re.compile("ab?"), re.compile("b")], b"cab", (0, 1, 2)),
        ([re.compile("b"), re.compile("a?b")], b"cab", (1, 1, 3)),
        ([re.compile("[ab]b"), "ab"], b"cab", (0, 1, 3)),
        ([re.compile("c{4}"), "ab", re.compile("a[bc]")], b"cab", (1, 1, 3)),
        ([re.compile("END", re.IGNORECASE)], b"at the end", (0, 7, 10)),
        ([re.compile(r"\n{2}"), "x"], b"a\n\nb", (0, 1, 3)),
        ([re.compile("[^a-z]{2}")], "aé€".encode(), (0, 1, 6)),
        # The name of a special token beside a pattern, spelled in letters.
        (["<s>a", re.compile("b{2}")], b"b<s>a", (0, 1, 5)),
    ],
    ids=str,
)
def test_by_hand(stops: list[Stop], text: bytes, wanted: tuple[int, ...]) -> None:
    every_byte = lk.Vocabulary(
        [*(bytes([byte]) for byte in range(256)), None, None], eos_ids=[256], special={"<s>": 257}
    )
    processor = lk.StopStrings(stops, every_byte)
    assert asked(processor, list(text))[:3] == wanted


def test_special_tokens_beside_patterns() -> None:
    special = lk.Vocabulary([b"a", b"b", b"c", None, None, None], eos_ids=[3], special={"<s>": 4, "<x>": 5})
    processor = lk.StopStrings([re.compile("ab{1,2}c"), "a<s>b", "<x>"], special)
    assert asked(processor, [0, 4, 1])[0] == 1
    # A token that no stop names changes nothing within a pattern; one of another stop does not either.
    assert asked(processor, [0, 4, 2])[0] == -1
    assert asked(processor, [0, 1, 4, 1, 2])[0] == 0
    assert asked(processor, [0, 1, 5])[0] == 2


def test_a_prompt_may_begin_a_match() -> None:
    one, ten = ids(b"1", b"10")
    processor = lk.StopStrings([re.compile("[0-9]{3}")], vocabulary(), include_prompt=True)
    assert asked(processor, [ten], prompt=[one]) == (0, -1, 2, 0)
    without = lk.StopStrings([re.compile("[0-9]{3}")], vocabulary())
    assert asked(without, [ten], prompt=[one]) == (-1, -1, -1, -1)


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_in_a_real_vocabulary(tekken: lk.Vocabulary, data: st.DataObject) -> None:
    stops: list[Stop] = [
        re.compile("[0-9]{2,4}[.,]"),
        re.compile("(the|and) [a-z]{1,6} "),
        "\n\n",
        re.compile("[A-Z]{3}"),
    ]
    processor = lk.StopStrings(stops, tekken)
    output = data.draw(st.lists(st.integers(1000, 50_000), min_size=1, max_size=12))
    assert asked(processor, output) == expected(stops, output, tekken.tokens)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert asked(processor, output) == expected(stops, output, tekken.tokens)


@pytest.mark.parametrize(
    ("stop", "message"),
    [
        (re.compile("a*"), r"stops\[1\] is the pattern 'a\*', which matches the empty text and so every text"),
        (re.compile("a?b?"), "which matches the empty text"),
        (
            re.compile("a+"),
            r"which matches texts of unlimited length, so that .*; limit each repetition, as in \[0-9\]\{1,20\}",
        ),
        (re.compile("a(b|c*)d"), "unlimited length"),
        (re.compile("^ab"), "which has an anchor at position 0; a stop depends on its own text only, so leave it out"),
        (re.compile("ab$"), "an anchor at position 2"),
        (re.compile("(?m)^a"), "an anchor"),
        (re.compile(r"\bab"), "an anchor at position 0"),
        (re.compile("a(?=b)"), "which has a lookaround at position 1"),
        (re.compile("(x|(?<!a)b)"), "a lookaround"),
        (re.compile("[^\\s\\S]"), "which matches no text; give one that does"),
        (re.compile(b"a"), r"stops\[1\] is the pattern b'a' of bytes; compile a str"),
    ],
    ids=str,
)
def test_patterns_that_are_refused(stop: Any, message: str) -> None:
    for make in (lk.StopStrings, lambda given, v: lk.TextStream(v, given)):
        with pytest.raises(ConfigurationError, match=message):
            make(["a", stop], vocabulary())


def test_other_refusals() -> None:
    with pytest.raises(PatternSyntaxError, match="reference"):
        lk.StopStrings([re.compile(r"(a)\1")], AB)
    with pytest.raises(PatternTooLarge, match="more than 100 states"):
        lk.StopStrings([re.compile("a[ab]{12}c")], vocabulary(), limits=lk.Limits(states=100))
    with pytest.raises(
        PatternTooLarge, match=r"steps.*\. In a stop, repeat characters of one byte, such as \[0-9\] in place of"
    ):
        lk.StopStrings([re.compile("a[ab]{30}c")], vocabulary())
    # Digits of several bytes.
    with pytest.raises(PatternTooLarge):
        lk.StopStrings([re.compile(r"\d{4}-\d{2}-\d{2}")], vocabulary())
    assert lk.StopStrings([re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)], vocabulary()).automaton.states < 30
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is the pattern 'a\*'"):
        lk.from_config({"stop_strings": [{"pattern": "a*"}]}, vocabulary())
    for wrong in ({"pattern": 3}, {"pattern": "a", "flags": "i"}):
        with pytest.raises(ConfigurationError, match=r'\[0\] is .*; allowed is \{"pattern": "\.\.\."\}'):
            lk.from_config({"stop_strings": [wrong]}, vocabulary())


def test_configurations_and_copies() -> None:
    made = lk.StopStrings(["a", re.compile("[b-d]{2}", re.IGNORECASE), 5], vocabulary())
    config = lk.to_config(made)
    assert config == {"stop_strings": [{"hex": "61"}, {"pattern": "(?i)[b-d]{2}"}, 5]}
    again = lk.from_config(config, vocabulary())
    assert again == made
    for other in (again, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert asked(other, ids(b"1", b"b", b"c")) == asked(made, ids(b"1", b"b", b"c")) == (1, 1, 3, 2)
    # An equal text is another stop.
    assert (
        lk.StopStrings(["ab"], vocabulary()).automaton is not lk.StopStrings([re.compile("ab")], vocabulary()).automaton
    )


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [("ab?", 2), ("é{1,3}", 6), ("a{2}|b", 2), ("a*", None), ("(ab)*c", None), ("x", 1), ("", 0)],
)
def test_the_longest_match(pattern: str, longest: int | None) -> None:
    assert longest_match(pattern_dfa(pattern, DEFAULT_LIMITS)) == longest
