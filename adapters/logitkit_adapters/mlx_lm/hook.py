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

from collections.abc import Iterable
from typing import Any

import logitkit
from logitkit.errors import VocabularyError
from logitkit.protocol.row_limit import checked_max_new_tokens
from logitkit_adapters import tokenizers
from logitkit_adapters.loaded_class import needed_for

with needed_for("mlx_lm", "mlx-lm", "mlx"):
    from mlx_lm.tokenizer_utils import TokenizerWrapper

from logitkit_adapters.hooks.door import processor_for
from logitkit_adapters.hooks.model_tokens import columns_of, ids_of
from logitkit_adapters.mlx.hook import MlxLogitsProcessor
from logitkit_adapters.mlx_lm.caller import CALLER

__all__ = ["MlxLmLogitsProcessor", "logits_processor", "vocabulary"]


class MlxLmLogitsProcessor(MlxLogitsProcessor):
    """The hook that mlx-lm calls; create it with `logits_processor`. See `MlxLogitsProcessor` for its methods."""

    engine, module, caller = "mlx-lm", "logitkit_adapters.mlx_lm", CALLER


def logits_processor(
    processor: Any,
    tokenizer: Any = None,
    *,
    model: Any = None,
    prompt: Any = None,
    attention_mask: Any = None,
    pad_id: int | None = None,
    max_new_tokens: int | None = None,
    record_kept: bool = False,
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
        record_kept: Whether to record which tokens are kept at each step, for training: see `kept_sets` of the hook.

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
    return MlxLmLogitsProcessor.made(
        processor,
        prompt=prompt,
        attention_mask=attention_mask,
        pad_id=pad_id,
        max_new_tokens=checked_max_new_tokens(processor, max_new_tokens),
        record_kept=record_kept,
    )


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
        raise VocabularyError(f"model is of type {type(model).__name__}; give the mlx-lm model that generates, or None")
    if isinstance(tokenizer, TokenizerWrapper):
        if eos_ids is None:
            eos_ids = sorted(tokenizer.eos_token_ids) or None
        tokenizer = tokenizer._tokenizer  # noqa: SLF001 - nothing public names it
    ends = [] if model is None else ids_of(getattr(model.args, "eos_token_id", None))
    columns = None if model is None else columns_of(model)
    return tokenizers.model_vocabulary(tokenizer, ends, columns, eos_ids=eos_ids, size=size)
