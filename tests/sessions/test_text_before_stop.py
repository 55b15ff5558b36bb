"""The text of a session ends before the stop that ended it, and a stream shows no part of a stop, with every tokenizer."""

from __future__ import annotations

import random
from typing import Any

import pytest

import logitkit as lk
from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import REPLACEMENT, TextTokenizer
from logitkit_adapters.sessions import Session
from logitkit_adapters.sessions.generation_stream import TextPieces
from logitkit_adapters.sessions.text_before_stop import TextBeforeStop
from tests.adapters.tokenizer_zoo import LOSSLESS, encode, known
from tests.sessions.engines import ENGINES, loaded

TEXTS = ("Hello world, it's é € 😀 日本 fine", " a  b \n c", "👩‍👩‍👧 ok x", "aabaac ab", "one, two and three")


def streamed(tokenizer: Any, processor: Any, prompt: list[int], new: list[int]) -> tuple[list[str], str]:
    """Return the pieces that are shown of a row, and its text."""
    written, shown, pieces = TextPieces(prompt, tokenizer), TextBeforeStop(processor, prompt), []
    for token in new:
        written.feed([token])
        pieces.append(shown.feed([token], written.text))
    whole = added_text(prompt, new, TextTokenizer(tokenizer))
    text = TextBeforeStop(processor, prompt).before_stop(new, whole)
    return [*pieces, shown.rest(text)], text


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_text_ends_where_the_first_stop_is_found(name: str) -> None:
    tokenizer, vocabulary = known(name)
    draw, reads, ended = random.Random(1), TextTokenizer(tokenizer), 0

    def spelled(tokens: list[int]) -> bytes:
        return b"".join([vocabulary.tokens[token] or b"" for token in tokens])

    for _ in range(60):
        ids = encode(tokenizer, " ".join(draw.choices(TEXTS, k=2)))
        cut = draw.randrange(1, 5)
        prompt, new = ids[:cut], ids[cut:]
        whole = added_text(prompt, new, reads)
        # A stop lies in the output, so a character that begins in the prompt does not count. Some tokenizers name bytes.
        if reads.decode(prompt).endswith(REPLACEMENT) or "<0x" in whole:
            continue
        begin = draw.randrange(len(whole))
        stops = [whole[begin : begin + draw.randrange(1, 6)], draw.choice(["ac", "€ 😀x", "x"])]
        # A row ends with the token that completes the first stop. Tokenizers may leave out a space at either end of a text.
        until = range(1, len(new) + 1)
        last = next((n for n in until if any(stop.encode() in spelled(new[:n]) for stop in stops)), len(new))
        new, whole = new[:last], added_text(prompt, new[:last], reads)
        found = [(at + len(stop.encode()), at) for stop in stops if (at := spelled(new).find(stop.encode())) >= 0]
        pieces, text = streamed(tokenizer, lk.StopStrings(stops, vocabulary), prompt, new)
        assert "".join(pieces) == text
        expected = spelled(new)[: min(found)[1]].decode() if found else whole
        assert text in (expected, expected.removeprefix(" ")), (stops, whole)
        assert whole.startswith(text)
        ended += bool(found)
    assert ended > 5


def test_no_more_is_held_back_than_may_be_a_stop() -> None:
    tokenizer, vocabulary = known("byte-level BPE")
    new = encode(tokenizer, "one\nUsual\nUser")
    stop = lk.StopStrings(["\nUser:"], vocabulary)
    shown, text = TextBeforeStop(lk.chain(lk.chain(stop), lk.Temperature(2.0)), []), ""
    for token in new:
        text += (vocabulary.tokens[token] or b"").decode()
        shown.feed([token], text)
        held = max(n for n in range(7) if text.endswith("\nUser:"[:n]))
        assert shown.text == text[: len(text) - held]


def test_a_token_that_stops_is_not_shown() -> None:
    tokenizer, vocabulary = known("byte-level BPE")
    new = encode(tokenizer, "price")
    for stop in (new[-1], vocabulary.tokens[new[-1]] or b""):
        pieces, text = streamed(tokenizer, lk.StopStrings([stop], vocabulary), [], new)
        assert text == "".join(pieces) == added_text([], new[:-1], TextTokenizer(tokenizer))


def test_a_stop_that_begins_in_the_prompt_leaves_no_text() -> None:
    tokenizer, vocabulary = known("byte-level BPE")
    prompt, new = encode(tokenizer, "on"), encode(tokenizer, "e")
    stop = lk.StopStrings(["one"], vocabulary, include_prompt=True)
    assert streamed(tokenizer, stop, prompt, new) == (["", ""], "")


@pytest.mark.parametrize("engine", ENGINES)
def test_generate_and_stream_end_before_the_stop(engine: str) -> None:
    from logitkit_adapters.transformers import vocabulary

    known_tokens = vocabulary(*reversed(loaded("transformers")))
    session = Session(*loaded(engine), max_length=256)
    prompts = ["The price of", "Name: Emma Brown\n"]
    for prompt in prompts:
        whole = session.generate(prompt, max_new_tokens=30).text
        for begin, length in ((5, 1), (9, 4), (14, 7), (0, 2)):
            stop = whole[begin : begin + length]
            processor = lk.chain(lk.StopStrings([stop, "\x00"], known_tokens), lk.Temperature(1.0))
            (row,) = session.generate(prompt, max_new_tokens=30, processor=processor).rows
            assert (row.text, row.finished) == (whole[: whole.index(stop)], f"stop: {stop}")
            assert stop in session.generate(prompt, max_new_tokens=30).text
            stream = session.stream(prompt, max_new_tokens=30, processor=processor)
            assert "".join(stream) == row.text
            assert stream.generated.rows[0].token_ids == row.token_ids
        vowels = lk.StopStrings([*"aeiou"], known_tokens)
        beams = session.generate(prompt, max_new_tokens=30, num_beams=2, processor=vowels)
        assert all(row.finished[:6] == "stop: " and not set(row.text) & set("aeiou") for row in beams.rows)
