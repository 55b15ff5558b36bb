"""Every processor, with what the tests that hold for all of them need: one row for each configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import logitkit as lk

BOS, EOS, PAD = 0, 1, 2

TOKENS: tuple[bytes | None, ...] = (
    *(None, None, None),
    *(bytes([c]) for c in b"0123456789abcdefghijklmnopqrstuvwxyz ,-.\n"),
    *(b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xc3\xa9", b"\x82\xac", b"a"),
    *(b"10", b"20", b"-0", b",5", b"ab", b"abc", b"cat", b"dog", b"og", b"1,", b"a\xc3", b"\xa9\xc3"),
)


@cache
def vocabulary() -> lk.Vocabulary:
    """64 ids, some of them pieces of characters, in a model whose logits have 72 columns."""
    return lk.Vocabulary(TOKENS, eos_ids=[EOS], size=72, pad_id=PAD)


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
        masks: Whether it may set logits to -inf, so that logits must be as wide as the vocabulary.
    """

    name: str
    kind: str
    make: Callable[[lk.Vocabulary], lk.Processor[Any]]
    runs: tuple[tuple[int, ...], ...]
    masks: bool

    @property
    def processor(self) -> lk.Processor[Any]:
        """The processor over the shared vocabulary, made once."""
        return _made(self)

    def __str__(self) -> str:
        return self.name


@cache
def _made(row: Row) -> lk.Processor[Any]:
    return row.make(vocabulary())


def _half(logits: Tensor, context: lk.Context) -> Tensor:
    return logits * 0.5


def _by_length(logits: Tensor, context: lk.Context) -> Tensor:
    """Depends on every key of the context: a batch that mixes up its rows is seen."""
    prompt = torch.where(context.prompt >= 0, context.prompt, 0).sum(1)
    scale = 1 / (1 + prompt + 2 * context.lengths + 3 * context.prompt_lengths)
    return logits * scale[:, None].to(logits.dtype)


_LIST = ids(b"1", b",", b"2", b",5"), ids(b"1,", b"3")
_TEXT = ids(b"a", b"b", b"cat", b"dog", b"a"), ids(b"1", b"1", b"\xc3\xa9", b"10", b"-", b"1")

# States of any kind; and a token without text is as good as any other in a hand-written automaton.
_CYCLE: dict[tuple[int | str, int], int | str] = {
    (0, ids(b"a")[0]): 7,
    (0, ids(b"cat")[0]): 7,
    (7, ids(b"b")[0]): 0,
    (7, ids(b" ")[0]): 0,
    (0, BOS): "loop",
    ("loop", BOS): "loop",
    ("loop", ids(b"a")[0]): 7,
}


def _regex(name: str, pattern: str, *runs: tuple[int, ...]) -> Row:
    return Row(f"Regex {name}", "automaton", lambda v: lk.Regex(pattern, v), runs, masks=True)


def _windowed(window: int, penalty: float) -> Row:
    name = f"RepetitionPenalty of {window}"
    return Row(name, "repetition", lambda v: lk.RepetitionPenalty(penalty, window=window), _TEXT, masks=False)


ROWS: tuple[Row, ...] = (
    _regex("list", r"[0-9](,[0-9])*", *_LIST),
    _regex("loop", r"[a-z]*", ids(b"a", b"b", b"cat", b"dog"), (EOS,)),
    _regex("characters", r"é+|€{2}", ids(b"\xc3", b"\xa9", b"\xc3\xa9"), ids(b"\xe2", b"\x82", b"\xac", b"\xe2")),
    _regex("date", r"[12][0-9]-[0-9]{2}", (*ids(b"1", b"0", b"-0", b"5"), EOS, PAD)),
    _regex("line", r"[^\n]*", ids(b"\xc3\xa9", b"10", b"-"), ids(b" ", b"ab")),
    Row(
        "Choice",
        "automaton",
        lambda v: lk.Choice(["cat", "dog", "abc", "a", "é"], v),
        ((*ids(b"cat"), EOS, PAD, PAD), ids(b"d", b"og"), ids(b"a", b"b"), (*ids(b"\xc3", b"\xa9"), EOS)),
        masks=True,
    ),
    Row(
        "Dfa",
        "automaton",
        lambda v: lk.Dfa(_CYCLE, start=0, accepting={0}, vocabulary=v),
        ((*ids(b"a", b"b", b"cat", b" "), EOS), (BOS, BOS, *ids(b"a", b" "))),
        masks=True,
    ),
    Row("RepetitionPenalty", "repetition", lambda v: lk.RepetitionPenalty(1.3), _TEXT, masks=False),
    Row(
        "RepetitionPenalty of output",
        "repetition",
        lambda v: lk.RepetitionPenalty(3.7, include_prompt=False),
        _TEXT,
        masks=False,
    ),
    _windowed(1, 1.5),
    _windowed(4, 0.6),
    _windowed(16, 2.0),
    Row("Stateless", "stateless", lambda v: lk.Stateless(_by_length), _TEXT, masks=False),
    Row(
        "chain of three",
        "chain",
        lambda v: lk.chain(lk.RepetitionPenalty(1.3), lk.Regex(r"[0-9](,[0-9])*", v), lk.Stateless(_half)),
        _LIST,
        masks=True,
    ),
    Row(
        "chain of three others",
        "chain",
        lambda v: lk.chain(lk.RepetitionPenalty(0.9, window=4), lk.Choice(["1", "2,5"], v), lk.Stateless(_half)),
        ((*ids(b"1"), EOS), ids(b"2", b",5")),
        masks=True,
    ),
    Row("empty chain", "empty", lambda v: lk.chain(), _TEXT, masks=False),
)


def of_kind(kind: str) -> Sequence[Row]:
    """Return all rows of a kind."""
    return [row for row in ROWS if row.kind == kind]
