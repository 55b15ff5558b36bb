"""A decoder of transformers, of which sessions and batches run sequences."""

from __future__ import annotations

import copy
import hashlib
import json
from threading import RLock
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.hooks.model_tokens import ends_of
from logitkit_adapters.sessions.array_caches import ArrayEngine
from logitkit_adapters.sessions.shared_model import checksum
from logitkit_adapters.transformers.cache_argument import arguments_of, cache_argument, makes_own_cache

__all__ = ["TransformersModel", "is_recurrent", "reads_pads"]

# With linear biases, which depend on distances between tokens.
DISTANCES = frozenset({"bloom", "mpt"})


# Configuration entries on where the model was read from, and by which version.
NO_MATTER = frozenset({"_name_or_path", "transformers_version"})


def is_recurrent(model: Any) -> bool:
    """Return whether some layers of a decoder keep one state for all tokens instead of an entry per token.

    Raises:
        ConfigurationError: The model has an encoder, no cache, or a special kind of cache.
    """
    if getattr(model.config, "is_encoder_decoder", False):
        raise ConfigurationError(
            f"{type(model).__name__} has an encoder, whose output cannot be cached with a sequence; give a "
            "decoder-only model, or call this model's own generate with a hook: "
            "model.generate(**inputs, logits_processor=[logits_processor(output_type, tokenizer, model=model)])"
        )
    if makes_own_cache(model) or getattr(model, "_is_stateful", False):
        return True
    layers = DynamicCache(config=model.config).layers
    return any(hasattr(layer, "conv_states") or hasattr(layer, "recurrent_states") for layer in layers)


def reads_pads(model: Any) -> bool:
    """Return whether a decoder counts padding as positions: it takes no positions, and depends on more than distances."""
    return "position_ids" not in arguments_of(model) and model.config.model_type not in DISTANCES


class TransformersModel(ArrayEngine):
    """The base class of the engines for transformers decoders; see `ArrayEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.

    Raises:
        ConfigurationError: The model has an encoder, no cache, or a special kind of cache.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.cache_argument = cache_argument(model)
        self.model = model
        # Each session has its own caches, and a model without state can run in several threads at the same time.
        self.lock = RLock()
        self.tokenizer = tokenizer
        config = model.config.get_text_config(decoder=True)
        self.vocabulary_size = int(config.vocab_size)
        self.device: torch.device = model.device
        self.max_length: int | None = getattr(config, "max_position_embeddings", None)
        self.layers = int(config.num_hidden_layers)
        self.eos_ids = frozenset(ends_of(model)) or TextTokenizer(tokenizer).eos_ids
        taken = arguments_of(model)
        # Makes the model compute only the last logits, if it can.
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in taken else {}
        self.takes_positions = "position_ids" in taken

    def positions(self, begin: int, end: int) -> dict[str, Any]:
        """Return the argument for the positions of a pass, as in `generate`: some models count from 0 without it."""
        return {"position_ids": torch.arange(begin, end, device=self.device)[None]} if self.takes_positions else {}

    def copied(self, cache: Any) -> Any:
        """Return an independent copy of a cache. Attention layers replace their tensors; all other layers write to theirs."""
        if not isinstance(cache, Cache):
            return copy.deepcopy(cache)
        copied, shared = copy.copy(cache), (DynamicLayer, DynamicSlidingWindowLayer)
        copied.layers = [copy.copy(layer) if type(layer) in shared else copy.deepcopy(layer) for layer in cache.layers]
        return copied

    def fingerprint(self) -> str:
        """Return a string that identifies the model by its configuration, parameters and buffers, all of which are read."""
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in NO_MATTER}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
        # Quantised weights may be buffers. Buffers that are not saved are computed from the configuration, which is included.
        saved = self.model.state_dict()
        buffers = ((name, buffer) for name, buffer in self.model.named_buffers() if name in saved)
        for name, values in (*self.model.named_parameters(), *buffers):
            digest.update(f"{name}{tuple(values.shape)}{values.dtype}{checksum(values)}".encode())
        return f"{type(self.model).__name__} {digest.hexdigest()}"

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt."""
        return list(self.tokenizer(text)["input_ids"])
