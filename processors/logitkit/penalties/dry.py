"""Tokens that would continue a repeat become the less likely the longer it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.parameters import Either, Integer, ListOf, Number, Text, TokenId
from logitkit.parameters.integers import as_integer
from logitkit.penalties.breaker_tables import Encode, compile_breakers
from logitkit.penalties.breakers import Breakers
from logitkit.penalties.dry_state import DryState, discourage_rows, discourage_tensors
from logitkit.penalties.token_history import COUNTED, TokenHistory
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import map_tensors
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Dry"]

MOST_BREAKERS = 256

# llama.cpp warns, and cuts a breaker off there.
MOST_BYTES = 40

# Of all texts together: where each may begin and end inside tokens is looked for byte by byte.
MOST_TEXT = 2048

# llama.cpp lets penalties grow up to about the greatest number of 32 bits, and this logarithm of it says when that is.
GREATEST_LOG = 88.7228391

# A penalty that grows more slowly does so for so many tokens, which bounds the table of a row.
LONGEST_GROWTH = 4096


@dataclass(frozen=True)
class Dry(Described):
    r"""Subtract from the logit of each token that would continue a repeat a penalty that grows exponentially with its length.

    A repeat is a run of the last tokens that occurred before. Continuing one of n tokens costs
    `multiplier * base ** (n - allowed_length)`, and nothing if it has fewer than `allowed_length`. Breakers are no part of
    a repeat: what is before the last one is not looked at, so that the fixed phrases of a format may recur, and a token that
    holds a breaker has no penalty.

    Results are those of llama.cpp, with its `penalty_last_n` as `window`, in every bit for breakers of one ASCII character,
    and for longer ones where `encode` is given: the rest of a breaker that begins inside a token must then be in the tokens
    that `encode` gives for it. Without `encode` any tokens that spell the rest will do. But llama.cpp knows special tokens by
    their text, where here their ids are given; logits that were finite stay finite; and penalties grow for 4,096 tokens at
    most, which matters to bases below 1.022.

    Memory a row is 4 bytes for each token that counts, 4 for each length from 0 to where penalties stop to grow (644 bytes
    for the base 1.75), and 4 for each token that holds a breaker (7 kB for the defaults and 131,072 tokens). Longer breakers
    take 4 bytes for each token and state in which one may begin, and 12 for each with which one may go on, 4 MiB at most.

    Args:
        multiplier: From 0 to 100; 0 changes nothing, 0.8 is usual.
        base: From 1 to 1000.
        allowed_length: Length in tokens from which on a repeat costs something, from 0 to 4096.
        breakers: Texts of up to 40 bytes in UTF-8, together up to 2048, and token ids; at most 256. Text that is the name of a
            special token means that token too.
        window: Count only so many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Pads never do.
        vocabulary: What the tokens spell; needed if a breaker is text.
        encode: Gives the token ids of a text, without special tokens.

    Raises:
        ConfigurationError: An argument is not of its type or range, texts are given without a vocabulary, or their tables
            would take more than 4 MiB for each row.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> dry = lk.Dry(1.0, base=2.0, breakers=[3])
        >>> context = lk.Context.of([[0, 1, 2, 0, 1]], vocabulary_size=4)
        >>> dry.process_logits(dry.init_state(context), torch.tensor([[4.0, 4.0, 4.0, 4.0]]), context)[1]
        tensor([[4., 4., 3., 4.]])

    Source: p-e-w, DRY: a modern repetition penalty (text-generation-webui, pull request 5677, 2024); llama.cpp's dry sampler.
    """

    multiplier: float
    base: float = 1.75
    allowed_length: int = 2
    breakers: Sequence[str | int] = ("\n", ":", '"', "*")
    window: int | None = None
    include_prompt: bool = True
    vocabulary: Vocabulary | None = None
    encode: Encode | None = None

    role = Role.PENALTY
    kind = Kind(
        "dry",
        {
            "multiplier": Number(0, 100, "0 changes nothing"),
            "base": Number(1, 1000, "1.75 is usual"),
            "allowed_length": Integer(0, 4096),
            "breakers": ListOf(Either((TokenId(), Text(raw=False))), 0),
            **COUNTED,
        },
        main="multiplier",
        order=40,
        unwritten=("encode",),
        neutral={
            "multiplier": 0.0,
            "base": 1.0,
            "allowed_length": 0,
            "breakers": (),
            "window": 1,
            "include_prompt": False,
        },
    )
    may_empty_rows = False

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

    def __post_init__(self) -> None:
        put = object.__setattr__
        super().__post_init__()
        if self.vocabulary is not None and not isinstance(self.vocabulary, Vocabulary):
            raise ConfigurationError(
                f"vocabulary is a {type(self.vocabulary).__name__}; give a logitkit.Vocabulary (each adapter's vocabulary() "
                "makes one)"
            )
        if self.encode is not None and not callable(self.encode):
            raise ConfigurationError(f"encode is {self.encode!r}; give a function from a text to its token ids")
        put(self, "breakers", _checked_breakers(self.breakers))
        texts = [b for b in self.breakers if isinstance(b, str)]
        if texts and self.vocabulary is None:
            raise ConfigurationError(
                f"breakers has the text {texts[0]!r}, of which the tokens are not known: give vocabulary=..., or breakers as "
                "token ids, or breakers=() for none"
            )
        ids = [b for b in self.breakers if isinstance(b, int)]
        columns = None if self.vocabulary is None else self.vocabulary.size
        if columns is not None and max(ids, default=0) >= columns:
            raise VocabularyError(f"breakers has the token id {max(ids)}; allowed are ids from 0 to {columns - 1}")
        if self.vocabulary is not None:
            ids += [token for text in texts for token in self.vocabulary.special_names.tokens(text)]
        put(self, "_tables", compile_breakers([t.encode() for t in texts], ids, self.vocabulary, self.encode))

    @cached_property
    def _penalties(self) -> Tensor:
        """Penalties by length, [1, L] float32, computed once on the host, so that all devices see the same bits."""
        multiplier, base = float(np.float32(self.multiplier)), float(np.float32(self.base))
        growth = 0
        if base > 1:
            growth = min(int(np.float32(GREATEST_LOG) / np.float32(math.log(base))), LONGEST_GROWTH)
        grown = [min(multiplier * math.pow(base, n), float(np.finfo(np.float32).max)) for n in range(growth + 1)]
        return torch.tensor([[0.0] * self.allowed_length + grown], dtype=torch.float32)

    def init_state(self, context: Context) -> DryState:
        """Return the state of rows that have their prompt."""
        rows, device = context.batch_size, context.device
        tables: Breakers = self.__dict__["_tables"]
        breakers, penalties = map_tensors(
            (tables, self._penalties), lambda t: t.to(device).expand(rows, *t.shape[1:]).contiguous()
        )
        longest = torch.full((rows,), self._penalties.shape[1] - 1, dtype=torch.int64, device=device)
        return DryState(TokenHistory.of(context, self.window, self.include_prompt), breakers, penalties, longest)

    def advance(self, state: DryState, tokens: Tensor) -> DryState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("Dry", state.longest.shape[0], tokens)
        return state._replace(history=state.history.append(tokens))

    def process_logits(self, state: DryState, logits: Tensor, context: Context) -> tuple[DryState, Tensor]:
        """Lower the logits of tokens that would continue a repeat, in place; those that are finite stay finite.

        Raises:
            VocabularyError: A token that would continue a repeat is none of the logits' columns (on the CPU).
        """
        logits = own_rows("Dry", state.longest.shape[0], logits)
        if by_tensors(logits):
            return state, discourage_tensors(state, logits)
        discourage_rows(state, logits)
        return state, logits


def _checked_breakers(given: object) -> tuple[str | int, ...]:
    """Return breakers as a tuple, after a look at their types and sizes."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigurationError(f"breakers is {given!r}; give a sequence of texts and token ids")
    breakers = [_checked_breaker(breaker) for breaker in given]
    if len(breakers) > MOST_BREAKERS:
        raise ConfigurationError(f"breakers has {len(breakers)} entries; at most {MOST_BREAKERS} are allowed")
    size = sum(len(b.encode()) for b in breakers if isinstance(b, str))
    if size > MOST_TEXT:
        raise ConfigurationError(f"breakers have {size} bytes of text together; at most {MOST_TEXT} are allowed")
    return tuple(breakers)


def _checked_breaker(given: object) -> str | int:
    if isinstance(given, str):
        try:
            size = len(given.encode())
        except UnicodeEncodeError:
            size = 0
        if 1 <= size <= MOST_BYTES:
            return given
    found = as_integer(given)
    if found is None or not 0 <= found < 2**31:
        raise ConfigurationError(
            f"breakers has {given!r}; allowed are texts of 1 to {MOST_BYTES} bytes in UTF-8, and token ids, integers from 0"
        )
    return found
