"""A generation as a value: it can be read, cut, joined, branched, saved, and gone on with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch
from logitkit.processor import Processor
from logitkit.sessions.cache_port import CachePort
from logitkit.sessions.keys import read_keys
from logitkit.sessions.sequence_parts import TokenView, sliced
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit.state import to

__all__ = ["SequenceState"]


# Compared by identity: tensors have no single truth value.
@dataclass(frozen=True, eq=False, repr=False)
class SequenceState:
    """B prompts x S samples with all their tokens, and what a model needs to go on; `continuous` makes and takes it.

    Rows lie in repeat-interleave order: row `b * S + s` is sample s of prompt b. A state never changes: slices, sums and
    continuations are new states, and any number of continuations may start from one.

    - `state[ids]` where B = S = 1, `state[sample, ids]` where B = 1, `state[batch, ids]` where S = 1, else
      `state[batch, sample, ids]`: the last key slices the *characters* of each row's text as Python does. `state.tokens[...]`
      slices tokens, and may cut through a character: what is left of its bytes stays a token, but is no text. A step is an
      error.
    - A slice that begins at 0 keeps the cache of its tokens. One that begins later cannot, as its tokens move to other
      positions: it drops the cache with one warning, `CacheDropped`.
    - `state + state` joins row by row; `state + "text"` appends a text to every row.
    - `list(state)` gives the B x S texts; `str(state)` shows them.

    Args:
        token_ids: [B x S, T] int64. The logical tokens of a row are those with a mask of 1.
        weights: [B, S] float, the sum of the log-probabilities of all tokens written, an EOS at the end too; higher is better.
            Slices keep it.
        attention_masks: [B x S, T] int64, 1 at a token, 0 elsewhere: pads, and an EOS that ended a generation, which no
            continuation sees. Masks alone tell this, so that pad and EOS may be one id.
        kv_cache: What the engine keeps of the first `cached` columns, or None.
        tokenizer: Has `encode` and `decode`.
        processor_state: The state of `processor` after the last token, or None.
        processor: What the last generator applied, or None.
        prompt_lengths: [B x S] int64, logical tokens of the prompt; the others were written. Default: all.
        seams: [B x S] int64, logical tokens before the last generator began. Default: all.
        finished: [B x S] bool, which rows ended by EOS. Default: none.
        open_weights: [B, S], the weights without the EOS that ended a row: what a continuation goes on from, which has none
            there. Default: the weights.
        cached: Leading columns that `kv_cache` covers.
        port: How to select from `kv_cache` and save it.

    Raises:
        BatchMismatch: The shapes do not agree.

    Example:
        >>> import torch
        >>> class Letters:
        ...     def encode(self, text):
        ...         return [ord(letter) for letter in text]
        ...
        ...     def decode(self, ids):
        ...         return "".join(map(chr, ids))
        >>> ids = torch.tensor([Letters().encode("one two")])
        >>> state = SequenceState(ids, torch.zeros(1, 1), torch.ones_like(ids), None, Letters())
        >>> str(state[:3] + " more"), list(state[-3:]), str(state.tokens[1])
        ('one more', ['two'], 'n')
    """

    token_ids: Tensor
    weights: Tensor
    attention_masks: Tensor
    kv_cache: Any = None
    tokenizer: Any = None
    _: KW_ONLY
    processor_state: Any = None
    processor: Processor[Any] | None = None
    prompt_lengths: Tensor = field(default=None)  # type: ignore[assignment]
    seams: Tensor = field(default=None)  # type: ignore[assignment]
    finished: Tensor = field(default=None)  # type: ignore[assignment]
    open_weights: Tensor = field(default=None)  # type: ignore[assignment]
    cached: int = 0
    port: CachePort | None = None

    def __post_init__(self) -> None:
        if self.token_ids.dim() != 2 or self.attention_masks.shape != self.token_ids.shape:
            raise BatchMismatch(
                f"token_ids has the shape {list(self.token_ids.shape)} and attention_masks {list(self.attention_masks.shape)}; "
                "both are [prompts x samples, tokens]"
            )
        if self.weights.dim() != 2 or self.weights.numel() != len(self.token_ids):
            raise BatchMismatch(
                f"weights has the shape {list(self.weights.shape)} for {len(self.token_ids)} rows; it is [prompts, samples]"
            )
        lengths = self.attention_masks.sum(1)
        none = torch.zeros(len(lengths), dtype=torch.bool, device=lengths.device)
        defaults = {"prompt_lengths": lengths, "seams": lengths, "finished": none, "open_weights": self.weights}
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    @property
    def batch_size(self) -> int:
        """Number of prompts, B."""
        return self.weights.shape[0]

    @property
    def num_samples(self) -> int:
        """Number of samples of each prompt, S."""
        return self.weights.shape[1]

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The logical tokens of each row."""
        pairs = zip(self.token_ids.tolist(), self.attention_masks.tolist(), strict=True)
        return tuple(tuple(i for i, there in zip(ids, mask, strict=True) if there) for ids, mask in pairs)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each row, prompt included, without special tokens, and without bytes at its ends that are no character."""
        tokenizer = TextTokenizer(self.tokenizer)
        return tuple(tokenizer.text(row) for row in self.rows)

    @property
    def tokens(self) -> TokenView:
        """The same indexing by tokens: `state.tokens[ids]`, `state.tokens[batch, sample, ids]`."""
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
        from logitkit.sessions.addition import appended, joined

        if isinstance(other, SequenceState):
            return joined(self, other)
        return appended(self, other) if isinstance(other, str) else NotImplemented

    def fan_out(self, samples: int) -> SequenceState:
        """Return the state with each prompt's one sample repeated, so that a generator of several can go on with it.

        Args:
            samples: How many samples each prompt shall have.

        Raises:
            SampleMismatch: There are several samples already.
            ConfigurationError: `samples` is not an integer from 1.
        """
        from logitkit.sessions.addition import repeated

        return repeated(self, samples)

    def to(self, device: torch.device | str) -> SequenceState:
        """Return the state with its tokens, weights, masks and processor's state on another device; the cache stays."""
        names = ("token_ids", "weights", "attention_masks", "prompt_lengths", "seams", "finished", "open_weights")
        tensors = {name: getattr(self, name).to(device) for name in names}
        after = None if self.processor_state is None else to(self.processor_state, device)
        return replace(self, **tensors, processor_state=after)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the state to a folder: tokens, weights, masks, the processor's state, and the cache where the engine can.

        Args:
            folder: Made if it is not there; what another state left in it is replaced.

        Raises:
            OSError: It cannot be written.
        """
        from logitkit.sessions.sequence_files import write

        write(self, folder)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], tokenizer: Any = None, processor: Processor[Any] | None = None
    ) -> SequenceState:
        """Read a state that `save` wrote, in any process.

        A generator of the same engine finds the cache by itself, that of a slice or a sum too; any other feeds the tokens again
        and writes the same. Saved before a generator has gone on from it, a slice is without its cache.

        Args:
            folder: The folder.
            tokenizer: The tokenizer that the state had.
            processor: The processor that it had, where its state is wanted too (to carry it on).

        Raises:
            StateFileError: The folder holds no saved state, or one of another processor.
            OSError: It cannot be read.
        """
        from logitkit.sessions.sequence_files import read

        return read(folder, tokenizer, processor)
