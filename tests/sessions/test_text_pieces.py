"""Pieces of text join to the text that all tokens add, with every tokenizer."""

from __future__ import annotations

import random

import pytest

from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.generation_stream import TextPieces
from tests.adapters.tokenizer_zoo import LOSSLESS, encode, known

TEXTS = ("Hello world, it's é € 😀 日本 fine", " a  b \n c", "👩‍👩‍👧 ok x", "don't . , ! stop")


@pytest.mark.parametrize("name", LOSSLESS)
def test_pieces_join_to_the_text(name: str) -> None:
    tokenizer, _ = known(name)
    draw, reads = random.Random(1), TextTokenizer(tokenizer)
    for _ in range(40):
        ids = encode(tokenizer, " ".join(draw.choices(TEXTS, k=2)))
        cut = draw.randrange(1, 5)
        prompt, new = ids[:cut], ids[cut:]
        # A token that ends within a character is followed by none.
        new = new[: draw.randrange(1, len(new))]
        pieces, shown = TextPieces(prompt, tokenizer), []
        at = 0
        while at < len(new):
            count = draw.choice([1, 1, 1, 2, 5])
            shown.append(pieces.feed(new[at : at + count]))
            at += count
        whole = added_text(prompt, new, reads)
        assert whole.startswith("".join(shown))
        assert "".join(shown) == pieces.text


def test_text_goes_on_after_bytes_that_are_not_a_character() -> None:
    class Runs:
        """Decodes a run of bytes, ids below 256, as a whole."""

        def encode(self, text: str) -> list[int]:
            return [*text.encode()]

        def decode(self, ids: list[int]) -> str:
            try:
                return bytes(i for i in ids if i < 256).decode()
            except UnicodeDecodeError:
                return "\ufffd" * len(ids)

    pieces = TextPieces([65], Runs())
    shown = [pieces.feed([i]) for i in b"ab\xff\xc3\xa9cd"]
    assert shown[:2] == ["a", "b"]
    assert "".join(shown) == pieces.text
