"""A row of the registry, and the small vocabulary of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import logitkit as lk

BOS, EOS, PAD = 0, 1, 2

TOKENS: tuple[bytes | None, ...] = (
    *(None, None, None),
    *(bytes([c]) for c in b"0123456789abcdefghijklmnopqrstuvwxyz ,-.\n"),
    *(b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xc3\xa9", b"\x82\xac", b"a"),
    *(b"10", b"20", b"-0", b",5", b"ab", b"abc", b"cat", b"dog", b"og", b"1,", b"a\xc3", b"\xa9\xc3"),
    *(b"[", b"]", b"{", b"}", b'"', b'":', b"]],["),
)


@cache
def vocabulary() -> lk.Vocabulary:
    """71 ids, some of them pieces of characters, in a model whose logits have 72 columns."""
    special = {"<s>": BOS, "</s>": EOS, "<pad>": PAD}
    return lk.Vocabulary(TOKENS, eos_ids=[EOS], size=72, pad_id=PAD, special=special)


def ids(*pieces: bytes) -> tuple[int, ...]:
    """Return the first token of each piece of text."""
    return tuple(TOKENS.index(piece) for piece in pieces)


@dataclass(frozen=True)
class Row:
    """A configuration of a processor.

    Args:
        name: Unique, shown by the tests.
        kind: States of rows of one kind share a batch, and any processor of the kind runs it.
        make: Makes the processor.
        runs: Token runs that it allows.
        masks: Whether it may set logits to -inf.
        sized: Whether one that masks has a vocabulary: logits must be as wide, and columns after it are masked.
        compares: Whether it compares the logits of a row, so that more columns matter to the others.
        on_host: Whether its steps run on the host, wherever the tensors are, so that no graph can have them.
        guided: Whether it reads the logits of a second pass, which most engines do not have.
    """

    name: str
    kind: str
    make: Callable[[lk.Vocabulary], lk.Processor[Any]]
    runs: tuple[tuple[int, ...], ...]
    masks: bool
    sized: bool = True
    compares: bool = False
    on_host: bool = False
    guided: bool = False

    @property
    def processor(self) -> lk.Processor[Any]:
        """The processor over the shared vocabulary, made once."""
        return _made(self)

    def __str__(self) -> str:
        return self.name


@cache
def _made(row: Row) -> lk.Processor[Any]:
    return row.make(vocabulary())


# Runs for processors that allow every token.
TEXT = ids(b"a", b"b", b"cat", b"dog", b"a"), ids(b"1", b"1", b"\xc3\xa9", b"10", b"-", b"1")
