"""Token data from a model's configuration: the EOS ids, and the number of logits columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from logitkit.parameters.scalars import as_integer

__all__ = ["columns_of", "ends_of", "ids_of"]


def ids_of(given: Any) -> list[int]:
    """Return token ids from a configuration value that may be None, one id or several."""
    one = as_integer(given)
    if one is not None:
        return [one]
    several = [as_integer(each) for each in given] if isinstance(given, Iterable) and not isinstance(given, str) else []
    return [each for each in several if each is not None]


def ends_of(model: Any) -> list[int]:
    """Return the ids at which `generate` of transformers ends a text: those of the model's generation configuration.

    Args:
        model: A transformers model. For one without a generation configuration, the EOS of its configuration is used.
    """
    own = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if own is None:
        own = next((end for config in _configs(model) if (end := _of(config, "eos_token_id")) is not None), None)
    return ids_of(own)


def columns_of(model: Any) -> int | None:
    """Return the number of logits columns of a transformers or mlx-lm model, or None if it does not say.

    Args:
        model: The model.
    """
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(head, "weight", None)
    if weight is not None and len(weight.shape) == 2:
        return int(weight.shape[0])
    return next((size for c in _configs(model) if (size := as_integer(_of(c, "vocab_size"))) is not None), None)


def _configs(model: Any) -> Iterable[Any]:
    """Yield the configurations of a model, and of the language model inside a multimodal one."""
    for config in (getattr(model, "config", None), getattr(model, "args", None)):
        yield config
        yield _of(config, "text_config")


def _of(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
