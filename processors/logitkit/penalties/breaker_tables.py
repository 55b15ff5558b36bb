"""Compile breakers, given as texts and token ids, to the tables in which `Breakers` looks them up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logitkit.errors import ConfigurationError
from logitkit.parameters.token_ids import checked_ids
from logitkit.penalties.breakers import ENDS, Breakers
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Encode", "compile_breakers"]

Encode = Callable[[str], Iterable[int]]

# llama.cpp ignores the tokens of a breaker after this many.
MOST_TOKENS = 20

Ids = NDArray[np.int64]

# The maximum size of the tables of one row in bytes.
MOST_MEMORY = 4 * 2**20

# The rest of a breaker: its bytes, in any tokens, or exactly these tokens.
Rest = bytes | tuple[int, ...]

# A byte that never occurs in UTF-8.
SEPARATOR = b"\xff"

# The lower half of a key.
LOW = 2**32 - 1


def compile_breakers(
    texts: Sequence[bytes], ids: Sequence[int], vocabulary: Vocabulary | None, encode: Encode | None
) -> Breakers:
    """Return the breakers of one row.

    Args:
        texts: The breakers that are texts in UTF-8, none of them empty.
        ids: The breakers that are tokens.
        vocabulary: The vocabulary; required for texts.
        encode: Returns the tokens for the rest of a text that begins inside a token. Without it, any tokens that spell the rest
            match.

    Raises:
        ConfigurationError: `encode` returns a value that is not a token id, or the tables are too large.
    """
    tables = _Tables(vocabulary, encode)
    tables.single.append(np.array(ids, np.int64))
    for text in texts:
        tables.add(text)
    return tables.finished()


class _Blob:
    """The texts of all tokens, separated, for searching all of them at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = [text or b"" for text in vocabulary.tokens]
        self.blob = SEPARATOR.join(texts)
        self.start = np.cumsum([0, *(len(text) + 1 for text in texts)])

    def containing(self, text: bytes) -> Ids:
        """Return the ids of the tokens that contain a text in UTF-8."""
        places = [match.start() for match in re.finditer(re.escape(text), self.blob)]
        return np.unique(np.searchsorted(self.start, places, side="right") - 1)


@dataclass
class _Tables:
    vocabulary: Vocabulary | None
    encode: Encode | None
    single: list[Ids] = field(default_factory=list)
    heads: list[Ids] = field(default_factory=list)
    edges: list[tuple[int, Ids, int]] = field(default_factory=list)
    states: dict[Rest, int] = field(default_factory=dict)

    def add(self, text: bytes) -> None:
        """Add a breaker."""
        assert self.vocabulary is not None
        vocabulary = self.vocabulary
        inside = shared_by(vocabulary).once(_Blob, lambda: _Blob(vocabulary)).containing(text)
        self.single.append(inside)
        for cut in range(1, len(text)):
            backwards = vocabulary.reversed_trie
            path = backwards.path(text[:cut][::-1])
            heads = np.setdiff1d(backwards.tokens_below(path[-1]), inside) if len(path) == cut else inside[:0]
            if len(heads):
                rest = self.encoded(text[cut:])
                if rest:
                    self.heads.append(heads << 32 | self.state(rest))
                else:
                    self.single.append(heads)

    def encoded(self, rest: bytes) -> Rest:
        """Return the tokens for the rest of a breaker, or the rest itself if any tokens that spell it match."""
        if self.encode is None:
            return rest
        try:
            text = rest.decode()
        except UnicodeDecodeError:
            return rest
        return checked_ids(f"the result of encode({text!r})", self.encode(text))[:MOST_TOKENS]

    def state(self, rest: Rest) -> int:
        """Return the state in which a rest is still to come, or `ENDS` if the rest is empty."""
        if not rest:
            return ENDS
        if rest not in self.states:
            number = self.states[rest] = len(self.states)
            if isinstance(rest, tuple):
                self.edges.append((number, np.array(rest[:1], np.int64), self.state(rest[1:])))
            else:
                assert self.vocabulary is not None
                trie = self.vocabulary.trie
                for spelled, node in enumerate(trie.path(rest), 1):
                    # Tokens that spell the whole rest may go on after it.
                    count = trie.own[node] if spelled < len(rest) else trie.below[node]
                    self.edges.append((number, trie.tokens_below(node)[:count], self.state(rest[spelled:])))
        return self.states[rest]

    def finished(self) -> Breakers:
        """Return the tables."""
        pairs = np.unique(_joined(self.heads))
        heads, first, count = np.unique(pairs >> 32, return_index=True, return_counts=True)
        keys = _joined([state << 32 | tokens for state, tokens, _ in self.edges])
        targets = _joined([np.full(len(tokens), target) for _, tokens, target in self.edges])
        most = int(count.max(initial=0))
        size = 4 * len(heads) * (1 + most) + 12 * len(keys)
        if size > MOST_MEMORY:
            raise ConfigurationError(
                f"the tables of the breakers would take {size:,} bytes for each row; allowed are {MOST_MEMORY:,}: give fewer or "
                "shorter breakers, or breakers that begin in fewer tokens"
            )
        starts = np.full((len(heads), most), -1)
        members, owner = expand(first, count)
        starts[owner, members - first[owner]] = pairs & LOW
        order = np.argsort(keys, kind="stable")
        return Breakers(
            single=_row(np.unique(_joined(self.single)), np.int32),
            heads=_row(heads, np.int32),
            starts=_row(starts, np.int32),
            edges=_row(keys[order], np.int64),
            targets=_row(targets[order], np.int32),
            steps=torch.ones((1, max(map(len, self.states), default=0)), dtype=torch.bool),
        )


def _joined(arrays: Sequence[Ids]) -> Ids:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _row(values: Ids, dtype: type[np.signedinteger[Any]]) -> torch.Tensor:
    return torch.from_numpy(values.astype(dtype)[None])
