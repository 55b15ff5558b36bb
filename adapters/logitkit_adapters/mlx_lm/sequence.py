"""A sequence in mlx-lm, with the caches of its layers."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import torch
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache
from torch import Tensor

from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.arrays import logits_to_torch
from logitkit_adapters.mlx_lm import files
from logitkit_adapters.mlx_lm.rope import LayerRotation
from logitkit_adapters.sessions.likeliest import two_likeliest
from logitkit_adapters.sessions.saved_segments import SavedSegments, Segment, first_positions
from logitkit_adapters.sessions.sequence import SavedSequence
from logitkit_adapters.sessions.shared_model import shared_by

__all__ = ["MlxLmEngine", "MlxLmSequence"]

# The number of tokens that `generate_step` runs through the model at a time.
STEP = 2048

# Exceeds the distance of the two largest logits from the log of the sum, which is at most the log of the vocabulary size.
ROUNDED = 64.0


class MlxLmEngine:
    """A model of mlx-lm; see `SequenceEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its `TokenizerWrapper`, or None if all prompts are token ids; then no token ends a text.
        make_cache: Returns the empty caches of the layers; default: mlx-lm's own.
    """

    resumes = True

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], list[Any]] | None = None) -> None:
        self.model = model
        self.lock = shared_by(model).lock
        self.tokenizer = tokenizer
        self.make_cache = make_cache or (lambda: make_prompt_cache(model))
        arguments = getattr(model, "args", None)
        self.vocabulary_size = int(getattr(arguments, "vocab_size", 0))
        self.device = torch.device("cpu")
        self.has_text = tokenizer is not None
        self.max_length: int | None = getattr(arguments, "max_position_embeddings", None)
        self.layers = len(model.layers)
        self.eos_ids = TextTokenizer(tokenizer).eos_ids

    def new(self) -> MlxLmSequence:
        """Return an empty sequence."""
        return MlxLmSequence(self, (), self.make_cache(), ())

    def restore(self, saved: SavedSequence, length: int) -> MlxLmSequence | None:
        """Return a sequence of the first tokens of a snapshot."""
        assert isinstance(saved, SavedSegments)
        if saved.cache is not None:
            return (
                MlxLmSequence(self, saved.tokens, copy.deepcopy(saved.cache), ())
                if length == len(saved.tokens)
                else None
            )
        origin = first_positions(saved.segments, length)
        cache = self.make_cache()
        if origin:
            for layer, parts in zip(cache, zip(*(s.layers for s in origin), strict=True), strict=True):
                layer.state = (*(_joined(part, length, layer.step) for part in zip(*parts, strict=True)), length)
        return MlxLmSequence(self, saved.tokens[:length], cache, origin)

    def resume(self, sequence: MlxLmSequence, length: int) -> MlxLmSequence | None:
        """Return the first tokens of a sequence that is no longer in use."""
        return MlxLmSequence(self, sequence.tokens, sequence.cache, sequence.origin) if sequence.trim(length) else None

    def fingerprint(self) -> str:
        """Return a string that identifies this model."""
        return files.fingerprint(self.model)

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write the first tokens of a cache."""
        sequence = self.restore(saved, length)
        if sequence is not None:
            files.write(path, sequence.cache, sequence.tokens)
        return sequence is not None

    def read(self, path: str | os.PathLike[str]) -> SavedSegments | None:
        """Return a snapshot written by `write`."""
        found = files.read(path, self.make_cache())
        return None if found is None else MlxLmSequence(self, *found, ()).save()

    def greedy(self, logits: Tensor) -> int:
        """Return the most likely token by the values that mlx-lm compares: rounded log-probabilities, which may be equal."""
        place, first, second = two_likeliest(logits)
        # Rounding is monotonic, so only values closer than its error can become equal.
        if first - second > torch.finfo(logits.dtype).eps * (ROUNDED + first - second):
            return place
        scores = mx.array(logits.float().numpy().reshape(-1)).astype(
            getattr(mx, str(logits.dtype).removeprefix("torch."))
        )
        found: Any = mx.argmax(scores - mx.logsumexp(scores, keepdims=True)).item()
        return int(found)

    def forget(self) -> None:
        """Do nothing: a model of mlx-lm holds no cache."""

    def check_shift(self) -> None:
        """Raise `ConfigurationError` if the model does not encode positions by rotating keys."""
        rotations = self.rotations()
        for rotation in rotations:
            rotation.check()
        sequence = self.new()
        # The embedding of an ordinary token; that of padding may be all zeros.
        sequence.feed([self.vocabulary_size // 2] * 8)
        if _is_plain(sequence.cache):
            for rotation, layer in zip(rotations, sequence.cache, strict=True):
                rotation.check(layer.keys_and_values()[0])

    def rotations(self) -> list[LayerRotation]:
        """Return the rotation of the keys of each layer by their positions."""
        return [LayerRotation(layer) for layer in self.model.layers]

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `stream_generate` encodes it."""
        bos = self.tokenizer.bos_token
        special = bos is None or not text.startswith(bos)
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=special)
        return found


class MlxLmSequence:
    """A sequence in mlx-lm; see `CachedSequence` for its methods.

    Args:
        engine: The model.
        tokens: The tokens whose positions are cached.
        cache: The caches of the layers.
        origin: The beginning of the cache, shared with a snapshot.
    """

    def __init__(
        self, engine: MlxLmEngine, tokens: tuple[int, ...], cache: list[Any], origin: tuple[Segment, ...]
    ) -> None:
        self._engine = engine
        self._tokens = list(tokens)
        self.origin = origin
        self.cache = cache
        self.positions_fed = 0
        self.forward_passes = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""
        return tuple(self._tokens)

    @property
    def length(self) -> int:
        """The number of these tokens."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return logits in the model's dtype."""
        ids, parts = list(tokens), []
        # As in mlx-lm: the last token alone, the tokens before it in steps.
        ends = range(STEP, len(ids), STEP) if all_positions else [*range(STEP, len(ids) - 1, STEP), len(ids) - 1]
        for begin, end in zip([0, *ends], [*ends, len(ids)], strict=True):
            if begin == end:
                continue
            output = self._engine.model(mx.array([ids[begin:end]]), cache=self.cache)
            parts.append(output[0] if all_positions else output[0, -1])
            if end - begin == STEP:
                # Limits the memory. A shorter step is computed together with the last token, without its own logits.
                mx.eval([layer.state for layer in self.cache])
        logits: Any = mx.concatenate(parts) if all_positions else parts[-1]
        mx.eval(logits)
        self._tokens.extend(ids)
        self.positions_fed += len(ids)
        self.forward_passes += 1
        if logits.dtype == mx.float32 and not all_positions:
            # On the same memory, which nothing else reads any more: a copy would take a twentieth of a pass of a small model.
            return torch.frombuffer(memoryview(logits), dtype=torch.float32)
        taken = logits_to_torch(logits).tensor
        return taken if all_positions else taken[0]

    def trim(self, length: int) -> bool:
        """Keep only the first positions."""
        removed = self.length - length
        if removed and not _is_plain(self.cache):
            return False
        if removed:
            for layer in self.cache:
                layer.trim(removed)
            del self._tokens[length:]
            self.origin = first_positions(self.origin, length)
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions, and rotate the keys of the others back accordingly."""
        if not _is_plain(self.cache):
            return False
        moved = []
        for layer, rotation in zip(self.cache, self._engine.rotations(), strict=True):
            keys, values = layer.keys_and_values()
            moved.append((rotation.back(keys[:, :, drop:], drop), values[:, :, drop:]))
        mx.eval(moved)
        self.cache = [type(layer)() for layer in self.cache]
        if drop < self.length:
            for layer, (keys, values) in zip(self.cache, moved, strict=True):
                layer.update_and_fetch(keys, values)
        del self._tokens[:drop]
        self.origin = ()
        return True

    def fork(self) -> MlxLmSequence | None:
        """Return an independent sequence, on its own memory."""
        if not (_is_plain(self.cache) or _can_go_on(self.cache)):
            return None
        return MlxLmSequence(self._engine, self.tokens, copy.deepcopy(self.cache), self.origin)

    def save(self) -> SavedSegments | None:
        """Return a snapshot of the cache."""
        if not _is_plain(self.cache):
            return SavedSegments(self.tokens, cache=copy.deepcopy(self.cache)) if _can_go_on(self.cache) else None
        done = sum(segment.length for segment in self.origin)
        if done < self.length:
            pairs = [layer.keys_and_values() for layer in self.cache]
            # Copies only the new part: not the shared part, and not a view, which would keep the memory of the whole.
            new = tuple((_own(keys[:, :, done:]), _own(values[:, :, done:])) for keys, values in pairs)
            mx.eval(new)
            self.origin = _merged((*self.origin, Segment(new, self.length - done)))
        return SavedSegments(self.tokens, self.origin)


def _merged(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Merge segments until each is at most half as long as the one before: a long conversation has few, which join quickly."""
    *before, last = segments
    while before and before[-1].length < 2 * last.length:
        first = before.pop()
        pairs = zip(first.layers, last.layers, strict=True)
        layers = tuple((mx.concatenate([k, m], 2), mx.concatenate([v, w], 2)) for (k, v), (m, w) in pairs)
        mx.eval(layers)
        last = Segment(layers, first.length + last.length)
    return (*before, last)


def _joined(parts: Sequence[mx.array], length: int, step: int) -> mx.array:
    """Return keys or values in one array, with spare capacity as in the cache, which would otherwise copy them again."""
    batch, heads, _, size = parts[0].shape
    room = mx.zeros((batch, heads, step - length % step, size), parts[0].dtype)
    return mx.concatenate([*parts, room], 2)


def _own(array: mx.array) -> mx.array:
    # A slice could keep the memory of the whole array.
    return array + mx.zeros((), array.dtype)


def _is_plain(cache: list[Any]) -> bool:
    """Whether a cache holds the keys and values of all positions, unchanged."""
    return all(type(layer) is KVCache for layer in cache)


def _can_go_on(cache: list[Any]) -> bool:
    """Whether continuing a cache gives the same result as a run over all tokens at once.

    It does for a rotating cache that may drop all positions, which is a sliding window. It does not with quantisation, because
    a run at once attends to the first tokens before it quantises them.
    """
    return all(type(layer) is KVCache or (type(layer) is RotatingKVCache and not layer.keep) for layer in cache)
