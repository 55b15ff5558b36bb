"""A generation as a value that can be read, sliced, joined, branched, saved and continued."""

from __future__ import annotations

import copy
import os
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch

from logitkit.errors import ArgumentTypeError
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import to
from logitkit.sessions import sequence_files
from logitkit.sessions.addition import appended, batched, joined, repeated
from logitkit.sessions.keys import read_keys
from logitkit.sessions.sequence_parts import TokenView, sliced
from logitkit.sessions.sequence_rows import SequenceRows

__all__ = ["SequenceState"]

# The fields that are tensors: those that are written to files.
TENSORS = tuple(sequence_files.FIELDS)


# Compared by identity: tensors have no single truth value.
@dataclass(frozen=True, eq=False, repr=False)
class SequenceState(SequenceRows):
    """B prompts x S samples with all their tokens, and everything that a model needs to continue them; see `continuous`.

    Row `b * S + s` is sample s of prompt b. A state never changes: slices, sums and continuations are new states, and any
    number of continuations can start from one state.

    - `state[ids]` if B = S = 1, `state[sample, ids]` if B = 1, `state[batch, ids]` if S = 1, else
      `state[batch, sample, ids]`: the last key slices the *characters* of each row's text, as in Python. `state.tokens[...]`
      slices tokens; it may cut a character in two, whose bytes then stay in the tokens but not in the text. Steps are not
      allowed. `batch` and `sample` may be lists, and `...` stands for all keys that are left out: `state[[0, 2], ...]`.
    - A slice that begins at 0 keeps the cache of its tokens. A later slice cannot, because its tokens move to other
      positions: it drops the cache with a warning, `CacheDropped`.
    - `state + state` joins row by row; `state + "text"` appends a text to every row; `SequenceState.batch(states)` puts the
      rows of several states into one.
    - `list(state)` returns the B x S texts; `str(state)` shows them. `state.new_texts` are the parts that the last generator
      wrote, after `seams`.

    Args:
        token_ids: [B x S, T] int64. The tokens of a row are those with a mask of 1.
        weights: [B, S] float, the sum of the log-probabilities of all generated tokens, including a final EOS; higher is
            better. Slices keep it.
        attention_masks: [B x S, T] int64, 1 for a token, 0 for padding and for an EOS that ended a generation, which a
            continuation does not see. Only the masks decide, so padding and EOS may share an id.
        kv_cache: The engine's cache of the first `cached` columns, or None.
        tokenizer: An object with `encode` and `decode`.
        processor_state: The state of `processor` after the last token, or None.
        processor: The processor of the last generator, or None.
        prompt_lengths: [B x S] int64, the number of prompt tokens in each row; the rest was generated. Default: all.
        seams: [B x S] int64, the number of tokens before the last generator started. Default: all.
        finished: [B x S] bool, which rows ended with EOS. Default: none.
        open_weights: [B, S], the weights without the final EOS: a continuation starts from these, because it does not see that
            EOS. Default: the weights.
        lost_bos: [B x S] bool, which rows come from the middle of a text that began with BOS; a generator adds a BOS to them,
            as to any text. Default: none.
        token_log_probs: [B x S, T] float, the log-probability of each generated token, of which `open_weights` are the sums; NaN
            for prompts, padding and EOS. Slices that begin at 0 and sums of states keep them. Default: NaN.
        cached: The number of leading columns that `kv_cache` covers.
        port: The operations to select from `kv_cache` and save it.

    Raises:
        BatchMismatch: The shapes do not agree.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> class Letters:
        ...     def encode(self, text):
        ...         return [ord(letter) for letter in text]
        ...
        ...     def decode(self, ids):
        ...         return "".join(map(chr, ids))
        >>> ids = torch.tensor([Letters().encode("one two")])
        >>> state = lk.SequenceState(ids, torch.zeros(1, 1), torch.ones_like(ids), None, Letters())
        >>> str(state[:3] + " more"), list(state[-3:]), str(state.tokens[1])
        ('one more', ['two'], 'n')
    """

    @property
    def tokens(self) -> TokenView[SequenceState]:
        """The same indexing, but by tokens: `state.tokens[ids]`, `state.tokens[batch, sample, ids]`."""
        return TokenView(self)

    def __getitem__(self, key: object) -> SequenceState:
        return sliced(self, read_keys(key, self.batch_size, self.num_samples), by_tokens=False)

    def __len__(self) -> int:
        return len(self.token_ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __str__(self) -> str:
        if len(self) == 1:
            return self.texts[0]
        places = [(b, s) for b in range(self.batch_size) for s in range(self.num_samples)]
        one_prompt, one_sample = self.batch_size == 1, self.num_samples == 1
        heads = [f"[{s}]" if one_prompt else f"[{b}]" if one_sample else f"[{b}, {s}]" for b, s in places]
        return "\n".join(f"{head} {text}" for head, text in zip(heads, self.texts, strict=True))

    def __repr__(self) -> str:
        lengths = [len(row) for row in self.rows]
        tokens = f"{min(lengths)} to {max(lengths)}" if min(lengths) != max(lengths) else f"{lengths[0]}"
        cached = f"{self.cached} columns cached" if self.kv_cache is not None else "no cache"
        return f"SequenceState({self.batch_size} prompts x {self.num_samples} samples, {tokens} tokens each, {cached})"

    def __add__(self, other: object) -> SequenceState:
        if isinstance(other, SequenceState):
            return joined(self, other)
        if isinstance(other, list | tuple) and all(isinstance(text, str) for text in other):
            return appended(self, other)
        return appended(self, other) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: object) -> NoReturn:
        raise ArgumentTypeError(
            f"{reprlib.repr(other)} was put before a state, whose cache begins with its own first token; make a state of both: "
            "generator(text) + state keeps the cache of the text, and generator(text + str(state)) starts again"
        )

    def __copy__(self) -> SequenceState:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SequenceState:
        # Tensors are copied. The model and its cache are not, because a copy would belong to another model.
        names = (*TENSORS, "processor_state")
        return replace(self, **{name: copy.deepcopy(getattr(self, name), memo) for name in names})

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentTypeError(
            "a SequenceState cannot be pickled: its cache belongs to an engine, and its processor's state to this process; "
            "write it with state.save(folder), and read it with generator.load(folder), or with "
            "SequenceState.load(folder, tokenizer, processor)"
        )

    def fan_out(self, samples: int) -> SequenceState:
        """Return the state with the single sample of each prompt repeated, for a generator of several samples.

        Args:
            samples: The number of samples per prompt.

        Raises:
            SampleMismatch: The state already has several samples.
            ConfigurationError: `samples` is not a positive integer.
        """
        return repeated(self, samples)

    @staticmethod
    def batch(states: Sequence[SequenceState]) -> SequenceState:
        """Return one state of the rows of several, which a generator then continues together.

        Their caches are kept if all states have one of the same model that can be cut; otherwise all are dropped with a
        warning, `CacheDropped`. The processor's state is kept if all have the same processor. In contrast, `+` joins the texts
        of rows.

        Args:
            states: At least one state; all have the same number of samples and equal tokenizers.

        Raises:
            SampleMismatch: They have different numbers of samples.
            ConfigurationError: There are no states, something else is given, or they have different tokenizers.
        """
        return batched(states)

    def to(self, device: torch.device | str) -> SequenceState:
        """Return the state with its tokens, weights, masks and processor state on another device; the cache stays."""
        tensors = {name: getattr(self, name).to(device) for name in TENSORS}
        after = None if self.processor_state is None else to(self.processor_state, device)
        return replace(self, **tensors, processor_state=after)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the state to a folder: tokens, weights, masks, the processor's state, and the cache if the engine can save it.

        Args:
            folder: The folder, created if missing; a state that is already there is replaced.

        Raises:
            OSError: The folder cannot be written.
        """
        sequence_files.write(self, folder)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], tokenizer: Any = None, processor: Processor[Any] | None = None
    ) -> SequenceState:
        """Read a state written by `save`, in any process.

        A generator of the same engine loads the cache automatically, also for slices and sums; any other generator feeds the
        tokens again and gives the same result. A slice of a loaded state is saved without its cache if no generator has
        continued it.

        Args:
            folder: The folder.
            tokenizer: The tokenizer of the state.
            processor: The processor of the state, if its state is needed (to carry it on).

        Raises:
            StateFileError: The folder contains no saved state, or one of another processor.
            OSError: The folder cannot be read.
        """
        return sequence_files.read(cls, folder, tokenizer, processor)
