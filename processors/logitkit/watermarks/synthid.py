"""SynthIdWatermark: tokens compete in a tournament of as many layers as there are keys, and those with more random ones win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.lazy import lazy
from logitkit.parameters import Boolean, Integer, SecretInteger, SecretIntegers
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostAndDevice, host_rows
from logitkit.sampling.scores import scores_of
from logitkit.watermarks.context_history import REMEMBERED, WIDTH, ContextHistory
from logitkit.watermarks.saved_keys import check_saved_key, without

__all__ = ["SynthIdState", "SynthIdWatermark", "hash_step", "sampling_table"]

KEYS = SecretIntegers(SecretInteger(0, 2**63 - 1), 64)
NGRAM = Integer(2, WIDTH.most + 1)
TABLE = Integer(1, 2**20)

# The linear congruential generator of the hash, whose numbers wrap around at 64 bits.
MULTIPLIER, INCREMENT = 6364136223846793005, 1

# The table is kept as bits, in words of this many.
WORD = 32


class SynthIdState(NamedTuple):
    """The keys and tables of each row, and its contexts. The keys do not appear in `repr`, nor in saved states.

    Args:
        keys: [B, D] int64, filled with zeros at the end.
        depth: [B] int64, how many keys the row has; 0 changes nothing.
        table: [B, N] int64, a bit for each entry of the table of random numbers, 32 in each.
        entries: [B] int64, the number of entries.
        history: The contexts of the row.
    """

    keys: Tensor
    depth: Tensor
    table: Tensor
    entries: Tensor
    history: ContextHistory

    def __repr__(self) -> str:
        return without(self, "keys")

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if bool(((self.table < 0) | (self.table >= 1 << WORD)).any()):
            return f"a word of a table has more than {WORD} bits"
        return Integer(0, self.keys.shape[1]).problem("depth", self.depth) or Integer(
            1, min(TABLE.most, self.table.shape[1] * WORD)
        ).problem("entries", self.entries)

    def to_portable(self, processor: Any) -> tuple[SynthIdState, None]:
        """Return the state without its keys."""
        own = torch.tensor(processor.keys, dtype=torch.int64, device=self.keys.device)
        there = torch.arange(self.keys.shape[1], device=self.keys.device) < self.depth[:, None]
        known = torch.nn.functional.pad(own, (0, max(0, self.keys.shape[1] - len(own))))[: self.keys.shape[1]]
        same = ((self.keys == known) | ~there).all(1) & ((self.depth == len(own)) | (self.depth == 0))
        check_saved_key(same)
        return self._replace(keys=torch.zeros_like(self.keys)), None

    def from_portable(self, notes: Any, processor: Any, device: torch.device) -> SynthIdState:
        """Return the state with the keys of the processor."""
        keys = torch.zeros((len(self.depth), max(self.keys.shape[1], len(processor.keys))), dtype=torch.int64)
        keys[self.depth > 0, : len(processor.keys)] = torch.tensor(processor.keys, dtype=torch.int64)
        return self._replace(keys=keys, depth=torch.where(self.depth > 0, len(processor.keys), 0))


@dataclass(frozen=True)
class SynthIdWatermark(HostAndDevice[SynthIdState]):
    """Replace the logits with the log-probabilities of the winner of a tournament, which random numbers of the tokens decide.

    Each key is a layer. In a layer, each token has a random bit, g, which follows from the key, the context and the token. Two
    tokens are drawn, and the one with the greater g wins. With one layer and the probabilities 0.5, 0.3 and 0.2, of which only
    the second has g = 1, the probabilities become 0.35, 0.51 and 0.14. On average over keys, the distribution stays the same.

    The context is the last `ngram_len` - 1 output tokens, where 0 stands for those that are missing. A row that has had its
    context before does not change. Put it last in a chain. Tokens at -inf stay there; others whose probability is 0 get the
    lowest finite number.

    Args:
        keys: The secret keys, 1 to 64 different integers from 0 to 2**63 - 1; 20 to 30 are usual. They do not appear in `repr`,
            errors or saved states, but they do in the configuration that `to_config` writes.
        ngram_len: The number of tokens of a context and the token after it, from 2 to 65.
        context_history_size: How many contexts a row remembers, from 0 to 65,536: 8 bytes each.
        sampling_table_size: The number of entries of the table from which g is read, from 1 to 2**20.
        sampling_table_seed: The seed of this table, from 0 to 2**63 - 1.
        skip_first_ngram_calls: Whether the first `ngram_len` - 1 tokens are left alone.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> watermark = lk.SynthIdWatermark(keys=[654, 400, 836], ngram_len=2)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
        >>> watermark.process_logits(watermark.init_state(context), logits, context)[1].exp()
        tensor([[0.0871, 0.2868, 0.4243, 0.2018]])
        >>> "654" in repr(watermark)
        False

    Source: Dathathri et al., Scalable watermarking for identifying large language model outputs (2024). The results are those of
    transformers' SynthIDTextWatermarkLogitsProcessor, but the sums have 64 bits, and tokens at -inf stay there.
    """

    keys: Sequence[int] = field(repr=False)
    ngram_len: int = 5
    context_history_size: int = 1024
    sampling_table_size: int = 2**16
    sampling_table_seed: int = 0
    skip_first_ngram_calls: bool = False

    role = Role.WATERMARK
    kind = Kind(
        "synthid_watermark",
        {
            "keys": KEYS,
            "ngram_len": NGRAM,
            "context_history_size": REMEMBERED,
            "sampling_table_size": TABLE,
            "sampling_table_seed": Integer(0, 2**63 - 1),
            "skip_first_ngram_calls": Boolean(),
        },
        order=20,
    )
    may_empty_rows = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({*self.keys}) < len(self.keys):
            raise ConfigurationError("keys has a key twice; give different ones, since each decides a layer of its own")
        # Drawn now: while a graph is traced, there are no numbers.
        _ = self._words

    @lazy
    def _words(self) -> list[int]:
        """The table as numbers of 32 bits, the first entry in the lowest bit."""
        bits = np.zeros(-(-self.sampling_table_size // WORD) * WORD, np.uint8)
        bits[: self.sampling_table_size] = sampling_table(self.sampling_table_seed, self.sampling_table_size)
        words: list[int] = np.packbits(bits, bitorder="little").view("<u4").tolist()
        return words

    @classmethod
    def neutral_state(cls, context: Context) -> SynthIdState:
        """Return the state of rows that it leaves unchanged."""
        rows, device = context.batch_size, context.device
        nothing = torch.zeros((rows, 0), dtype=torch.int64, device=device)
        table, history = torch.zeros((rows, 1), dtype=torch.int64, device=device), ContextHistory.of(context, 1, 0, 0)
        return SynthIdState(nothing, per_row(context, 0), table, per_row(context, 1), history)

    def init_state(self, context: Context) -> SynthIdState:
        """Return the initial state of the rows."""
        rows, device, width = context.batch_size, context.device, self.ngram_len - 1
        keys = torch.tensor([[*self.keys]] * rows, dtype=torch.int64).reshape(rows, len(self.keys)).to(device)
        table = torch.tensor(self._words, dtype=torch.int64)
        first = width if self.skip_first_ngram_calls else 0
        return SynthIdState(
            keys,
            per_row(context, len(self.keys)),
            table.expand(rows, -1).to(device).contiguous(),
            per_row(context, self.sampling_table_size),
            ContextHistory.of(context, width, first, self.context_history_size),
        )

    def advance(self, state: SynthIdState, tokens: Tensor) -> SynthIdState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("SynthIdWatermark", state.depth.shape[0], tokens)
        return state._replace(history=state.history.append(tokens, _hash_contexts))

    def reshaped(self, state: SynthIdState, logits: Tensor) -> Tensor:
        """Return the processed logits, which have a gradient if the given ones have."""
        return self._by_tensors(state, logits)

    def _by_rows(self, state: SynthIdState, logits: Tensor) -> Tensor:
        active = state.history.is_new(_hash_contexts) & (state.depth > 0)
        if not bool(active.any()):
            return logits
        hashes = _hash_contexts(state.history.latest[:, None].to(torch.int64), state.history.width)[:, 0].numpy()
        least = torch.finfo(logits.dtype).min
        for number, row in host_rows(logits, active.tolist()):
            line = torch.from_numpy(row.scores)
            chances = line.softmax(0).numpy()
            # Beside +inf, the others have no chance, but are no bans.
            changed = torch.where(logits[number] > -torch.inf, torch.tensor(least, dtype=line.dtype), -torch.inf)
            ids = np.flatnonzero(chances > 0)
            depth, entries = int(state.depth[number]), int(state.entries[number])
            keys, table = state.keys[number, :depth].numpy(), state.table[number].numpy()
            won = _tournament(chances[ids], hash_step(hashes[number], ids), keys, table, entries)
            changed[ids] = torch.from_numpy(_logarithm(won)).to(line.dtype).clamp(min=least)
            logits[number] = changed.to(logits.dtype)
        return logits

    def _by_tensors(self, state: SynthIdState, logits: Tensor) -> Tensor:
        active = state.history.is_new(_hash_contexts) & (state.depth > 0)
        scores, least = scores_of(logits), torch.finfo(logits.dtype).min
        hashes = _hash_contexts(state.history.latest[:, None].to(torch.int64), state.history.width)
        hashes = hash_step(hashes, torch.arange(logits.shape[1], device=logits.device))
        chances = scores.softmax(1)
        for layer in range(state.keys.shape[1]):
            place = hash_step(hashes, state.keys[:, layer, None]) % state.entries[:, None]
            g = (state.table.gather(1, place // WORD) >> (place % WORD)) & 1
            mass = (g * chances).sum(1, keepdim=True, dtype=torch.float64).to(chances.dtype)
            chances = torch.where((layer < state.depth)[:, None], chances * (1 + g - mass), chances)
        # The logarithm of 0 has no derivative.
        positive = chances > 0
        logarithm = torch.where(positive, chances, 1).double().log().to(scores.dtype)
        changed = torch.where(positive, logarithm, least).clamp(min=least)
        # Beside +inf, the others have no chance, but are no bans.
        changed = torch.where(logits > -torch.inf, changed, -torch.inf).to(logits.dtype)
        return torch.where(active[:, None], changed, logits)


def hash_step(hashed: Any, more: Any) -> Any:
    """Return hashes after another number, of tensors or arrays of int64."""
    return (hashed + more) * MULTIPLIER + INCREMENT


def _hash_contexts(contexts: Tensor, width: Tensor) -> Tensor:
    hashed = torch.ones(contexts.shape[:2], dtype=torch.int64, device=contexts.device)
    for back in reversed(range(contexts.shape[2])):
        hashed = torch.where(back < width[:, None], hash_step(hashed, contexts[:, :, back].clamp(min=0)), hashed)
    return hashed


def _tournament(
    chances: NDArray[Any], hashes: NDArray[np.int64], keys: NDArray[np.int64], table: NDArray[np.int64], entries: int
) -> NDArray[Any]:
    """Return the chances of the tokens that are left after all layers, [N], given their hashes with the context."""
    with np.errstate(over="ignore"):
        for key in keys:
            place = hash_step(hashes, key) % entries
            g = (table[place // WORD] >> (place % WORD)) & 1
            mass = chances[g == 1].sum(dtype=np.float64).astype(chances.dtype)
            chances = chances * ((1 + g).astype(chances.dtype) - mass)
    return chances


def _logarithm(chances: NDArray[Any]) -> NDArray[np.float64]:
    wide = np.maximum(chances.astype(np.float64), 0)
    with np.errstate(divide="ignore"):
        found: NDArray[np.float64] = np.log(wide)
    return found


@lru_cache(maxsize=8)
def sampling_table(seed: int, size: int) -> NDArray[np.uint8]:
    """Return the table of random bits, [size], not to be changed."""
    table: NDArray[np.uint8] = (
        torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(seed)).to(torch.uint8).numpy()
    )
    table.flags.writeable = False
    return table
