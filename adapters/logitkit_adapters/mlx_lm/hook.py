"""logitkit in mlx-lm: `generate(model, tokenizer, prompt, logits_processors=[logits_processor(processor)])`.

- *`generate`, `stream_generate`, `generate_step`, with or without a `draft_model`*: pass the hook. It finds the state of a
  sequence by its token ids, however often it is called, and whatever drafts it is shown.
- *`BatchGenerator.insert`*: give each sequence its own hook, `logits_processors=[[one], [other]]`.
- *`batch_generate`* shares one hook among all sequences. The hook distinguishes them by their ids, or if one begins with another,
  by the ids that mlx-lm gives to sequences.
- *Prompt caches and `draft_model`* hide tokens: a hook sees only those after the cache, or only the last token of the prompt. A
  constraint begins after the prompt, so this does not matter to it. A penalty that counts the prompt needs `prompt=`, the whole
  prompt; without it, the penalty counts the visible tokens, and warns.
- *Use one hook per generation.* A hook costs nothing, because everything compiled belongs to the processor. One hook can serve
  several generations, but token ids cannot tell a new prompt from a continuation of the last one if the new prompt is the last
  prompt with its output, the beginning of that, or that and one more token: call `new_generation` before such a prompt. In
  `generate_step` without drafts, a hook warns once of the first two.
- *To continue in the middle of a constrained text*, pass all of it, without a cache, and the ids before it as `prompt=`.
- *`input_embeddings` without tokens* are refused, because mlx-lm calls no processor for the first token. Pass the tokens too.
- mlx-lm's server takes no processors. The text that mlx-lm returns lacks the space that the output may begin with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

import logitkit
from logitkit.errors import BatchMismatch, BrokenLogits, VocabularyError
from logitkit.protocol.processor import Processor
from logitkit.protocol.row_limit import checked_max_new_tokens
from logitkit.runtime.tensor_logits import UNREAD
from logitkit.tracking import SequenceTracker, Tracker
from logitkit.tracking.padding import Padding
from logitkit_adapters import tokenizers
from logitkit_adapters.loaded_class import needed_for

with needed_for("mlx_lm", "mlx-lm", "mlx"):
    from mlx_lm.tokenizer_utils import TokenizerWrapper

import mlx.core as mx

from logitkit_adapters.arrays import call_to_torch, ids_to_torch
from logitkit_adapters.arrays.mlx_masks import is_row, masked, memory_of
from logitkit_adapters.hooks.door import processor_for
from logitkit_adapters.hooks.engine_hook import EngineHook
from logitkit_adapters.hooks.known_prompt import WarnOnce
from logitkit_adapters.hooks.model_tokens import columns_of, ids_of
from logitkit_adapters.mlx_lm.beginning import Beginning, check_cache
from logitkit_adapters.mlx_lm.caller import MODULE, ROW_OF_BATCH, batch_sequence, begins_generation, hidden_tokens

__all__ = ["MlxLmLogitsProcessor", "logits_processor", "vocabulary"]

# The number of sequences that may take turns: a forgotten one would start again in the middle of its text.
SEQUENCES = 1024


class MlxLmLogitsProcessor(EngineHook):
    """The hook that mlx-lm calls; create it with `logits_processor`.

    Args:
        processor: The processor that it applies.
        state: The state of the sequence of the last call, [1] row, or None before the first. Pass it to the processor's methods,
            as in `processor.is_dead(hook.state)`. mlx-lm computes one token ahead, so after a generation the state has seen
            all its tokens.
    """

    engine, module, argument = "mlx-lm", "logitkit_adapters.mlx_lm", "logits_processors"

    def __init__(
        self,
        processor: Processor[Any],
        prompt: list[list[int]] | Tensor | None,
        padding: Padding,
        max_new_tokens: int | None = None,
    ) -> None:
        super().__init__(processor, padding)
        self._fresh = True  # before the first call of a generation
        self._sound: mx.array | None = None  # whether the logits of the last call were sound, if they were not read
        self._lengths: list[int] = []  # of the given prompts, if any
        self._beginning = Beginning(processor, padding)
        self._plain = prompt is None and not padding.given
        if prompt is None:
            self.tracker: Tracker[Any] = Tracker(
                processor,
                skip=self._beginning,
                plain=self._plain,
                max_new_tokens=max_new_tokens,
                capacity=SEQUENCES,
                continued=WarnOnce(begins_generation),
            )
        else:
            self._lengths = (padding.without(prompt) >= 0).sum(1).tolist()
            rows = prompt.tolist() if isinstance(prompt, Tensor) else prompt
            pads = [len(row) - length for row, length in zip(rows, self._lengths, strict=True)]
            self.tracker = SequenceTracker(
                processor, prompts=rows, pads=pads, max_new_tokens=max_new_tokens, capacity=SEQUENCES
            )

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the processed logits; the given ones stay unchanged.

        Args:
            tokens: [L] integers, the tokens of one sequence so far, or those of them that mlx-lm shows.
            logits: [1, V] or [V] floating point, including bfloat16.

        Returns:
            New logits, of the same shape and dtype.

        Raises:
            BatchMismatch: There are several rows.
            BrokenLogits: A logit is NaN or +inf, or none is finite; if they are not read, in the call after that.
            ConfigurationError: The shapes or dtypes are not as above, or the tokens do not belong to the given prompt.
            Exception: Any exception of the processor; the hook is then as it was before the call.
        """
        caller = sys._getframe(1)  # noqa: SLF001 - the public way, inspect.stack, reads source files
        # Usually a function of mlx-lm that generates one sequence. Others need a closer look.
        one = caller.f_globals.get("__name__") == MODULE and ROW_OF_BATCH not in caller.f_code.co_varnames
        name, begins = (None, False) if one else batch_sequence()
        # More than ids may distinguish the sequences of a batch.
        if name is None and self.tracker.steps and is_row(tokens, logits):
            found = self._masked(tokens, logits)
            if found is not None:
                return found
        if self._sound is not None:
            last, self._sound = self._sound, None
            if not last.item():
                raise BrokenLogits(UNREAD, 0)
        if not isinstance(logits, mx.array):
            self.check_caller(logits)
        ids, taken = call_to_torch(tokens, logits)
        shown, columns = ids.tensor.shape[1], taken.tensor.shape[1]
        if ids.tensor.shape[0] != 1:
            raise BatchMismatch(
                f"the hook was called with tokens {list(ids.tensor.shape)} and logits {list(taken.tensor.shape)}; mlx-lm "
                "passes the tokens [L] and the logits [1, V] of one sequence. Call the hook once for each sequence"
            )
        if self._lengths and self._fresh:
            check_cache(shown, max(self._lengths))
        elif self._padding.given and not self._lengths:
            self._padding.check(ids.tensor)
        hidden: dict[str, Any] = {"hidden": hidden_tokens(shown)} if self._lengths else {}
        state, context = self.tracker.resolve(
            ids.tensor, vocabulary_size=columns, device=taken.tensor.device, sequence=name, begins=begins, **hidden
        )
        processed = self._process(state, taken.tensor, context)
        self.tracker.answer(state)
        self._fresh = False
        return taken.back(processed).array

    def _masked(self, tokens: mx.array, logits: mx.array) -> mx.array | None:
        """Return the masked logits of a sequence that grows, without reading any; None if only the histories know its state."""
        memory, width = memory_of(tokens)
        if self._fresh and self._plain:
            self._beginning.check(len(memory) // width)
        row = self.tracker.step(memory, width, logits.shape[-1])
        if row is None:
            return None
        # Known by now, because it was computed together with the last token.
        if self._sound is not None and not self._sound.item():
            self._sound = None
            _, context = self.tracker.resolve(ids_to_torch(tokens).tensor, vocabulary_size=logits.shape[-1])
            raise BrokenLogits(UNREAD, 0, int(context.lengths - context.prompt_lengths) - 1)
        self._fresh = False
        found, self._sound = masked(row.mask(logits.shape[-1]), logits)
        return found

    @property
    def broken(self) -> Tensor | None:
        """Whether the logits of the last call were broken, [1] bool; None if they were read, since they raise then."""
        return None if self._sound is None else torch.tensor([not self._sound.item()])

    def new_generation(self) -> None:
        """Treat the next call as the first of a new generation, whatever its tokens are."""
        self.tracker.new_generation()
        self._fresh, self._sound = True, None


def logits_processor(
    processor: Any,
    tokenizer: Any = None,
    *,
    model: Any = None,
    prompt: Any = None,
    attention_mask: Any = None,
    pad_id: int | None = None,
    max_new_tokens: int | None = None,
) -> MlxLmLogitsProcessor:
    r"""Create the hook that runs a processor in a generation of mlx-lm.

    Args:
        processor: A processor, which can serve any number of hooks at once; or a Python type, such as a pydantic model, a JSON
            Schema as a dict, `re.compile(...)`, a language or `logitkit.Tools`, which is compiled for the tokenizer. See
            `logitkit.output_types.output_type_of`.
        tokenizer: The tokenizer that `mlx_lm.load` returns, which is read once. With a processor, it is optional; if given, the
            processor must have been built for its tokens.
        model: The model that generates, which defines the number of ids.
        prompt: The whole prompt, if mlx-lm hides a part of it (a prompt cache, a draft model) or starts from ids that already
            contain output of an earlier generation: token ids [P], in a list or an array of any kind; for the sequences of a
            `batch_generate`, B lists of ids or [B, P]. Default: all tokens of the first call are the prompt.
        attention_mask: [P] or [B, P] of 0 and 1: leading zeros are padding.
        pad_id: The id of the padding on the left, if there is no mask.
        max_new_tokens: The `max_tokens` passed to mlx-lm, which a hook cannot see. Only processors that plan ahead need it,
            such as `JsonSchema(..., closing=True)`. A type, schema, language or tools close their text within it.

    Returns:
        The hook.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are given, an argument is malformed, one prompt is the beginning of
            another, `processor` is something else, or it needs a tokenizer.
        VocabularyError: The vocabulary cannot be read, or the processor was built for another tokenizer.
        LogitkitError: A type, schema or language cannot be compiled.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from mlx_lm import generate, load
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.mlx_lm import logits_processor, vocabulary
        >>> model, tokenizer = load(str(model_dir()))
        >>> date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", vocabulary(tokenizer))
        >>> text = generate(model, tokenizer, "The price of", logits_processors=[logits_processor(date)])
        >>> bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text))  # mlx-lm removes the space
        True
    """
    processor = processor_for(processor, tokenizer, model, vocabulary, closing=max_new_tokens is not None)
    mask = attention_mask
    if mask is not None:
        mask = mask if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask))
        mask = mask[None] if mask.dim() == 1 else mask
    padding = Padding(processor, mask, pad_id)
    most = checked_max_new_tokens(processor, max_new_tokens)
    return MlxLmLogitsProcessor(processor, None if prompt is None else _rows(prompt), padding, most)


def vocabulary(
    tokenizer: Any, model: Any = None, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    """Read the bytes that each token id adds to the text from a tokenizer.

    Args:
        tokenizer: The tokenizer that `mlx_lm.load` returns, or any other that `logitkit_adapters.tokenizers.vocabulary` supports.
        model: The model that generates, which defines the number of ids. None: the tokenizer defines it.
        eos_ids: Ids that end a sequence, instead of those at which mlx-lm ends one: `tokenizer.eos_token_ids`, which
            `mlx_lm.load` also reads from the model's configuration.
        size: The number of logits columns, if the model pads its vocabulary and is not given.

    Returns:
        The vocabulary, with the tokenizer's padding id if it has one, and the names of its special tokens.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, `model` is not a model, or an id or `size`
            is out of range.

    Example:
        >>> from mlx_lm.utils import load_tokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.mlx_lm import vocabulary
        >>> vocabulary(load_tokenizer(model_dir()))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if model is not None and not hasattr(model, "args"):
        raise VocabularyError(f"model is a {type(model).__name__}; give the mlx-lm model that generates, or None")
    if isinstance(tokenizer, TokenizerWrapper):
        if eos_ids is None:
            eos_ids = sorted(tokenizer.eos_token_ids) or None
        tokenizer = tokenizer._tokenizer  # noqa: SLF001 - nothing public names it
    ends = [] if model is None else ids_of(getattr(model.args, "eos_token_id", None))
    columns = None if model is None else columns_of(model)
    return tokenizers.model_vocabulary(tokenizer, ends, columns, eos_ids=eos_ids, size=size)


def _rows(prompt: Any) -> list[list[int]] | Tensor:
    """Return the prompts as lists of ids, or as a tensor that may contain left padding."""
    if isinstance(prompt, Sequence):
        rows = list(prompt)
        flat = all(not isinstance(row, Sequence) for row in rows)
        return [rows] if flat else [list(row) for row in rows]
    return ids_to_torch(prompt).tensor
