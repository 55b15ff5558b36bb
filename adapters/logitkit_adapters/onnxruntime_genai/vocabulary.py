"""The vocabulary of a model of ONNX Runtime GenAI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import logitkit
from logitkit.errors import VocabularyError
from logitkit_adapters.loaded_class import is_instance
from logitkit_adapters.onnxruntime_genai.model_limits import limits_of
from logitkit_adapters.onnxruntime_genai.tokenizer import Tokenizer
from logitkit_adapters.tokenizers import model_vocabulary

__all__ = ["vocabulary"]


def vocabulary(
    tokenizer: Any, model: Any = None, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    """Read the bytes that each token id adds to the text from a tokenizer, and the EOS ids from the model.

    Args:
        tokenizer: A `logitkit_adapters.onnxruntime_genai.Tokenizer`; or any tokenizer that
            `logitkit_adapters.tokenizers.vocabulary` supports, such as transformers' tokenizer of the same folder.
        model: The `onnxruntime_genai.Model`. Optional for a `Tokenizer`, which has it.
        eos_ids: Ids that end a sequence, instead of those in the model's `genai_config.json`.
        size: The number of logits columns, instead of the model's.

    Returns:
        The vocabulary, with one id per logits column, the model's padding id, and the names of its special tokens.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, an argument is something else, or an id or `size` is out
            of range.

    Example:
        >>> import onnxruntime_genai
        >>> from logitkit_adapters.demo import onnx_dir
        >>> from logitkit_adapters.onnxruntime_genai import Tokenizer, vocabulary
        >>> vocabulary(Tokenizer(onnxruntime_genai.Model(str(onnx_dir())), onnx_dir()))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if is_instance(tokenizer, "onnxruntime_genai", "Tokenizer"):
        raise VocabularyError(
            "tokenizer is an onnxruntime_genai.Tokenizer, which does not show the bytes of its tokens; make "
            "logitkit_adapters.onnxruntime_genai.Tokenizer(model, folder), and pass it everywhere"
        )
    own = isinstance(tokenizer, Tokenizer)
    if model is None and own:
        model = tokenizer.model
    if not is_instance(model, "onnxruntime_genai", "Model"):
        raise VocabularyError(
            f"model is of type {type(model).__name__}; give the onnxruntime_genai.Model that generates"
        )
    if own and model is not tokenizer.model:
        raise VocabularyError("model is not the model of the tokenizer; make a Tokenizer for this model")
    limits = limits_of(model)
    read = tokenizer.backend if own else tokenizer
    found = model_vocabulary(read, limits.eos_ids, limits.columns, eos_ids=eos_ids, size=size)
    pad_id = limits.pad_id if limits.pad_id < found.size else None
    return logitkit.Vocabulary(found.tokens, found.eos_ids, size=found.size, pad_id=pad_id, special=found.special)
