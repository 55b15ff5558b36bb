"""`TextStream`: the pieces are safe to show, and together they are the text up to the stop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge, VocabularyError
from tests.examples import examples
from tests.processors.stops import expected
from tests.registry import EOS, TOKENS, ids, vocabulary

E = "é".encode()

# Ids:                      0     1     2       3      4       5     6 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", E[:1], E[1:], None, None], eos_ids=[6])


def fed(stream: lk.TextStream, *tokens: int) -> list[str]:
    return [stream.feed(token) for token in tokens]


def test_text_is_shown_at_once_where_nothing_can_stop_it() -> None:
    stream = lk.TextStream(AB)
    assert fed(stream, 0, 2, 1) == ["a", "ab", "b"]
    assert stream.finish() == ""
    assert stream.stop is None


def test_half_a_character_waits_for_the_other_half() -> None:
    assert fed(lk.TextStream(AB), 0, 3, 4, 1) == ["a", "", "é", "b"]
    assert fed(lk.TextStream(AB), 3, 0) == ["", "\ufffda"]
    assert fed(lk.TextStream(AB), 4, 0) == ["\ufffd", "a"]
    stream = lk.TextStream(AB)
    assert fed(stream, 0, 3) == ["a", ""]
    assert stream.finish() == "\ufffd"


def test_the_beginning_of_a_stop_waits_for_its_end() -> None:
    assert fed(lk.TextStream(AB, ["abb"]), 0, 0, 1, 0, 3) == ["", "a", "", "ab", "a"]
    stream = lk.TextStream(AB, ["abb"])
    assert fed(stream, 0, 1) == ["", ""]
    assert stream.finish() == "ab"


def test_nothing_of_a_stop_is_shown_and_nothing_behind_it() -> None:
    stream = lk.TextStream(AB, ["bb", "aab"])
    assert fed(stream, 1, 0, 2, 0, 1) == ["", "b", "", "", ""]
    assert stream.stop == "aab"
    assert stream.ended
    assert stream.finish() == stream.feed([0, 0]) == ""


def test_a_stop_may_be_shown_itself() -> None:
    stream = lk.TextStream(AB, ["ba"], include_stop=True)
    assert fed(stream, 0, 1, 2) == ["a", "", "ba"]
    assert stream.stop == "ba"


def test_stops_by_id() -> None:
    for special, shown in ((5, "a"), (2, "a")):
        stream = lk.TextStream(AB, [special, "bb"])
        assert fed(stream, 0, special) == [shown, ""]
        assert stream.stop == special
    assert fed(lk.TextStream(AB, [2], include_stop=True), 0, 2, 0) == ["a", "ab", ""]
    # Text held back for another stop is shown when a stop by id comes.
    assert fed(lk.TextStream(AB, [5, "ab"]), 0, 5) == ["", "a"]


def test_the_stop_is_given_back_as_it_was_given() -> None:
    for stop in ("ab", b"ab", 2):
        stream = lk.TextStream(AB, iter([stop]))
        stream.feed(2)
        assert stream.stop == stop
        assert type(stream.stop) is type(stop)


def test_eos_ends_the_text() -> None:
    stream = lk.TextStream(AB, ["ab"])
    assert fed(stream, 1, 0, 6, 0, 0) == ["b", "", "a", "", ""]
    assert stream.ended
    assert stream.stop is None
    assert fed(lk.TextStream(AB, [6]), 0, 6) == ["a", ""]


def test_tokens_without_text_and_no_token_change_nothing() -> None:
    assert fed(lk.TextStream(AB, ["ab"]), 5, 0, 5, -1, 1) == ["", "", "", "", ""]
    assert fed(lk.TextStream(AB), 3, 5, 4) == ["", "", "é"]


def test_what_ids_may_be() -> None:
    for several in ([0, 1], (0, 1), torch.tensor([0, 1]), np.array([0, 1]), range(2)):
        assert lk.TextStream(AB).feed(several) == "ab"
    for one in (0, torch.tensor(0), np.int64(0)):
        assert lk.TextStream(AB).feed(one) == "a"
    assert lk.TextStream(AB).feed([]) == ""


def test_what_ids_may_not_be() -> None:
    stream = lk.TextStream(AB)
    with pytest.raises(VocabularyError, match="ids has the token 7, but the vocabulary has ids from 0 to 6"):
        stream.feed([0, 7])
    for wrong in (1.0, "a", None, True, [0.5]):
        with pytest.raises(ConfigurationError, match=r"ids has .* of type"):
            stream.feed(wrong)  # type: ignore[arg-type]
    assert stream.feed(1) == "b"


def test_what_stops_may_not_be() -> None:
    with pytest.raises(ConfigurationError, match="stops is the single text 'a'"):
        lk.TextStream(AB, "a")
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is empty"):
        lk.TextStream(AB, [""])
    with pytest.raises(ConfigurationError, match="stops is 3"):
        lk.TextStream(AB, 3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="include_stop is 'yes'"):
        lk.TextStream(AB, ["a"], include_stop="yes")  # type: ignore[arg-type]
    with pytest.raises(PatternTooLarge, match="more than 2 states"):
        lk.TextStream(AB, ["abab"], limits=lk.Limits(states=2))
    with pytest.raises(VocabularyError, match="vocabulary is of type str"):
        lk.TextStream("a")  # type: ignore[arg-type]


def pieces(stream: lk.TextStream, tokens: Sequence[int], cuts: Sequence[int]) -> list[str]:
    """Feed the tokens in groups."""
    bounds = [0, *sorted(min(cut, len(tokens)) for cut in cuts), len(tokens)]
    shown = [stream.feed(tokens[a:b]) for a, b in pairwise(bounds)]
    return [*shown, stream.finish()]


def trimmed(stops: Sequence[bytes | int], tokens: Sequence[int], include_stop: bool) -> tuple[int, str]:
    """The plain meaning: find the first stop in the whole, cut, decode."""
    which, begin, end, _ = expected(stops, [], tokens, TOKENS)
    said = list(tokens[: tokens.index(EOS)]) if EOS in tokens else tokens
    whole = b"".join(TOKENS[i] or b"" for i in (tokens if which >= 0 else said))
    cut = len(whole) if which < 0 else end if include_stop else begin
    return which, whole[:cut].decode("utf-8", errors="replace")


_ids = st.integers(0, len(TOKENS) - 1)
_likely = st.sampled_from(
    ids(*(bytes([c]) for c in b"abc1"), b"ab", b"cat", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"a\xc3")
)
_stop = (
    st.lists(st.sampled_from(["a", "b", "ab", "cat", "é", "€", "1"]), min_size=1, max_size=4).map("".join)
    | st.lists(st.sampled_from([b"\xc3", b"\xa9", b"\xe2\x82", b"a"]), min_size=1, max_size=3).map(b"".join)
    | _ids
)


@settings(max_examples=examples(500))
@given(st.lists(_stop, max_size=4), st.lists(_ids | _likely | _likely), st.lists(st.integers(0, 40)), st.booleans())
def test_all_pieces_are_the_trimmed_whole(
    stops: list[str | bytes | int], tokens: list[int], cuts: list[int], include_stop: bool
) -> None:
    plain = [s.encode() if isinstance(s, str) else s for s in stops]
    which, whole = trimmed(plain, tokens, include_stop)
    stream = lk.TextStream(vocabulary(), stops, include_stop)
    assert "".join(pieces(stream, tokens, cuts)) == whole
    assert stream.stop == (None if which < 0 else stops[which])


@settings(max_examples=examples(200))
@given(st.lists(_stop, max_size=3), st.lists(_likely, max_size=30))
def test_every_piece_is_safe_and_nothing_is_held_back_without_need(
    stops: list[str | bytes | int], tokens: list[int]
) -> None:
    """The text shown after a token excludes the longest beginning of a stop at its end, and half a character."""
    plain = [s.encode() if isinstance(s, str) else s for s in stops]
    texts = [s for s in plain if isinstance(s, bytes)]
    stream, shown = lk.TextStream(vocabulary(), stops), ""
    for n, token in enumerate(tokens, 1):
        shown += stream.feed(token)
        which, whole = trimmed(plain, tokens[:n], False)
        if which >= 0:
            assert shown == whole
            return
        said = b"".join(TOKENS[i] or b"" for i in tokens[:n])
        possible = max((k for t in texts for k in range(1, len(t)) if said.endswith(t[:k])), default=0)
        sure = said[: len(said) - possible]
        half = next((k for k in (1, 2, 3) if _begins_character(sure[-k:])), 0) if sure else 0
        assert shown == sure[: len(sure) - half].decode("utf-8", errors="replace")


def _begins_character(end: bytes) -> bool:
    """Whether bytes are the beginning of a character, and not the whole of it."""
    try:
        end.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start == 0
    return False


@settings(max_examples=30)
@given(st.data())
def test_in_a_real_vocabulary(tekken: lk.Vocabulary, data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.integers(1000, tekken.size - 1), min_size=1, max_size=30))
    text = tekken.decode(tokens)
    begin = data.draw(st.integers(0, len(text) - 1))
    stop = text[begin : begin + data.draw(st.integers(1, 12))]
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=8))
    stream = lk.TextStream(tekken, [stop])
    assert "".join(pieces(stream, tokens, cuts)) == text[: text.find(stop)].decode("utf-8", errors="replace")
    assert stream.stop == stop
    assert "".join(pieces(lk.TextStream(tekken), tokens, cuts)) == text.decode("utf-8", errors="replace")


def test_one_automaton_serves_streams_and_processors() -> None:
    stops = lk.StopStrings(["abab"], AB)
    assert lk.TextStream(AB, ["abab"])._automaton is stops.automaton
