"""A vocabulary of all bytes, of pieces that cross the borders of tags, and of special tokens; and what it allows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

import logitkit as lk

PIECES = (
    *(
        b"<a",
        b">x",
        b"</a>",
        b"</",
        b"ab",
        b"abc",
        b'{"',
        b'":',
        b"} ",
        b"</a>z",
        b"a>",
        b"1;",
        b";,",
        b"<f=",
        b"<f",
        b"=g>{",
    ),
    *(b"\xc3\xa9", b"x\xc3", b"\xa9;", b"aa", b"aaa", b"</a", b"a>1"),
)
TEXT = (*(bytes([byte]) for byte in range(256)), *PIECES)
SPECIAL = ("<tool>", "</tool>", "<think>", "<eos>")
SPECIAL_IDS = {name: len(TEXT) + number for number, name in enumerate(SPECIAL)}
SIZE, EOS = len(TEXT) + len(SPECIAL), len(TEXT) + len(SPECIAL) - 1


@cache
def vocabulary() -> lk.Vocabulary:
    """Return the vocabulary."""
    return lk.Vocabulary([*TEXT, *[None] * len(SPECIAL)], eos_ids=[EOS], special=SPECIAL_IDS)


def whole(format_: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a format."""
    return {"type": "structural_tag", "format": format_}


def made(format_: dict[str, Any], **options: Any) -> lk.StructuralTag:
    """Return the constraint of a format."""
    return lk.from_structural_tag(whole(format_), vocabulary(), **options)


def spelled(text: str) -> list[int]:
    """Return the tokens of single bytes that spell a text."""
    return list(text.encode())


def tokens_of(*pieces: str | bytes) -> list[int]:
    """Return tokens: a special token for each of its names, the piece itself, or else single bytes."""
    found = []
    for piece in pieces:
        data = piece.encode() if isinstance(piece, str) else piece
        if isinstance(piece, str) and piece in SPECIAL_IDS:
            found.append(SPECIAL_IDS[piece])
        else:
            found.extend([TEXT.index(data)] if data in TEXT else list(data))
    return found


class Walk:
    """One row of a constraint."""

    def __init__(self, constraint: lk.StructuralTag) -> None:
        self.constraint, self.size = constraint, constraint.vocabulary.size
        self.context = lk.Context.of([[]], vocabulary_size=self.size)
        self.state = constraint.init_state(self.context)

    def allowed(self) -> set[int]:
        """Return the tokens that are allowed now."""
        logits = self.constraint.process_logits(self.state, torch.zeros(1, self.size), self.context)[1]
        return set(torch.nonzero(logits[0] == 0).flatten().tolist())

    def take(self, token: int) -> bool:
        """Go on with a token, and return whether it is allowed."""
        legal = token in self.allowed()
        self.state = self.constraint.advance(self.state, torch.tensor([token]))
        return legal


def accepts(constraint: lk.StructuralTag, tokens: Sequence[int]) -> bool:
    """Whether tokens are a complete text."""
    walk = Walk(constraint)
    return all(walk.take(token) for token in tokens) and constraint.vocabulary.eos_ids[0] in walk.allowed()
