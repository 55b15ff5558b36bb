"""Markers, stops and bans in which names of special tokens stand beside other text.

The oracle tries every way to write a text, the token or the name, in every place of the tokens. Ids without text that a text does
not name change nothing in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler import DEAD, FINISHED
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.vocabulary.text_with_names import TOKENS as FIRST_TOKEN
from tests.batches import tensor_path
from tests.examples import examples
from tests.processors.special_tokens import EOS, OTHER, PIECES, THINK, TOKENS

NAMES = {"<t>": THINK, "<e>": EOS, "<o>": OTHER}
IDS = range(len(PIECES))

# Texts of pieces and names; the lower-case letters and brackets also spell the beginnings of names.
# EOS by itself is refused, as no other EOS remains.
PIECES_OF_TEXTS = st.sampled_from(["a", "b", "<", "t>", *NAMES])
TEXTS = st.lists(PIECES_OF_TEXTS, min_size=1, max_size=4).map("".join).filter(lambda text: text != "<e>")


def ways(text: str) -> list[tuple[int, ...]]:
    """Return all ways to write a text as bytes and special tokens."""
    found: list[tuple[int, ...]] = [()]
    for piece in re.findall("<t>|<e>|<o>|.", text):
        spelled = [tuple(piece.encode())]
        if piece in NAMES:
            spelled.append((FIRST_TOKEN + NAMES[piece],))
        found = [way + more for way in found for more in spelled]
    return found


def contains(ids: Sequence[int], text: str) -> bool:
    """Whether tokens write a text somewhere."""
    named = {token for name, token in NAMES.items() if name in text}
    symbols: list[int] = []
    for token in ids:
        symbols += PIECES[token] or ([FIRST_TOKEN + token] if token in named else [])
    return any(
        tuple(symbols[i : i + len(way)]) == way for way in ways(text) for i in range(len(symbols) - len(way) + 1)
    )


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


@pytest.mark.parametrize("marker", ["a<t>", "<t>a", "a<t>b", "<t><t>", "<t>a<t>", "<<t>", "b<t><o>a"])
@settings(max_examples=examples(80))
@given(st.sampled_from([None, "[ab]*", "a?", "(<|a|t)*"]), st.sampled_from([None, "[ab]*", "a?"]), st.data())
def test_then_against_the_plain_meaning(
    marker: str, first: str | None, second: str | None, data: st.DataObject
) -> None:
    if first is None and second is None:
        return
    before, behind = (None if pattern is None else lk.Regex(pattern, TOKENS) for pattern in (first, second))
    automaton = lk.then(before, behind, marker).automaton
    state, ids = automaton.start, list[int]()
    for _ in range(9):
        legal = [t for t in IDS if t != EOS and automaton.next(state, t) != DEAD]
        whole = divided(ids, marker, first, second)
        assert (automaton.next(state, EOS) == FINISHED) == whole
        assert legal or whole
        # One more token is legal where it completes a text.
        for token in set(IDS) - {EOS}:
            if divided([*ids, token], marker, first, second):
                assert token in legal
        if not legal:
            break
        ids.append(data.draw(st.sampled_from(legal)))
        state = automaton.next(state, ids[-1])


@pytest.mark.parametrize("every_byte", [True, False])
def test_then_a_schema_that_nests(every_byte: bool) -> None:
    texts = [bytes([c]) for c in (range(256) if every_byte else b"[], \n<t>x")]
    vocabulary = lk.Vocabulary([*texts, None, None], len(texts), special={"<e>": len(texts), "<t>": len(texts) + 1})
    schema = lk.JsonSchema({"type": "array", "items": {"$ref": "#"}}, vocabulary, whitespace="compact")
    answer = lk.then(None, schema, "\n<t>,")
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    token_of = {text: i for i, text in enumerate(vocabulary.tokens) if text}

    def legal(*pieces: bytes) -> list[int]:
        ids = [vocabulary.size - 1 if piece == b"<t>" else token_of[piece] for piece in pieces]
        state = answer.advance(answer.init_state(context), torch.tensor([ids]).long())
        masked = answer.process_logits(state, torch.zeros(1, vocabulary.size), context)[1]
        return [i for i, logit in enumerate(masked[0].tolist()) if logit == 0]

    free = [i for i in range(vocabulary.size) if i not in vocabulary.eos_ids]
    for before in (
        [],
        [b"\n"],
        [b"\n", b"<t>"],
        [b"<t>", b","],
        [b"\n", b"<t>", b"<t>", b","],
        [b"\n", b"<", b"<t>", b","],
    ):
        assert legal(*before) == free
    for marker in ([b"\n", b"<t>", b","], [b"x", b"\n", b"\n", b"<", b"t", b">", b","]):
        assert legal(*marker) == [token_of[b"["]]
        assert legal(*marker, b"[", b"]") == [*vocabulary.eos_ids]


def divided(ids: Sequence[int], marker: str, first: str | None, second: str | None) -> bool:
    """Whether tokens are a text of the first pattern, the marker, and a text of the second."""
    symbols: list[int] = []
    for token in ids:
        # Free text may hold ids without text; those that the marker does not name change nothing.
        symbols += PIECES[token] or [FIRST_TOKEN + token]
    named = {FIRST_TOKEN + token for name, token in NAMES.items() if name in marker}
    for end in range(len(symbols) + 1):
        for begin in range(end):
            between = symbols[begin:end]
            if first is None:
                between = [s for s in between if s < FIRST_TOKEN or s in named]
            if tuple(between) in ways(marker):
                return fits(symbols[:begin], first) and fits(symbols[end:], second)
    return False


def fits(symbols: Sequence[int], pattern: str | None) -> bool:
    if pattern is None:
        return True
    return max(symbols, default=0) < FIRST_TOKEN and re.fullmatch(pattern, bytes(symbols).decode()) is not None


@pytest.mark.parametrize("end", ["a<t>b", "<t>a", "a<t>", "<t><o>", "a<t>a"])
@settings(max_examples=examples(80))
@given(st.lists(st.sampled_from([t for t in IDS if t != EOS]), max_size=8))
def test_a_section_of_thought_ends_where_the_marker_does(end: str, ids: list[int]) -> None:
    budget = lk.ThinkingBudget(len(ids), end, TOKENS)
    context = lk.Context.of([[]], vocabulary_size=len(PIECES))
    state, length = budget.init_state(context), 0
    for token in ids:
        if not bool(budget.is_thinking(state)[0]):
            break
        state, length = budget.advance(state, torch.tensor([token])), length + 1
    written = ids[:length]
    assert bool(budget.is_thinking(state)[0]) == (not contains(written, end))
    if contains(written, end) or length < len(ids):
        return
    # The rest of the marker is forced, and nothing but it.
    for _ in range(len(end) + 1):
        if not bool(budget.is_thinking(state)[0]):
            break
        (mask,) = {tuple(budget.process_logits(state, torch.zeros(1, 11), context)[1][0].tolist())}
        legal = [token for token in IDS if mask[token] == 0]
        assert legal
        assert EOS not in legal
        written = [*written, legal[-1]]
        state = budget.advance(state, torch.tensor([legal[-1]]))
    assert contains(written, end)
    assert not bool(budget.is_thinking(state)[0])


def test_a_budget_forces_the_token() -> None:
    context = lk.Context.of([[]], vocabulary_size=11)

    def forced(*ids: int) -> list[int]:
        budget = lk.ThinkingBudget(len(ids), "a<t>b", TOKENS, start=None)
        state = budget.advance(budget.init_state(context), torch.tensor([ids]).long())
        logits = budget.process_logits(state, torch.zeros(1, 11), context)[1]
        return [token for token in IDS if logits[0, token] == 0]

    assert (forced(), forced(1, 0), forced(0, THINK), forced(0, OTHER)) == ([0], [THINK], [1], [THINK])
    # A name is never spelled, even if its beginning has been.
    assert (forced(0, 5), forced(7), forced(0, THINK, THINK)) == ([0], [0], [0])


def test_a_section_begins_after_a_marker_with_a_name() -> None:
    budget = lk.ThinkingBudget(1, "<o>", TOKENS, start="<t>a")
    for prompt, thinks in (([THINK, 0], True), ([2, 3, 4, 0], True), ([THINK, OTHER, 0], True), ([0, THINK], False)):
        state = budget.init_state(lk.Context.of([prompt], vocabulary_size=11))
        assert bool(budget.is_thinking(state)[0]) == thinks


def test_a_ban_of_an_ending_leaves_a_way_to_end() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], 2, special={"<e>": 2})
    # After `a` nothing would be legal.
    assert lk.BannedStrings(["a<e>", "aa", "ab"], vocabulary).matches("b")
    for strings in (["a<e>", "aa", "ab"], ["a<e>", "b<e>"]):
        automaton = lk.BannedStrings(strings, vocabulary).automaton
        assert automaton.next(automaton.start, 0) == DEAD
    both = lk.Intersection((lk.Regex("a|b", vocabulary), lk.BannedStrings(["a<e>"], vocabulary))).automaton
    assert [t for t in range(3) if both.next(both.start, t) != DEAD] == [1]


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
