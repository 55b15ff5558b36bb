"""SequenceBias: make some sequences of tokens more or less likely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters import BySequence, Integer
from logitkit.parameters.scalars import as_real
from logitkit.parameters.token_ids import checked_ids
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.latest_tokens import latest_of, with_tokens
from logitkit.runtime.tensor_logits import finite_tensors
from logitkit.tokens.bias import BIAS
from logitkit.tokens.tokenizations import tokenizations_of

if TYPE_CHECKING:
    from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["SequenceBias", "SequenceBiasState"]

# In a batch, each row has room for the most sequences of any row, each as long as the longest one of any row. So both are
# limited, which makes at most 4 MB per row.
MOST_SEQUENCES = 2**14
LONGEST = 64


class SequenceBiasState(NamedTuple):
    """The sequences of each row, and its last tokens.

    Args:
        before: [B, N, L] int32, the tokens before the last one of each sequence, newest first, padded with -1.
        last: [B, N] int32, the last token of each sequence, padded with -1.
        bias: [B, N] float32, from -1e4 to 1e4.
        latest: [B, L] int32, the last tokens of the row, newest first, -1 after the oldest.
        remembered: [B] int64, how many of these the row needs.
    """

    before: Annotated[Tensor, Fill(-1)]
    last: Annotated[Tensor, Fill(-1)]
    bias: Annotated[Tensor, Fill(0.0), BIAS]
    latest: Annotated[Tensor, Fill(-1)]
    remembered: Annotated[Tensor, Integer(0)]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if not self.before.shape[:2] == self.last.shape == self.bias.shape:
            return "its sequences have different numbers of parts"
        if self.before.shape[2] != self.latest.shape[1] or bool((self.remembered > self.latest.shape[1]).any()):
            return "its sequences are longer or shorter than the tokens that it remembers"
        smallest = min((int(part.min()) for part in (self.before, self.last, self.latest) if part.numel()), default=0)
        return "a token id is below -1" if smallest < -1 else None


@dataclass(frozen=True)
class SequenceBias(HostAndDevice[SequenceBiasState]):
    """Add a constant to the logit of each token that would complete a sequence; finite logits stay finite.

    Only the last token of a sequence is changed, and only if the tokens before it are there, in the prompt or in the output. If
    a token would complete several sequences, their biases add up.

    Args:
        bias: The number to add, by the sequence's token ids: from -1e4 to 1e4. 0 changes nothing. At most 2**14 sequences of at
            most 64 ids each.

    Raises:
        ConfigurationError: `bias` is not a mapping, a sequence is empty, an id is not an integer from 0 to 2**31 - 1, a number is
            not in range, or there are too many sequences or ids.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> bias = lk.SequenceBias({(0, 1): 5.0, (2,): -1.0})
        >>> context = lk.Context.of([[3, 0]], vocabulary_size=4)
        >>> bias.process_logits(bias.init_state(context), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context)[1]
        tensor([[1., 7., 2., 4.]])

    Source: transformers' SequenceBiasLogitsProcessor, which returns the same results.
    """

    bias: Mapping[tuple[int, ...], float]

    role = Role.BIAS
    kind = Kind("sequence_bias", {"bias": BySequence(BIAS)}, main="bias", order=10, neutral={"bias": {}})
    may_empty_rows = False
    reads_prompt = True

    def __post_init__(self) -> None:
        if not isinstance(self.bias, Mapping):
            raise ConfigurationError(f"bias is {self.bias!r}; give a mapping from tuples of token ids to numbers")
        object.__setattr__(self, "bias", dict(_checked(ids, number) for ids, number in self.bias.items()))
        count, longest = len(self.bias), max(map(len, self.bias), default=0)
        if count > MOST_SEQUENCES or longest > LONGEST:
            raise ConfigurationError(
                f"bias has {count} sequences, the longest of {longest} ids; allowed are up to {MOST_SEQUENCES} sequences "
                f"of up to {LONGEST} ids: give fewer or shorter ones"
            )

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.bias.items())))

    @classmethod
    def of_texts(cls, bias: Mapping[str, float], vocabulary: Vocabulary) -> SequenceBias:
        """Create one that biases texts, in every way to write them with the tokens of a vocabulary.

        A token that begins or ends in the middle of a text, such as `" cats"` for `cat`, does not count. The name of a special
        token, such as `</s>`, is text like any other here: only its spelling in ordinary tokens is biased. To bias the token,
        give its id, as in `SequenceBias({(2,): -1.0})`.

        Args:
            bias: The number to add, by text.
            vocabulary: The tokens of the model.

        Raises:
            ConfigurationError: A number is not in range; a text is empty, cannot be written, or in more than 1,024 ways; or
                there are too many sequences of tokens.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
            >>> sorted(lk.SequenceBias.of_texts({"ab": 2.0}, vocabulary).bias)
            [(0, 1), (2,)]
        """
        return cls({ids: number for text, number in bias.items() for ids in tokenizations_of(text, vocabulary)})

    def init_state(self, context: Context) -> SequenceBiasState:
        """Return the initial state of the rows."""
        rows, device = context.batch_size, context.device
        lengths = list(dict.fromkeys(sorted({len(ids) for ids in self.bias}, key=lambda n: (n > 1, self._first(n)))))
        # Added in the order of transformers: single tokens, then the others by their lengths.
        ordered = [(ids, x) for n in lengths for ids, x in self.bias.items() if len(ids) == n and x != 0]
        width = max((len(ids) - 1 for ids, _ in ordered), default=0)
        before = [[*ids[-2::-1], *[-1] * (width - len(ids) + 1)] for ids, _ in ordered]
        ids, last, bias = (
            torch.tensor(values, dtype=dtype, device=device).reshape(shape).expand(rows, *shape).contiguous()
            for values, dtype, shape in (
                (before, torch.int32, (len(ordered), width)),
                ([sequence[-1] for sequence, _ in ordered], torch.int32, (len(ordered),)),
                ([x for _, x in ordered], torch.float32, (len(ordered),)),
            )
        )
        return SequenceBiasState(ids, last, bias, latest_of(context, width), per_row(context, width))

    def _first(self, length: int) -> int:
        return next(i for i, ids in enumerate(self.bias) if len(ids) == length)

    def advance(self, state: SequenceBiasState, tokens: Tensor) -> SequenceBiasState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("SequenceBias", state.remembered.shape[0], tokens)
        return state._replace(latest=with_tokens(state.latest, tokens, state.remembered))

    def _by_rows(self, state: SequenceBiasState, logits: Tensor) -> Tensor:
        host, completes, lasts, amounts = HostLogits.of(logits), _completes(state).numpy(), state.last, state.bias
        for row in np.flatnonzero(completes.any(1)).tolist():
            found = completes[row]
            ids, place = np.unique(lasts.numpy()[row, found], return_inverse=True)
            given = host.read(row, ids)
            bias = np.zeros(len(ids), given.dtype)
            np.add.at(bias, place, amounts.numpy()[row, found].astype(given.dtype))
            with np.errstate(over="ignore"):
                host.write(row, ids, given, given + bias)
        return logits

    def _by_tensors(self, state: SequenceBiasState, logits: Tensor) -> Tensor:
        columns = logits.shape[1]
        wide = torch.promote_types(logits.dtype, torch.float32)
        found = _completes(state) & (state.last < columns)
        bias = torch.zeros(logits.shape, dtype=wide, device=logits.device)
        bias.scatter_add_(
            1, torch.where(found, state.last, 0).to(torch.int64), torch.where(found, state.bias, 0.0).to(wide)
        )
        given = logits.to(wide)
        return torch.where(bias == 0, logits, finite_tensors(given, given + bias, logits.dtype))


def _completes(state: SequenceBiasState) -> Tensor:
    """Return which sequences the next token may complete, [B, N] bool."""
    there = (state.before == state.latest[:, None]) | (state.before < 0)
    return (state.last >= 0) & there.all(2)


def _checked(given: object, number: object) -> tuple[tuple[int, ...], float]:
    ids = checked_ids("bias", given)
    if not ids:
        raise ConfigurationError("bias has an empty sequence; give at least one token id")
    found = as_real(number)
    if found is None or not BIAS.least <= found <= BIAS.most:
        raise ConfigurationError(
            f"bias of {ids} is {number!r}; allowed are numbers from {BIAS.least:g} to {BIAS.most:g}; to ban a text, use "
            "BannedStrings"
        )
    return ids, found
