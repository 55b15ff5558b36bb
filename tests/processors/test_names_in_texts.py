"""Stops and bans in which names of special tokens stand beside other text.

The oracle tries every way to write a text, the token or the name, in every place of the tokens. Ids without text that a text does
not name change nothing in it.
"""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.errors import ConfigurationError, PatternTooLarge
from tests.batches import tensor_path
from tests.examples import examples
from tests.processors.special_tokens import EOS, IDS, NAMES, OTHER, PIECES, THINK, TOKENS, contains

# Texts of pieces and names; the lower-case letters and brackets also spell the beginnings of names.
# EOS by itself is refused, as no other EOS remains.
PIECES_OF_TEXTS = st.sampled_from(["a", "b", "<", "t>", *NAMES])
TEXTS = st.lists(PIECES_OF_TEXTS, min_size=1, max_size=4).map("".join).filter(lambda text: text != "<e>")


@settings(max_examples=examples(300))
@given(st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_bans_as_a_plain_search_has_them(texts: list[str], data: st.DataObject) -> None:
    automaton = lk.BannedStrings(texts, TOKENS).automaton
    state, ids = automaton.start, list[int]()
    for _ in range(9):
        legal = [t for t in IDS if automaton.next(state, t) != DEAD]
        assert legal == [t for t in IDS if not any(contains([*ids, t], text) for text in texts)]
        going_on = [t for t in legal if t != EOS]
        if not going_on:
            break
        ids.append(data.draw(st.sampled_from(going_on)))
        state = automaton.next(state, ids[-1])


@settings(max_examples=examples(200))
@given(st.lists(TEXTS, min_size=1, max_size=3), st.lists(st.sampled_from(IDS), max_size=10))
def test_stops_as_a_plain_search_has_them(texts: list[str], ids: list[int]) -> None:
    stops = lk.StopStrings(texts, TOKENS)
    length = next((n for n in range(len(ids) + 1) if any(contains(ids[:n], text) for text in texts)), None)
    end = ids.index(EOS) + 1 if EOS in ids else None
    context = lk.Context.of([[]], vocabulary_size=len(PIECES))
    for path in (nullcontext(), tensor_path()):
        with path:
            state = stops.advance(stops.init_state(context), torch.tensor([ids]).long())
        fires = length is not None and (end is None or length <= end)
        assert bool(stops.fired(state)[0]) == fires
        if fires:
            place = stops.place(state)
            assert int(place.token[0]) == (length or 0) - 1
            assert contains(ids[:length], texts[int(stops.which(state)[0])])
    stream = lk.TextStream(TOKENS, texts)
    shown = "".join(stream.feed(token) for token in ids) + stream.finish()
    read = b"".join(PIECES[token] or b"" for token in ids[: min([n for n in (length, end) if n], default=len(ids))])
    if stream.stop is None:
        assert shown == read.decode()
    else:
        # The stop itself is cut off, and nothing before it.
        assert read.decode().startswith(shown)
        assert not contains(list(spelled(shown)), str(stream.stop))
        assert len(read) - len(shown) <= len(str(stream.stop)) + max(len(piece or b"") for piece in PIECES)


def spelled(text: str) -> list[int]:
    """Return a text as tokens of one character."""
    return [PIECES.index(character.encode()) for character in text]


def test_a_stream_shows_the_text_before_a_stop() -> None:
    stream = lk.TextStream(TOKENS, ["a<t>b", "ba"])
    # A possible beginning of a stop is held back; the token has no text.
    shown = [stream.feed(token) for token in (1, 0, THINK, OTHER, 2, 0, OTHER, THINK, 1)]
    assert (shown, stream.finish(), stream.stop) == (["", "", "", "", "", "", "", "", ""], "", "ba")
    stream = lk.TextStream(TOKENS, ["a<t>b"])
    shown = [stream.feed(token) for token in (1, 0, THINK, OTHER, 2, 0, OTHER, THINK, 1)]
    assert (shown, stream.finish(), stream.stop) == (["b", "", "", "", "a<", "", "", "", ""], "", "a<t>b")
    kept = lk.TextStream(TOKENS, ["a<t>b"], include_stop=True)
    assert kept.feed([1, 0, 5, 4, 1, 1]) == "ba<t>b"


def test_case_is_ignored_in_names_too() -> None:
    banned = lk.BannedStrings(["A<T>b", "tt"], TOKENS, ignore_case=True).automaton

    def illegal(*ids: int) -> list[int]:
        state = banned.start
        for token in ids:
            state = banned.next(state, token)
        return [t for t in IDS if banned.next(state, t) == DEAD]

    assert (illegal(0, THINK), illegal(7, 6), illegal(0, 5, OTHER, 4), illegal(3)) == ([1], [1], [1], [3, 6])
    assert (illegal(0, THINK, THINK), illegal(0, 5, THINK)) == ([], [3, 6])


def test_a_ban_of_an_ending_leaves_a_way_to_end() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], 2, special={"<e>": 2})
    # After `a` nothing would be legal.
    assert lk.BannedStrings(["a<e>", "aa", "ab"], vocabulary).matches("b")
    for strings in (["a<e>", "aa", "ab"], ["a<e>", "b<e>"]):
        automaton = lk.BannedStrings(strings, vocabulary).automaton
        assert automaton.next(automaton.start, 0) == DEAD
    # The same where every byte is a token.
    whole = lk.Vocabulary([*(bytes([c]) for c in range(256)), None], 256, special={"<e>": 256})
    automaton = lk.BannedStrings(["a<e>", *(b"a" + bytes([c]) for c in range(256))], whole).automaton
    assert [t for t in range(257) if automaton.next(automaton.start, t) == DEAD] == [ord("a")]
    both = lk.Intersection((lk.Regex("a|b", vocabulary), lk.BannedStrings(["a<e>"], vocabulary))).automaton
    assert [t for t in range(3) if both.next(both.start, t) != DEAD] == [1]


def test_a_stop_is_complete_only_where_it_ends() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], 2, special={"<e>": 2})
    # After `a` every token completes a stop, but `a` does not.
    stops = lk.StopStrings(["a<e>", "aa", "ab"], vocabulary)
    context = lk.Context.of([[]] * 4, vocabulary_size=3)
    for path in (nullcontext(), tensor_path()):
        with path:
            state = stops.advance(stops.init_state(context), torch.tensor([[0, -1], [0, 0], [0, 1], [0, 2]]))
        assert stops.fired(state).tolist() == [False, True, True, True]


def test_names_ignore_case_as_spellings_do() -> None:
    names = {"s<t>": 257, "<t>": 258, "<im>": 259, "<\u00df>": 260}
    vocabulary = lk.Vocabulary([*(bytes([c]) for c in range(256)), *[None] * 5], 256, special=names)

    def banned(text: str, *ids: int) -> list[int]:
        automaton = lk.BannedStrings([text], vocabulary, ignore_case=True).automaton
        state = automaton.start
        for token in ids:
            state = automaton.next(state, token)
        return [t for t in range(256, 261) if automaton.next(state, t) == DEAD]

    assert banned("\u00df<t>", *"\u00df".encode()) == [258]
    assert banned("x<\u0130M>", ord("x")) == banned("x<\u0131m>", ord("x")) == [259]
    assert (banned("x<ss>", ord("x")), banned("x<\u1e9e>", ord("x"))) == ([], [260])


def test_many_bans_beside_one_with_a_name() -> None:
    vocabulary = lk.Vocabulary([*(bytes([c]) for c in range(256)), None, None], 256, special={"<x>": 257})
    texts = [f"{n:04d}" for n in range(2_000)]
    automaton = lk.BannedStrings([*texts, "0<x>1"], vocabulary).automaton
    state = automaton.start
    for token in (ord("0"), 257):
        state = automaton.next(state, token)
    assert [t for t in range(258) if automaton.next(state, t) == DEAD] == [ord("1")]
    for token in b"00":
        state = automaton.next(state, token)
    assert [t for t in range(258) if automaton.next(state, t) == DEAD] == list(b"0123456789")


def test_refusals() -> None:
    for make in (
        lambda t: lk.then(None, lk.Regex("a", TOKENS), t),
        lambda t: lk.ThinkingBudget(1, t, TOKENS),
        lambda t: lk.ThinkingBudget(1, "a", TOKENS, start=t),
        lambda t: lk.StopStrings(["a", t], TOKENS),
        lambda t: lk.BannedStrings([t], TOKENS),
        lambda t: lk.TextStream(TOKENS, [t]),
    ):
        make("a<t>" * 8)
        with pytest.raises(
            ConfigurationError, match="contains more than 8 names of special tokens; allowed are up to 8"
        ):
            make("a<t>" * 9)
    for make in (lambda t: lk.then(None, lk.Regex("a", TOKENS), t), lambda t: lk.ThinkingBudget(1, t, TOKENS)):
        with pytest.raises(
            ConfigurationError, match="is 'a<e>', which contains the name of the EOS id 9, and EOS ends"
        ):
            make("a<e>")
    with pytest.raises(PatternTooLarge):
        lk.BannedStrings(["a<t>b" * 5], TOKENS, limits=lk.Limits(states=10))
    with pytest.raises(PatternTooLarge):
        lk.BannedStrings([f"{'a' * n}<t>{'<o>' * 6}b" for n in range(1, 150)], TOKENS, limits=lk.Limits(work=100_000))
