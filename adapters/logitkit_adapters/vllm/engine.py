"""Data from the configuration of a vLLM engine: its vocabulary, and how many tokens it drafts."""

from __future__ import annotations

import sys
from typing import Any

from logitkit.errors import VocabularyError
from logitkit.vocabulary import Vocabulary
from logitkit_adapters import tokenizers
from logitkit_adapters.hooks.model_tokens import ids_of

__all__ = ["drafts_of", "engine_of_caller", "engine_vocabulary", "vocabulary"]


def vocabulary(tokenizer: Any, model: Any = None, *, eos_ids: Any = None, size: int | None = None) -> Vocabulary:
    """Read the bytes of every token from a tokenizer of vLLM, such as `llm.get_tokenizer()`.

    Args:
        tokenizer: The tokenizer.
        model: The `vllm.LLM` that generates, or the `ModelConfig` of its engine. None: only the tokenizer's own EOS is known.
        eos_ids: Ids that end a sequence, instead of the tokenizer's EOS and those in the model's `generation_config`.
        size: The number of logits columns, if no model is given and it pads its vocabulary.

    Returns:
        The vocabulary, with the names of its special tokens.

    Raises:
        VocabularyError: The bytes cannot be recovered with certainty, no EOS is known, or `model` is not a model.
    """
    ends, columns = ([], None) if model is None else _ends_and_columns(model)
    # vLLM wraps Mistral's tokenizers.
    inner = getattr(tokenizer, "transformers_tokenizer", tokenizer)
    return tokenizers.model_vocabulary(inner, ends, columns, eos_ids=eos_ids, size=size)


def _ends_and_columns(model: Any) -> tuple[list[int], int]:
    config = getattr(model, "model_config", model)
    if not hasattr(config, "try_get_generation_config"):
        raise VocabularyError(
            f"model is a {type(model).__name__}; pass the vllm.LLM that generates, the ModelConfig of its engine, or None"
        )
    # vLLM ends a request at these and at the tokenizer's own EOS.
    ends = ids_of((config.try_get_generation_config() or {}).get("eos_token_id"))
    return ends, int(config.get_vocab_size())


def engine_vocabulary(vllm_config: Any) -> Vocabulary:
    """Read the vocabulary of an engine; `configurations_of` keeps it.

    Args:
        vllm_config: The engine's `VllmConfig`.

    Raises:
        VocabularyError: The engine has no tokenizer, or one whose bytes cannot be recovered with certainty.
    """
    from vllm.tokenizers import cached_tokenizer_from_config

    model = vllm_config.model_config
    tokenizer = cached_tokenizer_from_config(model)
    if tokenizer is None:
        raise VocabularyError(
            "the engine has no tokenizer (skip_tokenizer_init), so the bytes of its tokens are unknown; leave that option out, "
            "or uninstall logitkit from this environment"
        )
    try:
        return vocabulary(tokenizer, model)
    except VocabularyError as error:
        raise VocabularyError(
            f"logitkit's plugin cannot serve {model.tokenizer!r}: {error}. Uninstall logitkit from this environment, or take it "
            "out of logits_processors, to start the engine without it"
        ) from error


def engine_of_caller() -> Any | None:
    """Return the `VllmConfig` of the engine that admits a request, or None.

    vLLM passes nothing but the parameters to a plugin that checks them. The engines of one process may have different
    tokenizers, so this looks for the engine on the call stack.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - there is no public name
    while frame is not None:
        found = getattr(frame.f_locals.get("self"), "vllm_config", None)
        if found is not None and hasattr(found, "model_config"):
            return found
        frame = frame.f_back  # type: ignore[assignment]
    return None


def drafts_of(vllm_config: Any) -> int:
    """Return the maximum number of draft tokens of a request in a step: 0 without speculation."""
    speculation = vllm_config.speculative_config
    return 0 if speculation is None else int(speculation.num_speculative_tokens)
