"""logitkit in mlx-lm: `generate(model, tokenizer, prompt, logits_processors=[logits_processor(processor)])`.

- *`generate`, `stream_generate`, `generate_step`, with or without a `draft_model`*: pass the hook. It finds the state of a
  sequence by its token ids, however often it is called, and whatever drafts it is shown.
- *`BatchGenerator.insert`*: give each sequence a hook of its own, `logits_processors=[[one], [other]]`.
- *`batch_generate`* shares one hook among all sequences, which are told apart by their ids, and where these are the beginnings of
  others, by what mlx-lm calls them.
- *Prompt caches and `draft_model`* hide tokens: a hook sees those behind the cache only, or the last token of the prompt. A
  constraint begins after the prompt and does not care; a penalty that counts the prompt needs `prompt=`, the whole prompt, or
  else counts what it sees, and warns.
- *One hook per generation.* It costs nothing: all that is compiled lives on the processor. A hook may serve more generations, but
  ids cannot tell a new prompt from the same text going on where the prompt is (a beginning of) a prompt and its output from
  before, or that and one token: call `new_generation` in between.
- *To go on in the middle of a constrained text* show all of it: `prompt=` the ids before it, and no cache.
- *`input_embeddings` without tokens* are refused: mlx-lm calls no processor for the first token. Give it the tokens too.
- mlx-lm's server takes no processors. Its text of an output lacks the space that the output may begin with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import logitkit
from logitkit.automata.lone_row import LoneRow
from logitkit.errors import BatchMismatch
from logitkit.history.sequences import SequenceResolver
from logitkit.history.stepped_row import SteppedRow
from logitkit.left_pads import LeftPads
from logitkit.processor import Processor, check_processor, process_checked
from logitkit.stepping import can_step
from logitkit_adapters import tokenizer_bytes
from logitkit_adapters.array_kinds.mlx_masks import is_row, masked, memory_of
from logitkit_adapters.arrays import call_to_torch, ids_to_torch
from logitkit_adapters.mlx_lm_beginning import Beginning, check_cache
from logitkit_adapters.mlx_lm_caller import batch_sequence, hidden_tokens
from logitkit_adapters.sessions import Session, continuous

try:
    from mlx_lm.tokenizer_utils import TokenizerWrapper
except ImportError as error:
    raise ImportError("logitkit_adapters.mlx_lm needs mlx-lm: pip install 'logitkit[mlx]'") from error

__all__ = ["MlxLmLogitsProcessor", "Session", "continuous", "logits_processor", "vocabulary"]


class MlxLmLogitsProcessor:
    """The hook that mlx-lm calls; make it with `logits_processor`.

    Args:
        processor: What it applies.
        state: The state of the sequence of the last call, [1] row, or None before the first. Ask the processor about it, as in
            `processor.is_dead(hook.state)`. mlx-lm looks one token ahead: after a generation the state has had all its tokens.
    """

    def __init__(self, processor: Processor[Any], prompt: list[list[int]] | Tensor | None, left_pads: LeftPads) -> None:
        self.processor = processor
        self._state: Any = None
        self._stepped = SteppedRow(processor) if can_step(processor) else None
        self._left_pads = left_pads
        self._told = prompt is not None
        self._fresh = True  # no call of the generation has been answered
        self._longest: int | None = None  # the most tokens of a prompt that was told, while no sequence has begun
        self._beginning = Beginning(processor, left_pads)
        if prompt is None:
            self._resolver = SequenceResolver(processor, skip=self._beginning)
        else:
            lengths = (left_pads.without(prompt) >= 0).sum(1).tolist()
            rows = prompt.tolist() if isinstance(prompt, Tensor) else prompt
            pads = [len(row) - length for row, length in zip(rows, lengths, strict=True)]
            self._longest = max(lengths)
            self._lengths = lengths
            self._resolver = SequenceResolver(processor, prompts=rows, pads=pads)

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the processed logits; those given are left as they are.

        Args:
            tokens: [L] integers, the tokens of one sequence so far, as much of them as mlx-lm shows.
            logits: [1, V] or [V] floating point, bfloat16 too.

        Returns:
            New logits, of the shape and dtype of those given.

        Raises:
            BatchMismatch: There are several rows.
            ConfigurationError: The shapes or dtypes are others, or the tokens do not belong to the prompt that was told.
            Exception: What the processor raises; the hook is as it was before the call.
        """
        name, begins = batch_sequence()
        stepped, shown, width = self._stepped, b"", 0
        # Sequences of a batch may be told apart by more than ids.
        if stepped is not None and name is None and is_row(tokens, logits):
            shown, width = memory_of(tokens)
            row = stepped.step(shown, width, logits.shape[-1]) or self._start(stepped, shown, width, logits.shape[-1])
            if row is not None:
                row.check_width(logits.shape[-1])
                return masked(row.mask, logits)
        ids, taken = call_to_torch(tokens, logits)
        if ids.tensor.shape[0] != 1:
            raise BatchMismatch(
                f"the hook was called with tokens {list(ids.tensor.shape)} and logits {list(taken.tensor.shape)}; mlx-lm "
                "gives the tokens [L] and the logits [1, V] of one sequence. Call it once for each"
            )
        if not self._told:
            self._left_pads.check(ids.tensor)
        elif self._longest is not None:
            check_cache(ids.tensor.shape[1], self._longest)
        if stepped is not None:
            self._state = self.state
            with self._beginning.checked():
                for missed in stepped.missed():
                    self._resolver.resolve(missed, vocabulary_size=stepped.columns)
        columns, device = taken.tensor.shape[1], taken.tensor.device
        hidden = hidden_tokens(ids.tensor.shape[1]) if self._told else 0
        state, context = self._resolver.resolve(
            ids.tensor, vocabulary_size=columns, device=device, sequence=name, begins=begins, hidden=hidden
        )
        self._longest, self._fresh = None, False
        self._state, processed = process_checked(self.processor, state, taken.tensor, context)
        if stepped is not None and width:
            stepped.begin(shown, width, columns, self._state)
        return taken.back(processed).array

    def _start(self, stepped: SteppedRow[Any], shown: bytes, width: int, columns: int) -> LoneRow | None:
        """Return the row of which this is the first call, or None if that takes the resolver."""
        if not self._fresh or self._told or self._left_pads.told:
            return None
        self._beginning.check(len(shown) // width)
        row = stepped.start(shown, width, columns)
        self._fresh = row is None
        return row

    def new_generation(self) -> None:
        """Take the next call for the first of a new generation, whatever its tokens are."""
        self._resolver.new_generation()
        self._fresh = True
        self._longest = max(self._lengths) if self._told else None
        self._stepped = SteppedRow(self.processor) if can_step(self.processor) else None

    @property
    def state(self) -> Any:
        """The state of the sequence of the last call, [1] row."""
        stepped = None if self._stepped is None else self._stepped.state
        return self._state if stepped is None else stepped


def logits_processor(
    processor: Processor[Any],
    *,
    prompt: Any = None,
    attention_mask: Any = None,
    pad_id: int | None = None,
) -> MlxLmLogitsProcessor:
    r"""Make the hook that runs a processor in a generation of mlx-lm.

    Args:
        processor: Any processor; it may serve any number of hooks at once.
        prompt: The whole prompt, where mlx-lm hides a part of it (a prompt cache, a draft model) or is given output of an earlier
            generation with it: token ids [P], in a list or an array of any kind; for the sequences of a `batch_generate`, B lists
            of ids or [B, P]. Default: all tokens of the first call are prompt.
        attention_mask: [P] or [B, P] of 0 and 1: leading zeros are left pads of the prompt.
        pad_id: The id of left pads, where no mask is told.

    Returns:
        The hook.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are told, an argument is malformed, one prompt is the beginning of
            another, or the processor is none.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from mlx_lm import generate, load
        >>> from logitkit_adapters.demo import model_dir
        >>> model, tokenizer = load(str(model_dir()))
        >>> date = lk.Regex(r" \d{4}-\d\d-\d\d", vocabulary(tokenizer))
        >>> text = generate(model, tokenizer, "The price of", logits_processors=[logits_processor(date)])
        >>> bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text))  # mlx-lm takes off the space
        True
    """
    check_processor(processor)
    mask = attention_mask
    if mask is not None:
        mask = mask if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask))
        mask = mask[None] if mask.dim() == 1 else mask
    left_pads = LeftPads(processor, mask, pad_id)
    return MlxLmLogitsProcessor(processor, None if prompt is None else _rows(prompt), left_pads)


def vocabulary(
    tokenizer: Any, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    """Read the bytes that each token id adds to a text out of a tokenizer.

    Args:
        tokenizer: What `mlx_lm.load` returns, or any tokenizer that `logitkit_adapters.tokenizer_bytes.vocabulary` takes.
        eos_ids: Ids that end a sequence, in place of all those at which mlx-lm ends one, `tokenizer.eos_token_ids`.
        size: Number of logits columns, when the model pads its vocabulary.

    Returns:
        The vocabulary, with the tokenizer's padding id if it has one.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, or an id or `size` is out of range.

    Example:
        >>> from mlx_lm.utils import load_tokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> vocabulary(load_tokenizer(model_dir()))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if isinstance(tokenizer, TokenizerWrapper):
        if eos_ids is None:
            eos_ids = sorted(tokenizer.eos_token_ids) or None
        tokenizer = tokenizer._tokenizer  # noqa: SLF001 - nothing public names it
    return tokenizer_bytes.vocabulary(tokenizer, eos_ids=eos_ids, size=size)


def _rows(prompt: Any) -> list[list[int]] | Tensor:
    """Return the prompts as lists of ids, or as a tensor of which some ids may be left pads."""
    if isinstance(prompt, Sequence):
        rows = list(prompt)
        flat = all(not isinstance(row, Sequence) for row in rows)
        return [rows] if flat else [list(row) for row in rows]
    return ids_to_torch(prompt).tensor
