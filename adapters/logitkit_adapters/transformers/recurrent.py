"""A sequence in a transformers model with recurrent layers: Mamba, RWKV, and their hybrids with attention."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.saved_segments import SavedSegments
from logitkit_adapters.sessions.sequence import SavedSequence
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.transformers.model import TransformersModel

__all__ = ["RecurrentEngine", "RecurrentSequence"]

# The number of prompt tokens that run through a model in about the time of a single token.
TOKENS_PER_STEP = 8


class RecurrentEngine(TransformersModel):
    """A causal language model with recurrent layers; see `FilingEngine` for its methods.

    Such layers accept several tokens only at the beginning of a sequence: after that, some models ignore the state that they
    are given. Their caches cannot be cut.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: Returns the empty cache of one sequence; default: the cache that `generate` makes.

    Raises:
        ConfigurationError: The model has an encoder, no cache, or a special kind of cache.
    """

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> None:
        super().__init__(model, tokenizer)
        if self.cache_name != "past_key_values" and make_cache is not None:
            raise ConfigurationError(
                f"make_cache is given, but {type(model).__name__} makes its cache ({self.cache_name}) by itself; leave it out"
            )
        self.make_cache = make_cache or self._empty_cache
        # RecurrentGemma keeps states in its modules, those of the sequence that was fed last.
        self.returns_cache = True
        self.shared = shared_by(model)
        self.lock = self.shared.lock

    def _empty_cache(self) -> Cache | None:
        return DynamicCache(config=self.model.config) if self.cache_name == "past_key_values" else None

    def new(self) -> RecurrentSequence:
        """Return an empty sequence."""
        return RecurrentSequence(self, (), None)

    def restore(self, saved: SavedSequence, length: int) -> RecurrentSequence | None:
        """Return a sequence of all tokens of a snapshot."""
        assert isinstance(saved, SavedSegments)
        return RecurrentSequence(self, saved.tokens, _copied(saved.cache)) if length == len(saved.tokens) else None

    def resume(self, sequence: Any, length: int) -> RecurrentSequence | None:
        """Return all tokens of a sequence that is no longer in use."""
        return RecurrentSequence(self, sequence.tokens, sequence.cache) if length == sequence.length else None

    def check_shift(self) -> None:
        """Raise `ConfigurationError`."""
        raise ConfigurationError(
            f"rolling=True is not possible: {type(self.model).__name__} has recurrent layers, from whose state no token can be "
            "taken; leave rolling=False"
        )


class RecurrentSequence:
    """A sequence in such a model; see `CachedSequence` for its methods.

    Args:
        engine: The model.
        tokens: The tokens that the cache has seen.
        cache: The cache, changed in place; None if there are no tokens.
    """

    def __init__(self, engine: RecurrentEngine, tokens: tuple[int, ...], cache: Any) -> None:
        self._engine = engine
        self._tokens = list(tokens)
        self.cache = cache
        self._mark = object()
        self.positions_fed = 0
        self.forward_passes = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens that the cache has seen."""
        return tuple(self._tokens)

    @property
    def length(self) -> int:
        """The number of these tokens."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model, one at a time after the first ones, and return float32 logits."""
        if self._can_step(len(tokens)):
            logits = []
            for token in tokens:
                self._tokens.append(token)
                logits.append(self._run([token]))
        else:
            self._tokens.extend(tokens)
            logits = [self._start(len(tokens) if all_positions else 1)]
        return torch.cat(logits) if all_positions else logits[-1][-1]

    def trim(self, length: int) -> bool:
        """Return whether there is nothing to cut."""
        return length == self.length

    def shift(self, drop: int) -> bool:
        """Return False."""
        return False

    def fork(self) -> RecurrentSequence | None:
        """Return an independent sequence, with its own states."""
        return RecurrentSequence(self._engine, self.tokens, _copied(self.cache)) if self._engine.returns_cache else None

    def save(self) -> SavedSegments | None:
        """Return a snapshot of the cache."""
        return SavedSegments(self.tokens, cache=_copied(self.cache)) if self._engine.returns_cache else None

    def _can_step(self, count: int) -> bool:
        """Return whether to feed the next tokens one by one, and not all tokens again from the beginning."""
        is_there = self._engine.returns_cache or self._engine.shared.fed_last is self._mark
        is_faster = count == 1 or count * TOKENS_PER_STEP <= self.length + count
        return self.length > 0 and is_there and is_faster

    def _start(self, keep: int) -> Tensor:
        self.cache = self._engine.make_cache()
        logits = self._run(self._tokens, keep)
        if self.length == 1 and not self._engine.returns_cache:
            # Feeding several tokens resets states in modules, but feeding one does not: a pass without a cache clears them.
            self._run(self._tokens, use_cache=False)
            self.cache = self._engine.make_cache()
            logits = self._run(self._tokens, keep)
        return logits

    def _run(self, tokens: Sequence[int], keep: int = 1, use_cache: bool = True) -> Tensor:
        """Return the logits, [keep, V], of the last of the given tokens, with which the sequence ends."""
        engine = self._engine
        ids = torch.tensor([list(tokens)], dtype=torch.int64, device=engine.model.device)
        options: dict[str, Any] = dict.fromkeys(engine.last_only, keep)
        if use_cache:
            options[engine.cache_name] = self.cache
        options |= engine.positions(self.length - len(tokens), self.length)
        with torch.no_grad():
            output = engine.model(input_ids=ids, use_cache=use_cache, **options)
        if use_cache:
            returned = getattr(output, engine.cache_name, None)
            engine.returns_cache = returned is not None
            engine.shared.fed_last = self._mark
            self.cache = self.cache if returned is None else returned
        self.positions_fed += len(tokens)
        self.forward_passes += 1
        logits: Tensor = output.logits[0, -keep:]
        return logits.to(torch.float32, copy=True)


def _copied(cache: Any) -> Any:
    """Return an independent copy of a cache. Attention layers replace their tensors; all other layers write to theirs."""
    if not isinstance(cache, Cache):
        return copy.deepcopy(cache)
    copied = copy.copy(cache)
    shared = (DynamicLayer, DynamicSlidingWindowLayer)
    copied.layers = [copy.copy(layer) if type(layer) in shared else copy.deepcopy(layer) for layer in cache.layers]
    return copied
