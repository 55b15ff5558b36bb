"""The tokenizer of a processor of mlx-vlm, and the EOS ids, logits columns and attention of a model."""

from __future__ import annotations

from typing import Any

from logitkit_adapters.hooks.model_tokens import ids_of

__all__ = ["columns_of", "ends_of", "is_prefix_model", "text_settings", "tokenizer_of"]


def tokenizer_of(processor: Any) -> Any:
    """Return the tokenizer of a processor of images and text; a tokenizer is its own."""
    return getattr(processor, "tokenizer", processor)


def ends_of(processor: Any, model: Any = None) -> list[int]:
    """Return the ids at which mlx-vlm ends a text, sorted.

    Args:
        processor: A processor that `mlx_vlm.load` returned, or its tokenizer.
        model: The model, to whose ids `generate` returns before each text; None if it is not known.
    """
    criteria = getattr(tokenizer_of(processor), "stopping_criteria", None)
    own = getattr(getattr(model, "config", None), "eos_token_id", None)
    return sorted({*ids_of(getattr(criteria, "eos_token_ids", None)), *ids_of(own)})


def columns_of(model: Any) -> int | None:
    """Return the number of logits columns of a model, or None if it is unknown.

    The configuration of a model with images may have a default in the place of the size of its language model's vocabulary, so
    the weights are asked first.
    """
    language = model.language_model
    tied = getattr(text_settings(model), "tie_word_embeddings", False)
    embeddings = getattr(getattr(language, "model", None), "embed_tokens", None)
    weight = getattr(embeddings if tied else getattr(language, "lm_head", None), "weight", None)
    if weight is not None:
        return int(weight.shape[0])
    size = getattr(text_settings(model), "vocab_size", None)
    return None if size is None else int(size)


def text_settings(model: Any) -> Any:
    """Return the configuration of a model's language model."""
    config = getattr(model, "config", None)
    return getattr(config, "text_config", None) or config


def is_prefix_model(model: Any) -> bool:
    """Whether each token of a prompt attends to all of the prompt, the tokens after it too, as in PaliGemma.

    "vision" in `use_bidirectional_attention` stands for the tokens of one image, which attend to each other only.
    """
    settings = text_settings(model)
    return getattr(settings, "use_bidirectional_attention", None) is True or bool(getattr(settings, "prefix_lm", False))
