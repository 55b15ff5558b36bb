"""RepetitionPenalty, and the base of penalties on all tokens that have occurred."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import StateFileError
from logitkit.parameters import Number
from logitkit.penalties.token_counts import TokenCounts
from logitkit.penalties.token_history import COUNTED, NOTHING_COUNTED, UNBOUNDED, HistoryProcessor, TokenHistory
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostLogits, filled
from logitkit.runtime.tensor_logits import Places, finite_tensors

if TYPE_CHECKING:
    from logitkit.kernels.joined_lists import TokenList

__all__ = ["OccurrencePenalty", "RepetitionPenalty", "RepetitionState", "counts_of", "renewed_memories"]

S = TypeVar("S", bound=tuple[Any, ...])

# From this many rows on, with at most this many ids in each, all rows are changed at once. With 32 rows of 300 tokens, that takes
# a third of the time; with long texts, it would take longer.
MANY_ROWS, FEW_IDS = 6, 800

# Far beyond every use, and neither a penalty nor its reciprocal overflows in 32 bits.
PENALTY = Number(1e-4, 1e4, "1 changes nothing")


class OccurrencePenalty(HistoryProcessor[S]):
    """A penalty on the logit of each token that has occurred; finite logits stay finite.

    Subclasses define `_changed`. Their states have the fields `history`, for rows with a window; `occurred`, for rows that count
    all tokens; and `penalty`, [B].
    """

    penalty: float

    role = Role.PENALTY

    # The penalty that changes nothing.
    neutral: ClassVar[float]

    # The change that kernels make to logits, a name of `logitkit.kernels.listed_step.Change`.
    change: ClassVar[str]

    # Whether the penalty is multiplied by how often the token occurs.
    counts = False

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        """Return the changed logits.

        Args:
            given: The logits of the tokens, an array or a tensor.
            penalty: The penalty of each.
            where: `np.where` or `torch.where`.
        """
        raise NotImplementedError

    def memories(self, context: Context) -> tuple[TokenHistory, TokenCounts]:
        """Return what rows remember at first: the tokens in the window, and all distinct tokens if there is no window."""
        prompt = context.prompt if self.include_prompt else context.prompt[:, :0]
        history = TokenHistory.nothing(context) if self.window is None else self.history(context)
        return history, TokenCounts.of(context, prompt, self.window is None, self.counts)

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        history, occurred = state.history, state.occurred  # type: ignore[attr-defined]
        check_tokens(type(self).__name__, history.length.shape[0], tokens)
        if history.tokens.shape[1]:
            is_counted = occurred.counted.view(-1, *[1] * (tokens.dim() - 1))
            history = history.append(torch.where(is_counted, -1, tokens) if occurred.ids.shape[1] else tokens)
        if occurred.ids.shape[1]:
            occurred = occurred.add(tokens)
        after: S = state._replace(history=history, occurred=occurred)  # type: ignore[attr-defined]
        return after

    def _by_rows(self, state: Any, logits: Tensor) -> Tensor:
        host, occurred, penalty = HostLogits.of(logits), state.occurred, state.penalty.numpy()
        # A row has tokens in its window, or here.
        if state.history.tokens.shape[1]:
            self._change_rows_window(host, state.history.tokens.numpy(), penalty)
        if not occurred.ids.shape[1]:
            return logits
        ids, counts, number = occurred.ids.numpy(), occurred.counts.numpy(), occurred.number.tolist()
        if len(number) >= MANY_ROWS and max(number) <= FEW_IDS:
            self._change_rows_at_once(host, ids, counts, np.where(penalty == self.neutral, 0, number), penalty)
            return logits
        for row, length in enumerate(number):
            if penalty[row] != self.neutral:
                self._change(host, row, ids[row, :length], penalty[row], counts[row, :length] if self.counts else None)
        return logits

    def _change_rows_at_once(
        self,
        host: HostLogits,
        ids: NDArray[np.int32],
        counts: NDArray[np.int32],
        number: NDArray[np.int64],
        penalty: NDArray[Any],
    ) -> None:
        """Change the logits of the first `number` ids of each row."""
        most = int(number.max())
        row, places = filled(np.arange(most) < number[:, None])
        often = counts[:, :most][places] if self.counts else None
        self._change(host, row, ids[:, :most][places], penalty[row], often)

    def _change_rows_window(self, host: HostLogits, tokens: NDArray[np.int32], penalty: NDArray[Any]) -> None:
        """Change the logits of the tokens in windows, [B, N]."""
        there = tokens >= 0
        there[penalty == self.neutral] = False
        if not self.counts:
            rows, places = filled(there)
            self._change(host, rows, tokens[places], penalty[rows], None)
            return
        # Sorted, equal tokens of a row are neighbours; a run ends with its row.
        ordered = np.sort(np.where(there, tokens, -1), axis=1)
        begins = np.ones(ordered.shape, np.bool_)
        np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
        first = np.flatnonzero(begins)
        ids, often = ordered.reshape(-1)[first], np.diff(first, append=ordered.size)
        real = ids >= 0
        # As in `filled`: one row for all takes less time.
        row: Any = first[real] // tokens.shape[1] if len(tokens) != 1 else 0
        self._change(host, row, ids[real], penalty[row], often[real])

    def _change(self, host: HostLogits, row: Any, ids: NDArray[Any], penalty: Any, often: NDArray[Any] | None) -> None:
        """Change the logits of some ids, of which there may be none.

        Args:
            host: The logits.
            row: The row of each id, or one row for all.
            ids: [N] the ids; if an id is there twice, so is all else.
            penalty: The penalty of each, or one for all.
            often: [N], how often each occurred, if that counts.
        """
        if not len(ids):
            return
        # numpy's own type of an index, which it would convert others to slowly, twice.
        ids = ids.astype(np.intp)
        given = host.read(row, ids)
        amount = penalty if often is None else penalty * often.astype(penalty.dtype)
        with np.errstate(over="ignore"):
            host.write(row, ids, given, self._changed(given, amount.astype(given.dtype), np.where))

    def _by_kernel(self, state: Any, logits: Tensor) -> bool:
        from logitkit.kernels.listed_step import Change, listed_step

        occurred, tokens, change = state.occurred, state.history.tokens, Change[self.change]
        often = occurred.counts if self.counts else None
        # Where a kernel is refused, tensor operations change what it would have.
        if not listed_step(change, occurred.ids, logits, state.penalty, often):
            self._change_occurred(state, logits)
        if not listed_step(change, tokens, logits, state.penalty, distinct=False):
            self._change_window(state, logits)
        return True

    def _stage(self, state: Any) -> TokenList | None:
        from logitkit.kernels.joined_lists import TokenList
        from logitkit.kernels.listed_step import Change

        # The tokens of a window may be the same, which takes a program that has all of them.
        if state.history.tokens.shape[1]:
            return None
        ids, often, number, *_ = state.occurred
        return TokenList(Change[self.change], ids, often if self.counts else None, number, state.penalty)

    def _by_tensors(self, state: Any, logits: Tensor) -> Tensor:
        return self._change_window(state, self._change_occurred(state, logits))

    def _change_occurred(self, state: Any, logits: Tensor) -> Tensor:
        """Change the logits of all tokens of rows without a window, in place."""
        occurred = state.occurred
        if not occurred.ids.shape[1]:
            return logits
        return self._change_tensors(state, logits, occurred.ids, occurred.counts if self.counts else None)

    def _change_window(self, state: Any, logits: Tensor) -> Tensor:
        """Change the logits of the tokens in the window of rows with one, in place."""
        tokens = state.history.tokens
        if not tokens.shape[1]:
            return logits
        return self._change_tensors(state, logits, tokens, counts_of(tokens) if self.counts else None)

    def _change_tensors(self, state: Any, logits: Tensor, listed: Tensor, often: Tensor | None) -> Tensor:
        """Change the logits of the ids that are listed, [B, N], given how often each occurred, in place."""
        ids, source, some = Places.of(listed, logits.shape[1])
        wide = torch.promote_types(logits.dtype, torch.float32)
        penalty = torch.where(some, state.penalty[:, None], self.neutral)
        if often is not None:
            penalty = penalty * often.gather(1, source)
        given = logits.gather(1, ids).to(wide)
        changed = self._changed(given, penalty.to(wide), torch.where)
        return logits.scatter_(1, ids, finite_tensors(given, changed, logits.dtype))


def counts_of(tokens: Tensor) -> Tensor:
    """Return how often each of some tokens occurs among those of its row: [B, N] int64.

    Args:
        tokens: [B, N] int32, in any order; negative numbers mean none.

    Example:
        >>> counts_of(torch.tensor([[9, 7, 9, -1]])).tolist()
        [[2, 1, 2, 1]]
    """
    ordered = tokens.sort(1).values
    return torch.searchsorted(ordered, tokens, right=True) - torch.searchsorted(ordered, tokens)


def renewed_memories(tensors: Mapping[str, Tensor], often: bool) -> tuple[TokenHistory, TokenCounts]:
    """Return what rows remember, from a state of version 0.2, which kept all tokens of rows without a window too.

    Args:
        tensors: The tensors of a file, by their paths within the state.
        often: Whether the penalty counts how often each token occurs.

    Raises:
        StateFileError: They are not those of such a state, or corrupt.
    """
    like = TokenHistory.nothing(Context.of([[]], vocabulary_size=1))
    names = [f"history.{name}" for name in like._fields]
    if tensors.keys() != {*names, "penalty"}:
        raise StateFileError(f"its state has the tensors {', '.join(sorted(tensors))}, which no version of it had")
    history = TokenHistory(*map(tensors.__getitem__, names))
    if any((t.dtype, t.dim()) != (part.dtype, part.dim()) for t, part in zip(history, like, strict=True)):
        raise StateFileError("the tensors of its history have other dtypes or numbers of dimensions")
    problem = history.problem()
    if problem:
        raise StateFileError(f"its history is corrupt: {problem}")
    rows, counted = len(history.length), history.window == UNBOUNDED
    occurred = TokenCounts.of(
        Context.of([[]] * rows, vocabulary_size=1), torch.zeros(rows, 0), bool(counted.any()), often
    )
    occurred = occurred._replace(counted=counted)
    occurred = occurred.add(history.tokens.to(torch.int64)) if counted.any() else occurred
    if counted.all():
        return TokenHistory.nothing(Context.of([[]] * rows, vocabulary_size=1)), occurred
    return history._replace(
        tokens=torch.where(counted[:, None], -1, history.tokens),
        length=torch.where(counted, 0, history.length),
        window=torch.where(counted, 1, history.window),
    ), occurred


class RepetitionState(NamedTuple):
    """The tokens of each row, and the penalty on repeating them.

    Args:
        history: The last tokens of rows with a window.
        occurred: The distinct tokens of rows without one.
        penalty: [B] float64, from 1e-4 to 1e4; 1 changes nothing.
    """

    history: TokenHistory
    occurred: TokenCounts
    penalty: Annotated[Tensor, PENALTY]

    def renewed(self, tensors: Mapping[str, Tensor]) -> RepetitionState:
        """Return the state that version 0.2 saved."""
        return RepetitionState(*renewed_memories(tensors, often=False), tensors["penalty"])


@dataclass(frozen=True)
class RepetitionPenalty(OccurrencePenalty[RepetitionState]):
    """Divide the positive logits of tokens that have occurred, and multiply the negative ones.

    Args:
        penalty: From 1e-4 to 1e4; above 1 discourages repetition, below 1 encourages it, 1 changes nothing.
        window: Count only this many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Padding never does.

    Raises:
        ConfigurationError: The penalty or the window is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> context = lk.Context.of([[1, 2]], vocabulary_size=4)
        >>> penalty.process_logits(penalty.init_state(context), torch.tensor([[4.0, 4.0, -4.0, -4.0]]), context)[1]
        tensor([[ 4.,  2., -8., -4.]])

    Source: Keskar et al., CTRL (2019). The results are those of transformers' RepetitionPenaltyLogitsProcessor.
    """

    penalty: float
    window: int | None = None
    include_prompt: bool = True

    neutral = 1.0
    change = "DIVIDE"
    kind = Kind(
        "repetition_penalty",
        {"penalty": PENALTY, **COUNTED},
        main="penalty",
        order=10,
        neutral={"penalty": neutral, **NOTHING_COUNTED},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> RepetitionState:
        """Return the initial state of the rows."""
        return RepetitionState(*self.memories(context), per_row(context, self.penalty))

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        less, more = given * penalty, given / penalty
        if where is np.where:
            # A negative logit has a product below its quotient, unless the penalty is below 1. So this is the same, but faster.
            # One penalty for all is a scalar, of which `np.min` takes longer than all the rest.
            least, most = (penalty.min(), penalty.max()) if penalty.ndim else (penalty, penalty)
            if least >= 1:
                return np.minimum(less, more)
            if most <= 1:
                return np.maximum(less, more)
        return where(given < 0, less, more)
