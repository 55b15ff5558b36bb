"""Data from the configuration of a vLLM engine: its vocabulary, and how many tokens it drafts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from types import FrameType
from typing import Any

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.vocabulary import Vocabulary
from logitkit_adapters import tokenizers
from logitkit_adapters.hooks.model_tokens import ids_of

__all__ = [
    "check_is_not_called_by_vllm",
    "drafts_of",
    "engine_of_caller",
    "engine_vocabulary",
    "has_other_plugins",
    "vocabulary",
]


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
            f"model is of type {type(model).__name__}; pass the vllm.LLM that generates, the ModelConfig of its engine, or None"
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
    for frame in _callers():
        found = getattr(frame.f_locals.get("self"), "vllm_config", None)
        if found is not None and hasattr(found, "model_config"):
            return found
    return None


def check_is_not_called_by_vllm() -> None:
    """Refuse a request of an engine that was not found: its configuration would be judged for other tokens.

    Raises:
        ConfigurationError: A function of vLLM's is on the call stack.
    """
    if any(str(frame.f_globals.get("__name__")).startswith("vllm.") for frame in _callers()):
        raise ConfigurationError(
            "logitkit does not find the engine that this release of vLLM admits a request for, so it cannot check the request; "
            "install a release of vLLM that it was tested with"
        )


def _callers() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


@cache
def _other_installed_plugins() -> bool:
    ours = "logitkit_adapters.vllm:LogitsProcessor"
    return any(found.value != ours for found in entry_points(group="vllm.logits_processors"))


def has_other_plugins(vllm_config: Any | None) -> bool:
    """Whether an engine has processors of other packages, which may read extra arguments of any name.

    Args:
        vllm_config: The engine's `VllmConfig`, or None.
    """
    named = getattr(getattr(vllm_config, "model_config", None), "logits_processors", None) or ()
    return _other_installed_plugins() or any("logitkit_adapters.vllm" not in _path(one) for one in named)


def _path(plugin: str | type) -> str:
    return plugin if isinstance(plugin, str) else f"{plugin.__module__}:{plugin.__qualname__}"


def drafts_of(vllm_config: Any) -> int:
    """Return the maximum number of draft tokens of a request in a step: 0 without speculation."""
    speculation = vllm_config.speculative_config
    return 0 if speculation is None else int(speculation.num_speculative_tokens)
