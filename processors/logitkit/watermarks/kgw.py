"""KgwWatermark: a random part of the vocabulary, the green list, gets a bonus; a text with too many green tokens is marked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from logitkit.errors import ProcessorError
from logitkit.parameters import Integer, Number, SecretInteger, Word
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice
from logitkit.runtime.latest_tokens import latest_of, with_tokens
from logitkit.runtime.tensor_logits import finite_tensors
from logitkit.watermarks.green_lists import best_candidates, left_greens, self_greens
from logitkit.watermarks.keyed_numbers import NUMBERS, hash_contexts, numbers_of, row_numbers
from logitkit.watermarks.saved_keys import check_saved_key, without

__all__ = ["HASH", "SCHEMES", "KgwState", "KgwWatermark"]

KEY = SecretInteger(0, 2**63 - 1)
RATIO = Number(1e-3, 0.999)
BIAS = Number(0, 1e4, "0 changes nothing")
WIDTH = Integer(1, 64)

# By their numbers in a state.
SCHEMES = ("hash", "lefthash", "selfhash")
HASH, LEFT, SELF = range(3)


class KgwState(NamedTuple):
    """The parameters of each row, and its last tokens. The key does not appear in `repr`, nor in saved states.

    Args:
        key: [B] int64; 0 in rows that do not change.
        ratio: [B] float64, the part of the vocabulary that is green.
        bias: [B] float64, the bonus of green tokens; 0 changes nothing.
        width: [B] int64, how many tokens there must be before the next one.
        scheme: [B] int64, an index in `SCHEMES`.
        latest: [B, N] int32, the last tokens, newest first, -1 after the oldest.
        permuted: [B, 1] bool, whether the row uses a scheme of transformers, or [B, 0] if none does: a shape needs no read.
    """

    key: Tensor
    ratio: Annotated[Tensor, RATIO]
    bias: Annotated[Tensor, BIAS]
    width: Tensor
    scheme: Annotated[Tensor, Integer(0, len(SCHEMES) - 1)]
    latest: Annotated[Tensor, Fill(-1)]
    permuted: Annotated[Tensor, Fill(False)]

    def __repr__(self) -> str:
        return without(self, "key")

    @property
    def runs_on_host(self) -> bool:
        """Whether a row permutes the vocabulary, which the host does."""
        return self.permuted.shape[1] > 0

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if bool((self.latest < -1).any()):
            return "a token id is below -1"
        if self.permuted.shape[1] > 1 or not self.permuted.shape[1] >= int((self.scheme != HASH).any()):
            return "the schemes of the rows do not agree with the marks of those that permute"
        return Integer(1, min(WIDTH.most, self.latest.shape[1])).problem("width", self.width)

    def to_portable(self, processor: Any) -> tuple[KgwState, None]:
        """Return the state without its key."""
        check_saved_key((self.key == processor.key) | (self.bias == 0))
        return self._replace(key=torch.zeros_like(self.key)), None

    def from_portable(self, notes: Any, processor: Any, device: torch.device) -> KgwState:
        """Return the state with the key of the processor."""
        return self._replace(key=torch.where(self.bias == 0, 0, processor.key))


@dataclass(frozen=True)
class KgwWatermark(HostAndDevice[KgwState]):
    """Add a bonus to the logits of green tokens: a part of the vocabulary, drawn anew for each context.

    A detector that knows the key counts the green tokens of a text: see `logitkit.watermarks.detect`. The context is the last
    tokens, also those of the prompt; a row with fewer tokens does not change. Put it last in a chain. Finite logits stay
    finite, and -inf stays -inf.

    Args:
        key: The secret key, from 0 to 2**63 - 1. Whoever knows it can detect, remove and forge the watermark. It does not
            appear in `repr`, errors or saved states, but it does in the configuration that `to_config` writes.
        ratio: The part of the vocabulary that is green, from 0.001 to 0.999.
        bias: The bonus, from 0, which changes nothing, to 1e4. A greater one is easier to detect and hurts quality more.
        context_width: The number of tokens that choose the green list, from 1 to 64. More make the key harder to learn from
            texts, and the watermark easier to remove by editing a few words.
        scheme: "hash" draws the green list by hashing the key, the context and each token, on any device. "lefthash" and
            "selfhash" have the green lists of transformers on the CPU, bit for bit. These are permutations of the vocabulary,
            which the host computes for each row, reading from the device at every step. "lefthash" uses the last token only;
            "selfhash" counts the candidate as a token of the context, and considers the best 40.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> watermark = lk.KgwWatermark(key=15485863, bias=2.0, scheme="lefthash")
        >>> context = lk.Context.of([[4]], vocabulary_size=8)
        >>> watermark.process_logits(watermark.init_state(context), torch.zeros(1, 8), context)[1]
        tensor([[2., 0., 2., 0., 0., 0., 0., 0.]])
        >>> watermark
        KgwWatermark(ratio=0.25, bias=2.0, context_width=1, scheme='lefthash')

    Source: Kirchenbauer et al., A Watermark for Large Language Models (2023), algorithms 2 and 3. The schemes "lefthash" and
    "selfhash" are those of transformers' WatermarkLogitsProcessor.
    """

    key: int = field(repr=False)
    ratio: float = 0.25
    bias: float = 2.0
    context_width: int = 1
    scheme: str = "hash"

    role = Role.WATERMARK
    kind = Kind(
        "kgw_watermark",
        {"key": KEY, "ratio": RATIO, "bias": BIAS, "context_width": WIDTH, "scheme": Word(SCHEMES)},
        order=10,
        neutral={"key": 0, "bias": 0.0},
    )
    may_empty_rows = False
    reads_prompt = True

    def init_state(self, context: Context) -> KgwState:
        """Return the initial state of the rows."""
        scheme = SCHEMES.index(self.scheme) if self.bias else HASH
        permuted = torch.ones((context.batch_size, int(scheme != HASH)), dtype=torch.bool, device=context.device)
        return KgwState(
            per_row(context, self.key if self.bias else 0),
            per_row(context, self.ratio),
            per_row(context, self.bias),
            per_row(context, self.context_width),
            per_row(context, scheme),
            latest_of(context, self.context_width),
            permuted,
        )

    def advance(self, state: KgwState, tokens: Tensor) -> KgwState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("KgwWatermark", state.key.shape[0], tokens)
        return state._replace(latest=with_tokens(state.latest, tokens, state.width))

    def _by_rows(self, state: KgwState, logits: Tensor) -> Tensor:
        hashes = hash_contexts(state.key, state.latest[:, None], state.width)[:, 0].tolist()
        for row, (bias, ready) in enumerate(zip(state.bias.tolist(), _ready(state).tolist(), strict=True)):
            if bias and ready:
                line = logits[row]
                if int(state.scheme[row]) == HASH:
                    limit = np.uint64(_limit(state.ratio[row]).item())
                    green = torch.from_numpy(row_numbers(hashes[row], len(line)) < limit)
                else:
                    green = _permuted_greens(state, row, line)
                logits[row] = _raised(line, green, state.bias[row])
        return logits

    def _by_tensors(self, state: KgwState, logits: Tensor) -> Tensor:
        hashes = hash_contexts(state.key, state.latest[:, None], state.width)
        ids = torch.arange(logits.shape[1], device=logits.device)
        green = numbers_of(hashes, ids) < _limit(state.ratio)[:, None]
        active = _ready(state) & (state.bias != 0)
        if state.permuted.shape[1]:
            green = torch.where((state.scheme != HASH)[:, None], _greens_on_host(state, logits, active), green)
        return torch.where(active[:, None], _raised(logits, green, state.bias[:, None]), logits)


def _ready(state: KgwState) -> Tensor:
    """Return which rows have a whole context, [B] bool."""
    return state.latest.gather(1, (state.width - 1)[:, None])[:, 0] >= 0


def _limit(ratio: Tensor) -> Tensor:
    """Return the number below which a token is green."""
    return (ratio * NUMBERS).to(torch.int64)


def _raised(logits: Tensor, green: Tensor, bias: Tensor) -> Tensor:
    """Return logits of which the green ones are raised, in 32 bits at least."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.where(green, finite_tensors(wide, wide + bias.to(wide.dtype), logits.dtype), logits)


def _greens_on_host(state: KgwState, logits: Tensor, active: Tensor) -> Tensor:
    """Return the green lists of rows with a scheme of transformers, [B, V] bool, on the device of the logits."""
    if torch.compiler.is_dynamo_compiling() or isinstance(logits, FakeTensor):
        raise ProcessorError(
            'KgwWatermark with the scheme "lefthash" or "selfhash" permutes the vocabulary on the host, so its steps cannot be '
            'part of a compiled graph; run them eagerly, or use the scheme "hash"'
        )
    local = KgwState(*(field.cpu() for field in state))
    permuted = active.cpu() & (local.scheme != HASH)
    lines, green = logits.detach().cpu(), torch.zeros(logits.shape, dtype=torch.bool)
    for row in permuted.nonzero()[:, 0].tolist():
        green[row] = _permuted_greens(local, row, lines[row])
    return green.to(logits.device)


def _permuted_greens(state: KgwState, row: int, line: Tensor) -> Tensor:
    """Return the green list of a row with a scheme of transformers, [V] bool, not to be changed."""
    key, columns = int(state.key[row]), len(line)
    count = int(columns * float(state.ratio[row]))
    latest = state.latest[row].numpy()
    if int(state.scheme[row]) == LEFT:
        return left_greens(key, int(latest[0]), columns, count)
    scores = torch.where(line.isnan(), -torch.inf, line).float()
    context = latest[: int(state.width[row]) - 1].astype(np.int64)
    greens = self_greens(key, context, best_candidates(scores), columns, count)
    return torch.zeros(columns, dtype=torch.bool).index_fill_(0, torch.from_numpy(greens), True)
