"""A sequence in a transformers model with recurrent layers: Mamba, RWKV, and their hybrids with attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.array_caches import ArraySequence, cannot_shift
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.transformers.cache_argument import makes_own_cache
from logitkit_adapters.transformers.model import TransformersModel

__all__ = ["RecurrentEngine", "RecurrentSequence"]

# The number of prompt tokens that run through a model in about the time of a single token.
TOKENS_PER_STEP = 8


class RecurrentSequence(ArraySequence):
    """A sequence in such a model; see `CachedSequence` for its methods. Its cache is changed in place, and cannot be cut."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._mark = object()

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
            options[engine.cache_argument] = self.cache
        options |= engine.positions(self.length - len(tokens), self.length)
        with torch.no_grad():
            output = engine.model(input_ids=ids, use_cache=use_cache, **options)
        if use_cache:
            returned = getattr(output, engine.cache_argument, None)
            engine.returns_cache = returned is not None
            engine.shared.fed_last = self._mark
            self.cache = self.cache if returned is None else returned
        self.positions_fed += len(tokens)
        self.forward_passes += 1
        logits: Tensor = output.logits[0, -keep:]
        return logits.to(torch.float32, copy=True)


class RecurrentEngine(TransformersModel):
    """A causal language model with recurrent layers; see `SequenceEngine` for its methods.

    Such layers accept several tokens only at the beginning of a sequence: after that, some models ignore the state that they
    are given. Their caches cannot be cut.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: Returns the empty cache of one sequence; default: the cache that `generate` makes.

    Raises:
        ConfigurationError: The model has an encoder, no cache, or a special kind of cache.
    """

    sequence = RecurrentSequence

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> None:
        super().__init__(model, tokenizer)
        self._makes_own_cache = makes_own_cache(model)
        if self._makes_own_cache and make_cache is not None:
            raise ConfigurationError(
                f"make_cache is given, but {type(model).__name__} makes its cache ({self.cache_argument}) by itself; leave it out"
            )
        self.make_cache = make_cache or self._empty_cache
        # RecurrentGemma keeps states in its modules, those of the sequence that was fed last.
        self.returns_cache = True
        self.shared = shared_by(model)
        self.lock = self.shared.lock

    def _empty_cache(self) -> Cache | None:
        return None if self._makes_own_cache else DynamicCache(config=self.model.config)

    def can_continue(self, cache: Any) -> bool:
        """Return whether the model returns its whole state."""
        return self.returns_cache

    def check_shift(self) -> None:
        """Raise `ConfigurationError`."""
        raise cannot_shift(f"{type(self.model).__name__} has recurrent layers, whose state cannot forget a token")
