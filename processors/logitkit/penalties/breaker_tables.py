"""Compile breakers, texts and token ids, to the tables in which they are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import as_integer
from logitkit.penalties.breakers import ENDS, Breakers
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Encode", "compile_breakers"]

Encode = Callable[[str], Iterable[int]]

# llama.cpp cuts off the tokens of a breaker behind its head there.
MOST_TOKENS = 20

Ids = NDArray[np.int64]

# Bytes of the tables of one row.
MOST_MEMORY = 4 * 2**20

# What of a breaker is still to come: its bytes, in any tokens, or exactly these tokens.
Rest = bytes | tuple[int, ...]


def compile_breakers(
    texts: Sequence[bytes], ids: Sequence[int], vocabulary: Vocabulary | None, encode: Encode | None
) -> Breakers:
    """Return the breakers of one row.

    Args:
        texts: Breakers as text, none of them empty.
        ids: Breakers that are tokens.
        vocabulary: What the tokens spell; needed for texts.
        encode: Gives the tokens of the rest of a text that begins inside a token; without it they may be any that spell it.

    Raises:
        ConfigurationError: `encode` gives something that is no token id, or the tables would be too large.
    """
    tables = _Tables(_texts_of(vocabulary), encode)
    tables.single.append(np.array(ids, np.int64))
    for text in texts:
        tables.add(text)
    return tables.finished()


def _texts_of(vocabulary: Vocabulary | None) -> _Texts:
    if vocabulary is None:
        return _Texts.of(())
    return shared_by(vocabulary).once(_Texts, lambda: _Texts.of(vocabulary.tokens))


@dataclass(frozen=True, eq=False)
class _Texts:
    """The bytes of all tokens that have text, after one another, for comparisons with all of them at once."""

    ids: Ids
    blob: NDArray[np.uint8]
    start: Ids
    length: Ids
    by_first: tuple[Ids, ...]
    by_last: tuple[Ids, ...]

    @classmethod
    def of(cls, tokens: Sequence[bytes | None]) -> _Texts:
        ids = [i for i, token in enumerate(tokens) if token]
        texts = [token for token in tokens if token]
        length = np.array([len(t) for t in texts], np.int64)
        blob = np.frombuffer(b"".join(texts), np.uint8)
        start = np.cumsum(length) - length
        by_first, by_last = _by_byte(blob[start]), _by_byte(blob[start + length - 1])
        return cls(np.array(ids, np.int64), blob, start, length, by_first, by_last)

    def containing(self, text: bytes) -> Ids:
        """Return which tokens have the text within themselves, as indices into `ids`."""
        places = np.flatnonzero(self.blob[: max(len(self.blob) - len(text) + 1, 0)] == text[0])
        for i, byte in enumerate(text[1:], 1):
            places = places[self.blob[places + i] == byte]
        owner = np.searchsorted(self.start, places, side="right") - 1
        return np.unique(owner[places + len(text) <= self.start[owner] + self.length[owner]])

    def ending_with(self, text: bytes) -> Ids:
        """Return which tokens end with the text."""
        some = self.by_last[text[-1]]
        some = some[self.length[some] >= len(text)]
        for i, byte in enumerate(reversed(text)):
            some = some[self.blob[self.start[some] + self.length[some] - 1 - i] == byte]
        return some

    def going_through(self, text: bytes) -> Iterable[tuple[Ids, int]]:
        """Yield the tokens that spell the first bytes of the text, with how many; all of it, where they spell it and more."""
        some = self.by_first[text[0]]
        for i, byte in enumerate(text):
            some = some[self.blob[self.start[some] + i] == byte]
            whole = self.length[some] == i + 1
            if i + 1 == len(text):
                yield some, len(text)
            else:
                yield some[whole], i + 1
                some = some[~whole]


def _by_byte(byte: NDArray[np.uint8]) -> tuple[Ids, ...]:
    """Return, for each of the 256 bytes, where it stands."""
    order = np.argsort(byte, kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(byte, minlength=256))[:-1]))


@dataclass
class _Tables:
    texts: _Texts
    encode: Encode | None
    single: list[Ids] = field(default_factory=list)
    heads: list[tuple[Ids, int]] = field(default_factory=list)
    edges: list[tuple[int, Ids, int]] = field(default_factory=list)
    states: dict[Rest, int] = field(default_factory=dict)

    def add(self, text: bytes) -> None:
        """Add a breaker."""
        inside = self.texts.containing(text)
        self.single.append(self.texts.ids[inside])
        for cut in range(1, len(text)):
            heads = self.texts.ids[np.setdiff1d(self.texts.ending_with(text[:cut]), inside)]
            if len(heads):
                rest = self.encoded(text[cut:])
                if rest:
                    self.heads.append((heads, self.state(rest)))
                else:
                    self.single.append(heads)

    def encoded(self, rest: bytes) -> Rest:
        """Return the tokens of the rest of a breaker, or the rest itself, of which any tokens will do."""
        if self.encode is None:
            return rest
        try:
            text = rest.decode()
        except UnicodeDecodeError:
            return rest
        ids = [_checked(token, text) for token in self.encode(text)]
        return tuple(ids[:MOST_TOKENS])

    def state(self, rest: Rest) -> int:
        """Return the state in which a rest is still to come; `ENDS` if nothing is."""
        if not rest:
            return ENDS
        if rest not in self.states:
            number = self.states[rest] = len(self.states)
            if isinstance(rest, tuple):
                self.edges.append((number, np.array(rest[:1], np.int64), self.state(rest[1:])))
            else:
                for tokens, spelt in self.texts.going_through(rest):
                    self.edges.append((number, self.texts.ids[tokens], self.state(rest[spelt:])))
        return self.states[rest]

    def finished(self) -> Breakers:
        """Return the tables, in order."""
        heads = np.unique(np.concatenate([np.zeros(0, np.int64), *(tokens for tokens, _ in self.heads)]))
        states: list[set[int]] = [set() for _ in heads]
        for tokens, state in self.heads:
            for place in np.searchsorted(heads, tokens).tolist():
                states[place].add(state)
        most = max(map(len, states), default=0)
        size = 4 * len(heads) * (1 + most) + 12 * sum(len(tokens) for _, tokens, _ in self.edges)
        if size > MOST_MEMORY:
            raise ConfigurationError(
                f"the tables of the breakers would take {size:,} bytes for each row; allowed are {MOST_MEMORY:,}: give fewer or "
                "shorter breakers, or such as share less"
            )
        starts = [[*sorted(s), *[-1] * (most - len(s))] for s in states]
        keys = np.concatenate([np.zeros(0, np.int64), *(s << 32 | tokens for s, tokens, _ in self.edges)])
        targets = np.concatenate([np.zeros(0, np.int64), *(np.full(len(t), to) for _, t, to in self.edges)])
        order = np.argsort(keys, kind="stable")
        steps = max(map(len, self.states), default=0)
        return Breakers(
            single=_row(np.unique(np.concatenate(self.single)), np.int32),
            heads=_row(heads, np.int32),
            starts=_row(np.array(starts, np.int64).reshape(len(heads), most), np.int32),
            edges=_row(keys[order], np.int64),
            targets=_row(targets[order], np.int32),
            steps=torch.ones((1, steps), dtype=torch.bool),
        )


def _row(values: Ids, dtype: type[np.signedinteger[Any]]) -> torch.Tensor:
    return torch.from_numpy(values.astype(dtype)[None])


def _checked(token: object, text: str) -> int:
    found = as_integer(token)
    if found is None or not 0 <= found < 2**31:
        raise ConfigurationError(f"encode gave {token!r} for {text!r}; it must give token ids, integers from 0")
    return found
