"""Tokenizers for tests of sequence states: of letters, of bytes, and one that puts a space before whatever it is given."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from logitkit import SequenceState


class Pieces:
    """Greedy longest match over pieces of bytes; every byte is a piece."""

    bos_token_id = 256
    eos_token_id = pad_token_id = 257

    def __init__(self, pieces: Sequence[bytes] = ()) -> None:
        self.pieces = [bytes([b]) for b in range(256)] + [b"", b"", *pieces]
        self.ids = {piece: i for i, piece in enumerate(self.pieces) if piece}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        data, ids = text.encode(), []
        while data:
            size = next(n for n in range(len(data), 0, -1) if data[:n] in self.ids)
            ids.append(self.ids[data[:size]])
            data = data[size:]
        return [self.bos_token_id, *ids] if add_special_tokens else ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        assert skip_special_tokens
        return b"".join(self.pieces[i] for i in ids).decode("utf-8", "replace")


class SpaceFirst(Pieces):
    """Like SentencePiece's: a text gets a space in front, and decoding takes it away."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return super().encode(" " + text, add_special_tokens)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return super().decode(ids, skip_special_tokens).removeprefix(" ")


def state_of(rows: Sequence[Sequence[int]], samples: int = 1, tokenizer: object = None) -> SequenceState:
    """Return a state of rows with pads on the left, which are zeros, and weights 0, -1, -2, ..."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in rows], dtype=torch.int64)
    masks = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], dtype=torch.int64)
    weights = -torch.arange(float(len(rows))).reshape(-1, samples)
    return SequenceState(ids, weights, masks, None, tokenizer or Pieces())
