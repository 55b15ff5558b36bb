"""logitkit in mlx-vlm: `generate(model, processor, prompt, image, logits_processors=[logits_processor(processor)])`.

- *`generate`, `stream_generate`, `generate_step`*: pass the hook. mlx-vlm shows it the last token of the prompt and the output. A
  constraint begins after the prompt, so this does not matter to it. A penalty that counts the prompt needs `prompt=`, the ids of
  the whole prompt; without it, the penalty counts the visible tokens, and warns.
- *`BatchGenerator.insert`*: give each sequence its own hook, `logits_processors=[[one], [other]]`. They see the whole prompt.
- *`batch_generate`* takes one hook for all prompts, which distinguishes them, or a list for each of them.
- *`draft_model` and `thinking_budget`* are refused, because mlx-vlm then chooses tokens without the hook. Models that generate by
  diffusion call no processors, which mlx-vlm says itself.
- *Use one hook per generation*, as in mlx-lm; see `logitkit_adapters.mlx_lm.hook`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import logitkit
from logitkit.errors import VocabularyError
from logitkit.protocol.row_limit import checked_max_new_tokens
from logitkit_adapters import tokenizers
from logitkit_adapters.loaded_class import needed_for

with needed_for("mlx_vlm", "mlx-vlm", "mlx-vlm"):
    import mlx_vlm as _  # noqa: F401 - so that its absence is named before any module here needs it

from logitkit_adapters.hooks.door import processor_for
from logitkit_adapters.hooks.model_tokens import ids_of
from logitkit_adapters.mlx.hook import MlxLogitsProcessor
from logitkit_adapters.mlx_vlm.caller import CALLER
from logitkit_adapters.mlx_vlm.model import columns_of, ends_of, tokenizer_of

__all__ = ["MlxVlmLogitsProcessor", "logits_processor", "vocabulary"]


class MlxVlmLogitsProcessor(MlxLogitsProcessor):
    """The hook that mlx-vlm calls; create it with `logits_processor`. See `MlxLogitsProcessor` for its methods."""

    engine, module, caller = "mlx-vlm", "logitkit_adapters.mlx_vlm", CALLER

    def clone(self) -> MlxVlmLogitsProcessor:
        """Return this hook, because it distinguishes the sequences of a batch; mlx-vlm asks for a hook for each of them."""
        return self


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
) -> MlxVlmLogitsProcessor:
    r"""Create the hook that runs a processor in a generation of mlx-vlm.

    Args:
        processor: A logits processor of logitkit, which can serve any number of hooks at once; or a Python type, such as a
            pydantic model, a JSON Schema as a dict, `re.compile(...)`, a language or `logitkit.Tools`, which is compiled for the
            tokenizer. See `logitkit.output_types.output_type_of`.
        tokenizer: The processor of images and text that `mlx_vlm.load` returns, or its tokenizer, which is read once. With a
            logits processor, it is optional; if given, the logits processor must have been built for its tokens.
        model: The model that generates, which defines the number of ids.
        prompt: The ids of the whole prompt, `input_ids` of `mlx_vlm.utils.prepare_inputs`, since mlx-vlm shows only the last one:
            [P], in a list or an array of any kind; for the sequences of a `batch_generate`, B lists of ids or [B, P]. Default:
            all tokens of the first call are the prompt.
        attention_mask: [P] or [B, P] of 0 and 1: leading zeros are padding.
        pad_id: The id of the padding on the left, if there is no mask.
        max_new_tokens: The `max_tokens` passed to mlx-vlm, which a hook cannot see. Only processors that plan ahead need it,
            such as `JsonSchema(..., closing=True)`. A type, schema, language or tools close their text within it.
        record_kept: Whether to record which tokens are kept at each step, for training: see `kept_sets` of the hook.

    Returns:
        The hook.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are given, an argument is malformed, one prompt is the beginning of
            another, `processor` is something else, or it needs a tokenizer.
        VocabularyError: The vocabulary cannot be read, or the logits processor was built for another tokenizer.
        LogitkitError: A type, schema or language cannot be compiled.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from mlx_vlm import generate, load
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.mlx_vlm import logits_processor, vocabulary
        >>> model, processor = load(str(model_dir()))  # any other takes images too
        >>> date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", vocabulary(processor, model))
        >>> found = generate(model, processor, "The price of", logits_processors=[logits_processor(date)])
        >>> bool(re.fullmatch(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", found.text))
        True
    """
    return MlxVlmLogitsProcessor.made(
        processor_for(processor, tokenizer, model, vocabulary, closing=max_new_tokens is not None),
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
        tokenizer: The processor of images and text that `mlx_vlm.load` returns, or its tokenizer.
        model: The model that generates, which defines the number of ids. None: the tokenizer defines it.
        eos_ids: Ids that end a sequence, instead of those at which mlx-vlm ends one: those of `tokenizer.stopping_criteria`, and
            of the model's configuration.
        size: The number of logits columns, if the model pads its vocabulary and is not given.

    Returns:
        The vocabulary, with the tokenizer's padding id if it has one, and the names of its special tokens.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, `model` is not a model, or an id or `size`
            is out of range.

    Example:
        >>> from mlx_vlm.utils import load_processor
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.mlx_vlm import vocabulary
        >>> vocabulary(load_processor(model_dir()))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if model is not None and not hasattr(model, "language_model"):
        raise VocabularyError(
            f"model is of type {type(model).__name__}; give the mlx-vlm model that generates, or None"
        )
    ends = ends_of(tokenizer, model)
    if eos_ids is None and model is None:
        eos_ids = ends or None
    columns = None if model is None else columns_of(model)
    return tokenizers.model_vocabulary(tokenizer_of(tokenizer), ids_of(ends), columns, eos_ids=eos_ids, size=size)
