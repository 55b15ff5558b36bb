"""Dry: tokens that would continue a repeat become less likely, the longer it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.parameters import Either, Integer, ListOf, Number, Text, TokenId
from logitkit.parameters.forms import elements
from logitkit.parameters.scalars import as_integer
from logitkit.penalties.breaker_tables import Encode, compile_breakers
from logitkit.penalties.breakers import Breakers, HostBreakers
from logitkit.penalties.repeats import repeat_ends, repeat_lengths, repeats_tensors
from logitkit.penalties.token_history import COUNTED, NOTHING_COUNTED, HistoryProcessor, TokenHistory
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill, map_tensors
from logitkit.runtime.host_logits import HostLogits
from logitkit.runtime.tensor_logits import finite_tensors
from logitkit.vocabulary.marker import check_vocabulary
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Dry", "DryState", "penalties_by_length"]

# llama.cpp lets penalties grow up to about the largest 32-bit number. This is its logarithm there.
GREATEST_LOG = 88.7228391

# A penalty that grows slowly does so up to this many tokens, which limits the table of a row.
LONGEST_GROWTH = 4096


class DryState(NamedTuple):
    """The tokens of each row, the breakers, and the penalties.

    Args:
        history: The tokens that count.
        breakers: The breakers.
        penalties: [B, L] float32, the penalty on continuing a repeat, by its length in tokens; ascending.
        longest: [B] int64, the length from which penalties are constant, less than L.
    """

    history: TokenHistory
    breakers: Breakers
    penalties: Annotated[Tensor, Fill(0)]
    longest: Tensor

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if not bool((self.penalties.isfinite() & (self.penalties >= 0)).all()):
            return "a penalty is not a number from 0"
        allowed = (self.longest >= 0) & (self.longest < self.penalties.shape[1])
        return None if bool(allowed.all()) else "a length has no penalty"


def penalties_by_length(multiplier: float, base: float, allowed_length: int) -> Tensor:
    """Return the penalties by length, [1, L] float32, computed on the host so that all devices use the same bits."""
    multiplier, base = float(np.float32(multiplier)), float(np.float32(base))
    growth = 0
    if base > 1:
        growth = min(int(np.float32(GREATEST_LOG) / np.float32(math.log(base))), LONGEST_GROWTH)
    grown = [min(multiplier * math.pow(base, n), float(np.finfo(np.float32).max)) for n in range(growth + 1)]
    return torch.tensor([[0.0] * allowed_length + grown], dtype=torch.float32)


MOST_BREAKERS = 256

# llama.cpp warns, and truncates longer breakers.
MOST_BYTES = 40

# The maximum size of all texts together: each of their bytes is searched for in all tokens.
MOST_TEXT = 2048


@dataclass(frozen=True)
class Dry(HistoryProcessor[DryState]):
    r"""Subtract a penalty from the logit of each token that would continue a repeat; it grows exponentially with the length.

    A repeat is a run of the last tokens that has occurred before. Continuing one of n tokens costs
    `multiplier * base ** (n - allowed_length)`, and nothing if n is less than `allowed_length`. A repeat never reaches back
    across a breaker, so the fixed phrases of a format may recur, and a token that contains a breaker has no penalty.

    Results are those of llama.cpp, with its `penalty_last_n` as `window`. They agree in every bit for breakers of one ASCII
    character, and for longer ones if `encode` is given: the rest of a breaker that begins inside a token must then be in the
    tokens that `encode` returns for it. Without `encode`, any tokens that spell the rest match. There are three differences:
    special tokens are given by id here, and by their text in llama.cpp; finite logits stay finite; and penalties grow for at most
    4,096 tokens, which matters for bases below 1.022.

    Each row takes 4 bytes of memory for each token that counts, 4 for each length up to the one where penalties stop growing (644
    bytes for the base 1.75), and 4 for each token that contains a breaker (7 kB for the defaults and 131,072 tokens). Longer
    breakers take 4 bytes for each token and state in which one may begin, and 12 for each with which it may continue, at most
    4 MiB.

    Args:
        multiplier: From 0 to 100; 0 changes nothing, 0.8 is usual.
        base: From 1 to 1000.
        allowed_length: The length in tokens from which a repeat is penalised, from 0 to 4096.
        breakers: Texts of up to 40 bytes in UTF-8, together up to 2048, and token ids; at most 256. The name of a special token
            means that token too.
        window: Count only this many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Padding never does.
        vocabulary: The vocabulary; required if a breaker is text.
        encode: Returns the token ids of a text, without special tokens.

    Raises:
        ConfigurationError: An argument has the wrong type or is not in range, a breaker is text but there is no vocabulary, or
            the tables would take more than 4 MiB for each row.
        VocabularyError: The vocabulary has another type, or does not have a token id.

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
        neutral={"multiplier": 0.0, "base": 1.0, "allowed_length": 0, "breakers": (), **NOTHING_COUNTED},
    )
    may_empty_rows = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "breakers", _checked_breakers(self.breakers))
        texts = [b for b in self.breakers if isinstance(b, str)]
        ids = [b for b in self.breakers if isinstance(b, int)]
        if self.encode is not None and not callable(self.encode):
            raise ConfigurationError(f"encode is {self.encode!r}; give a function from a text to its token ids")
        if self.vocabulary is not None:
            check_vocabulary(self.vocabulary)
            if max(ids, default=0) >= self.vocabulary.size:
                raise VocabularyError(
                    f"breakers has the token id {max(ids)}; allowed are ids from 0 to {self.vocabulary.size - 1}"
                )
            ids += [token for text in texts for token in self.vocabulary.special_names.tokens(text)]
        elif texts:
            raise ConfigurationError(
                f"breakers has the text {texts[0]!r}, whose tokens are unknown: give vocabulary=..., or breakers as token ids, "
                "or breakers=() for none"
            )
        tables = compile_breakers([t.encode() for t in texts], ids, self.vocabulary, self.encode)
        object.__setattr__(self, "_tables", tables)

    @cached_property
    def _penalties(self) -> Tensor:
        return penalties_by_length(self.multiplier, self.base, self.allowed_length)

    def init_state(self, context: Context) -> DryState:
        """Return the initial state of the rows."""
        tables: Breakers = self.__dict__["_tables"]
        parameters = (tables, self._penalties, torch.tensor([self._penalties.shape[1] - 1]))
        rows = map_tensors(
            parameters, lambda t: t.to(context.device).expand(context.batch_size, *t.shape[1:]).contiguous()
        )
        return DryState(self.history(context), *rows)

    def _by_rows(self, state: DryState, logits: Tensor) -> Tensor:
        host, penalties = HostLogits.of(logits), state.penalties.numpy()
        breakers = HostBreakers.rows(state.breakers)
        # The length of the shortest repeat that costs something.
        shortest = (penalties > 0).argmax(1).tolist()
        rows = zip(state.history.rows(), state.longest.tolist(), shortest, strict=True)
        for row, (tokens, longest, least) in enumerate(rows):
            penalty = penalties[row]
            if len(tokens) < max(least, 1) + 1 or penalty[longest] == 0:
                continue
            ends = repeat_ends(tokens, least)
            if not len(ends):
                continue
            most = min(breakers[row].limit(tokens), longest)
            if most < least:
                continue
            amount = penalty[repeat_lengths(tokens, ends, least, most)]
            ids = tokens[ends + 1]
            costs = ~breakers[row].is_single(ids)
            ids, amount = ids[costs], amount[costs]
            # If several repeats are continued by one token, the penalty on the longest is written last.
            order = np.argsort(amount, kind="stable")
            ids, amount = ids[order], amount[order]
            given = host.read(row, ids)
            with np.errstate(over="ignore"):
                host.write(row, ids, given, given - amount)
        return logits

    def _by_kernel(self, state: DryState, logits: Tensor) -> bool:
        from logitkit.kernels.repeat_step import dry_step

        # Breakers that may begin within a token take an automaton of their own.
        if state.breakers.heads.shape[1]:
            return False
        tokens, length, window, _ = state.history
        return dry_step(tokens, length, window, state.breakers.single, state.penalties, state.longest, logits)

    def _by_tensors(self, state: DryState, logits: Tensor) -> Tensor:
        latest = state.history.latest_tensors()
        if latest.shape[1] < 2:
            return logits
        length = repeats_tensors(latest, state.penalties.shape[1] - 1)
        length = torch.minimum(length, state.breakers.limit(latest)).minimum(state.longest[:, None])
        # The oldest token continues no repeat, since no token comes before it.
        oldest = torch.nn.functional.pad(latest[:, 1:], (0, 1), value=-1) < 0
        costs = ~oldest & ~state.breakers.is_single(latest) & (latest < logits.shape[1])
        amount = torch.where(costs, state.penalties.gather(1, length), 0.0)
        ids = torch.where(costs, latest, 0).to(torch.int64)
        wide = torch.promote_types(logits.dtype, torch.float32)
        given = logits.gather(1, ids).to(wide)
        # If several repeats are continued by one token, the longest counts.
        return logits.scatter_reduce_(1, ids, finite_tensors(given, given - amount, logits.dtype), "amin")


def _checked_breakers(given: object) -> tuple[str | int, ...]:
    """Return breakers as a tuple, after checking their types and sizes."""
    breakers = tuple(_checked_breaker(breaker) for breaker in elements("breakers", given, "texts and token ids"))
    if len(breakers) > MOST_BREAKERS:
        raise ConfigurationError(f"breakers has {len(breakers)} entries; at most {MOST_BREAKERS} are allowed")
    size = sum(len(b.encode()) for b in breakers if isinstance(b, str))
    if size > MOST_TEXT:
        raise ConfigurationError(f"breakers have {size} bytes of text together; at most {MOST_TEXT} are allowed")
    return breakers


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
