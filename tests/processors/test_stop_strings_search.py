"""`StopStrings` against a search of all stops after each token."""

from __future__ import annotations

from unittest import mock

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from tests.examples import examples
from tests.processors.stops import asked, expected
from tests.registry import TOKENS, vocabulary

PIECES = ["a", "b", "ab", "1", "10", "é", "€", "cat", "dog", "og", " ", "\n", "c"]
_text = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
_bytes = st.lists(st.sampled_from([t for t in TOKENS if t]), min_size=1, max_size=3).map(b"".join)
_ids = st.integers(0, len(TOKENS) - 1)
_some = st.lists(_ids | st.sampled_from([i for i, t in enumerate(TOKENS) if t and t in b"abaabcat\xc3\xa9\xc3"]))


@settings(max_examples=examples(300))
@given(st.lists(_text | _bytes | _ids, min_size=1, max_size=5), _some, _some, st.booleans())
def test_against_searching_the_decoded_bytes(
    stops: list[str | bytes | int], prompt: list[int], output: list[int], include_prompt: bool
) -> None:
    processor = lk.StopStrings(stops, vocabulary(), include_prompt)
    plain = [s.encode() if isinstance(s, str) else s for s in stops]
    wanted = expected(plain, prompt if include_prompt else [], output, TOKENS)
    assert asked(processor, output, prompt) == wanted
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert asked(processor, output, prompt) == wanted


@settings(max_examples=30)
@given(st.data())
def test_against_searching_in_a_real_vocabulary(tekken: lk.Vocabulary, data: st.DataObject) -> None:
    """The stops are cut out of what is said, somewhere within tokens."""
    output = data.draw(st.lists(st.integers(1000, 50_000), min_size=1, max_size=30))
    text = tekken.decode(output)
    stops = []
    for _ in range(data.draw(st.integers(1, 8))):
        begin = data.draw(st.integers(0, len(text) - 1))
        stops.append(text[begin : begin + data.draw(st.integers(1, 12))])
    processor = lk.StopStrings(stops, tekken)
    wanted = expected(stops, [], output, tekken.tokens)
    assert wanted[0] >= 0
    assert asked(processor, output) == wanted


def test_every_tokenisation_of_a_stop(sentencepiece_32k: lk.Vocabulary) -> None:
    """Both by bytes and by the table over tokens, which is made of one stop among a thousand."""
    ids = {t: i for i, t in reversed([*enumerate(sentencepiece_32k.tokens)]) if t}
    stop = b"Observation:"
    stops = lk.StopStrings([*(f"stop number {n}" for n in range(999)), stop], sentencepiece_32k)
    ways: list[tuple[int, ...]] = [()]
    for _ in range(5):
        ways = [
            (*way, ids[stop[at:end]])
            for way in ways
            for at in [len(sentencepiece_32k.decode(way))]
            for end in range(at + 1, len(stop) + 1)
            if stop[at:end] in ids
        ] + [way for way in ways if sentencepiece_32k.decode(way) == stop]
    ways = [way for way in ways if sentencepiece_32k.decode(way) == stop]
    assert len(ways) > 5
    table = stops.automaton.table
    for way in ways:
        state = stops.automaton.start
        for token in way[:-1]:
            assert stops.automaton.next(state, token) == table.next(state, token)
            state = table.next(state, token)
        assert stops.automaton.next(state, way[-1]) == table.next(state, way[-1]) == 0
