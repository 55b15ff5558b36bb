"""The rows of a loop that somebody writes: their states, from the logits of one step to those of the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.batching import RowProcessors
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.parameters.token_ids import checked_ids
from logitkit.protocol.calls import advance_checked, check_tokens, count_tokens, init_checked
from logitkit.protocol.context import Context, concatenate_context, context_to, select_context
from logitkit.protocol.processor import Processor, check_is_processor, reads_guidance
from logitkit.protocol.row_limit import checked_max_new_tokens
from logitkit.protocol.state import concatenate, select, to, walk
from logitkit.tokens.id_lists import is_any
from logitkit_adapters.arrays import logits_to_torch
from logitkit_adapters.loop.arguments import forced_ends, prompt_lists, row_numbers, token_tensor

__all__ = ["Steps"]

CPU = torch.device("cpu")


class _LoopRows(NamedTuple):
    """The rows of a loop.

    Args:
        processor: The processor of all rows, or `RowProcessors` with one for each.
        state: Their state.
        context: Their context.
        ended: [B] bool, the rows that have had EOS.
    """

    processor: Any
    state: Any
    context: Context
    ended: Tensor


class Steps:
    """Run a processor in a loop of your own, on logits of numpy, torch, JAX or mlx.

    Call `process` with the logits of each step, sample from the result, and pass the tokens to `commit`. With beams, and when
    rows leave or enter the batch, call `select` and `add`.

    Args:
        processor: The processor of all rows; or a list with the processor of each row, None for a row without one.
        prompts: The prompts, a list of token ids for each row, without padding; or an array of integers, [B, P].
        max_new_tokens: The maximum number of tokens after a prompt, for processors that close their text within it.
        eos_ids: Ids that end a row, in addition to those that the processor knows.
        columns: The number of columns of the logits. None: that of the first logits. Needed only if `commit` or `select` comes
            before the first logits, as to go on with a text.

    Raises:
        ConfigurationError: An argument is something else, or there is not one processor for each prompt.

    Example:
        >>> import numpy as np
        >>> import logitkit as lk
        >>> from logitkit_adapters.loop import Steps
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> steps = Steps(lk.Regex("ab", vocabulary), prompts=[[0], [1, 1]])
        >>> written = [[], []]
        >>> while not steps.finished.all():
        ...     logits = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], np.float32)  # from a model
        ...     tokens = steps.process(logits).argmax(-1)
        ...     steps.commit(tokens)
        ...     for row, token in zip(written, tokens.tolist()):
        ...         row.append(token)
        >>> written
        [[0, 1, 2], [0, 1, 2]]
    """

    def __init__(
        self,
        processor: Processor[Any] | Sequence[Processor[Any] | None],
        prompts: Sequence[Sequence[int]] | Any,
        *,
        max_new_tokens: int | None = None,
        eos_ids: Sequence[int] = (),
        columns: int | None = None,
    ) -> None:
        self._each = isinstance(processor, list | tuple)
        # Also those of rows that have left.
        self._ends = checked_ids("eos_ids", eos_ids)
        self._columns = None if columns is None else checked_integer("columns", columns, 1, 2**31 - 1)
        self._max_new_tokens = max_new_tokens
        self._device = CPU
        self._streams = 0
        # Rows without a state, until the number of columns is known.
        self._waiting: list[tuple[Any, list[list[int]]]] = []
        self._rows: _LoopRows | None = None
        if not self._each:
            check_is_processor(processor, note="or a list with one for each row")
        self._shared: Any = None if self._each else processor
        self._process: EngineLogits | None = None
        self.add(prompts, processor if self._each else None)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """Return the number of rows."""
        there = 0 if self._rows is None else len(self._rows.ended)
        return there + sum(len(prompts) for _, prompts in self._waiting)

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which rows have had EOS, [B] bool. Tokens that are committed to such a row are ignored."""
        if self._rows is None:
            return np.zeros(len(self), np.bool_)
        waiting = len(self) - len(self._rows.ended)
        found: NDArray[np.bool_] = np.concatenate([self._rows.ended.cpu().numpy(), np.zeros(waiting, np.bool_)])
        return found

    @property
    def processor(self) -> Any:
        """The processor of all rows; of rows with a processor each, one that runs them all."""
        return self._shared if self._rows is None else self._rows.processor

    @property
    def state(self) -> Any:
        """The state of the rows, for methods of `processor` such as `is_dead`; None before the first logits.

        You may replace it by another state of the same rows, as in `steps.state = budget.close(steps.state, rows)`.
        """
        return None if self._rows is None else self._rows.state

    @state.setter
    def state(self, given: Any) -> None:
        if self._rows is None:
            raise ConfigurationError("the rows have no state before the first logits; call process first")
        if _form_of(given) != _form_of(self._rows.state):
            raise ConfigurationError(
                f"state is a {type(given).__name__} of another form than the state of these rows; give one that was made from "
                "steps.state, such as budget.close(steps.state, rows), and for a chain a tuple with one state for each processor"
            )
        self._rows = self._rows._replace(state=given)

    @property
    def context(self) -> Context | None:
        """The context of the rows: prompts and lengths; None before the first logits."""
        return None if self._rows is None else self._rows.context

    def process(self, logits: Any, *, guidance_logits: Any = None, overwrite: bool = True) -> Any:
        """Process the logits from which the next token of each row is chosen.

        Args:
            logits: [B, V], or with more dimensions, [..., V], whose rows are B; [V] for one row. Floating point of 16, 32 or 64
                bits in numpy, torch, JAX or mlx.
            guidance_logits: The logits of the second pass for the same tokens, in the shape of `logits`, in any array library on
                the same device. `Guidance` needs them in each step; without it, they are ignored. They stay unchanged.
            overwrite: Whether a numpy array or a torch tensor may be overwritten, so that nothing is copied. JAX and mlx arrays
                never are.

        Returns:
            The processed logits, in the type, dtype and shape of the given ones, and on their device.

        Raises:
            BatchMismatch: The number of rows differs, or the two passes have logits of different shapes.
            BrokenLogits: A logit is NaN or +inf, or a row has no finite one; on an accelerator, at the next call.
            ConfigurationError: The logits are something else, the number of their columns has changed, or a processor reads the
                logits of a second pass and there are none.
            ProcessorError: The processor leaves a row without a token, and no EOS is known.
        """
        taken = logits_to_torch(logits, flatten=True)
        tensor = taken.tensor
        if self._columns not in (None, tensor.shape[1]):
            raise ConfigurationError(
                f"the logits have {tensor.shape[1]} columns, but {self._columns} are expected; give logits of one model"
            )
        if len(tensor) != len(self):
            raise BatchMismatch(
                f"the logits have {len(tensor)} rows, but the loop has {len(self)}; give those of the last token of each row, "
                "and call select or add when rows leave or enter"
            )
        if not len(tensor):
            return logits
        second = None if guidance_logits is None else logits_to_torch(guidance_logits, flatten=True).tensor
        before = self._rows, self._waiting, self._columns, self._streams, self._process
        self._columns = tensor.shape[1]
        try:
            found = self._processed(tensor, second, overwrite or taken.copied)
        except Exception:
            if before[2] is None:
                # The number of columns may be wrong, so the rows begin with the next logits.
                self._rows, self._waiting, self._columns, self._streams, self._process = before
            raise
        return taken.back(found).array

    def _processed(self, logits: Tensor, second: Tensor | None, overwrite: bool) -> Tensor:
        rows = self._ready(logits.device)
        context = rows.context
        if reads_guidance(rows.processor):
            context = replace(context, guidance_logits=second)
        if self._process is None:
            self._process = EngineLogits(rows.processor, guided=True)
        self._process.raise_broken()
        return self._process(rows.state, logits, context, self._ends, overwrite)

    def commit(self, tokens: Any) -> None:
        """Append tokens to the rows.

        Args:
            tokens: [B], or [B, T] for several tokens of each row, integers in any array library or a list; -1 for no token. A
                number, if there is one row.

        Raises:
            BatchMismatch: The number of rows differs.
            ConfigurationError: The tokens are something else, or come before the first logits and `columns` is unknown.
        """
        rows = self._known("commit")
        if rows is None:
            return
        shown = token_tensor(tokens, self._columns or 0, rows.ended.device)
        check_tokens("commit", len(rows.ended), shown)
        ends = rows.ended
        if self._ends:
            columns = shown if shown.dim() == 2 else shown[:, None]
            is_end = is_any(columns, self._ends) & ~forced_ends(rows.processor, rows.state, columns, self._ends)
            over = ends[:, None] | (is_end.cumsum(1) - is_end.long() > 0)
            shown, ends = torch.where(over, -1, columns).reshape(shown.shape), ends | is_end.any(1)
        state = advance_checked(rows.processor, rows.state, shown)
        context = rows.context.at(rows.context.lengths + count_tokens(shown))
        self._rows = rows._replace(state=state, context=context, ended=ends)

    def select(self, rows: Any) -> None:
        """Keep some rows, in a new order; rows may repeat, as with beams.

        Args:
            rows: The rows to keep, integers from 0 to B - 1; or [B] bool, such as `~steps.finished`.

        Raises:
            ConfigurationError: A row does not exist, or this comes before the first logits and `columns` is unknown.
        """
        known = self._known("select")
        chosen = row_numbers(rows, len(self))
        self._raise_broken()
        if not chosen:
            self._rows, self._process = None, None
            return
        assert known is not None
        index = torch.tensor(chosen, dtype=torch.int64, device=known.ended.device)
        processor, state = known.processor, known.state
        if isinstance(processor, RowProcessors):
            processor, state = processor.selected(state, chosen, index.device)
        else:
            state = select(state, index)
        self._set(_LoopRows(processor, state, select_context(known.context, index), known.ended[index]))

    def add(
        self, prompts: Sequence[Sequence[int]] | Any, processors: Sequence[Processor[Any] | None] | None = None
    ) -> None:
        """Append rows.

        Args:
            prompts: Their prompts, as for `Steps`.
            processors: A processor for each of them, if the rows have one each.

        Raises:
            ConfigurationError: The prompts are something else, or the rows have one processor each, and the new ones do not.
        """
        new = prompt_lists(prompts)
        if (processors is not None) != self._each:
            raise ConfigurationError(
                "processors are missing; give one for each new row, or None for a row without one"
                if self._each
                else "all rows share one processor, so new rows have it too; for another one, give Steps a list of processors"
            )
        if processors is not None and len(processors) != len(new):
            raise ConfigurationError(
                f"there are {len(processors)} processors for {len(new)} prompts; give one for each"
            )
        if not new:
            return
        runs = self._shared if processors is None else RowProcessors(tuple(processors))
        checked_max_new_tokens(runs, self._max_new_tokens)
        parts = runs.distinct if isinstance(runs, RowProcessors) else (runs,)
        self._ends = tuple(dict.fromkeys((*self._ends, *(end for part in parts for end in eos_ids_of(part)))))
        self._waiting.append((runs, new))

    def _raise_broken(self) -> None:
        """Report broken logits of the last call on an accelerator before the rows change."""
        if self._process is not None:
            self._process.raise_broken()

    def _known(self, call: str) -> _LoopRows | None:
        """Return the rows with their states; None if there are none."""
        if self._columns is None and len(self):
            raise ConfigurationError(
                f"{call} comes before the first logits, so the number of their columns is unknown; give Steps(..., columns=...)"
            )
        return self._ready(self._device) if len(self) else None

    def _ready(self, device: torch.device) -> _LoopRows:
        """Return the rows with their states on a device."""
        rows = self._rows
        if rows is not None and rows.context.device != device:
            rows = rows._replace(
                state=to(rows.state, device), context=context_to(rows.context, device), ended=rows.ended.to(device)
            )
        self._device = device
        if self._waiting:
            self._raise_broken()
        for runs, prompts in self._waiting:
            rows = self._with_more(rows, runs, prompts)
        self._waiting = []
        assert rows is not None
        if rows is not self._rows:
            self._set(rows)
        return rows

    def _with_more(self, rows: _LoopRows | None, runs: Any, prompts: list[list[int]]) -> _LoopRows:
        assert self._columns is not None
        context = Context.of(prompts, self._columns, self._device)
        # Rows with the same prompt draw different random numbers.
        streams = torch.arange(self._streams, self._streams + len(prompts), device=self._device)
        self._streams += len(prompts)
        context = replace(context, stream_ids=streams)
        if (most := self._max_new_tokens) is not None:
            limits = context.prompt_lengths + most
            context = replace(context, max_length=max(map(len, prompts)) + most, max_lengths=limits)
        ended = torch.zeros(len(prompts), dtype=torch.bool, device=self._device)
        new = _LoopRows(runs, init_checked(runs, context), context, ended)
        if rows is None:
            return new
        if isinstance(rows.processor, RowProcessors):
            runs, state = rows.processor.joined(rows.state, runs, new.state, self._device)
        else:
            state = concatenate([rows.state, new.state])
        return _LoopRows(runs, state, concatenate_context([rows.context, context]), torch.cat([rows.ended, ended]))

    def _set(self, rows: _LoopRows) -> None:
        if self._rows is None or rows.processor is not self._rows.processor:
            self._process = None
        self._rows = rows


def _form_of(state: Any) -> list[tuple[Any, ...]]:
    """Return what two states of the same rows have in common: classes, dtypes, shapes and devices."""
    return [
        (path, part.dtype, part.shape, part.device) if isinstance(part, Tensor) else (path, type(part))
        for path, part in walk(state)
    ]
