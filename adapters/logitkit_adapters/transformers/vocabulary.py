"""The vocabulary of a transformers model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import logitkit
from logitkit.errors import VocabularyError
from logitkit_adapters.hooks.model_tokens import columns_of, ends_of
from logitkit_adapters.tokenizers import model_vocabulary

__all__ = ["vocabulary"]


def vocabulary(
    tokenizer: Any, model: Any = None, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    """Read the bytes that each token id adds to the text from a tokenizer, and the EOS ids from a model.

    A tokenizer names one EOS, but `generate` ends a text at every id of `model.generation_config.eos_token_id`. Pass the model,
    so that the vocabulary has them all: a hook knows neither, and treats an unknown EOS as an ordinary token.

    Args:
        tokenizer: Any tokenizer that `logitkit_adapters.tokenizers.vocabulary` supports.
        model: The model that generates. None: only the tokenizer defines EOS.
        eos_ids: Ids that end a sequence, instead of the tokenizer's and the model's.
        size: The number of logits columns, if the model pads its vocabulary and is not given.

    Returns:
        The vocabulary, with the tokenizer's padding id if it has one, and the names of its special tokens.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, `model` is not a model, or an id or `size`
            is out of range.

    Example:
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import vocabulary
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> vocabulary(tokenizer, AutoModelForCausalLM.from_pretrained(model_dir()))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if model is not None and not hasattr(model, "config"):
        raise VocabularyError(
            f"model is of type {type(model).__name__}; give the transformers model that generates, or None"
        )
    ends, columns = ([], None) if model is None else (ends_of(model), columns_of(model))
    return model_vocabulary(tokenizer, ends, columns, eos_ids=eos_ids, size=size)
