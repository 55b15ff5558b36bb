"""A sequence in mlx-lm: the caches of its layers."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx
import torch
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache
from torch import Tensor

from logitkit_adapters.arrays import logits_to_torch
from logitkit_adapters.sessions.sequences import mlx_lm_files
from logitkit_adapters.sessions.sequences.likeliest import two_likeliest
from logitkit_adapters.sessions.sequences.mlx_lm_rope import KeyRotation
from logitkit_adapters.sessions.sequences.protocol import SavedSequence

__all__ = ["MlxLmEngine", "MlxLmSequence"]

# As many tokens at a time as `generate_step` runs through the model.
STEP = 2048

# Above every distance of the two likeliest tokens from the logarithm of the sum: at most that of the number of tokens.
ROUNDED = 64.0


class Segment(NamedTuple):
    """Keys and values of a run of positions, which nothing writes to.

    Args:
        layers: The keys and the values of each layer, [1, heads, positions, size].
        length: Number of positions.
    """

    layers: tuple[tuple[mx.array, mx.array], ...]
    length: int

    def first(self, length: int) -> Segment:
        """Return the first positions."""
        return Segment(tuple((k[:, :, :length], v[:, :, :length]) for k, v in self.layers), length)


@dataclass(frozen=True, eq=False)
class Saved:
    """The cache of a sequence at one time.

    Args:
        tokens: Whose positions are cached.
        segments: Runs of positions one after another; () where the layers are kept as they were.
        cache: The caches of the layers, where they can be gone on from, but not be cut.
    """

    tokens: tuple[int, ...]
    segments: tuple[Segment, ...] = ()
    cache: list[Any] | None = None

    @property
    def is_cuttable(self) -> bool:
        """Whether the first positions of it can be restored without the others."""
        return self.cache is None


class MlxLmEngine:
    """A model of mlx-lm; for what its methods promise see `SequenceEngine`.

    Args:
        model: The model.
        tokenizer: Its `TokenizerWrapper`, or None where all prompts are token ids: no token ends a text then.
        make_cache: Makes the empty caches of the layers; the default is mlx-lm's own.
    """

    resumes = True

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], list[Any]] | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.make_cache = make_cache or (lambda: make_prompt_cache(model))
        arguments = getattr(model, "args", None)
        self.vocabulary_size = int(getattr(arguments, "vocab_size", 0))
        self.device = torch.device("cpu")
        self.has_text = tokenizer is not None
        self.max_length: int | None = getattr(arguments, "max_position_embeddings", None)
        self.layers = len(model.layers)
        self.eos_ids = frozenset(getattr(tokenizer, "eos_token_ids", None) or ())

    def new(self) -> MlxLmSequence:
        """Return a sequence without tokens."""
        return MlxLmSequence(self, (), self.make_cache(), ())

    def restore(self, saved: SavedSequence, length: int) -> MlxLmSequence | None:
        """Return a sequence of the first tokens of a saved one."""
        assert isinstance(saved, Saved)
        if saved.cache is not None:
            return (
                MlxLmSequence(self, saved.tokens, copy.deepcopy(saved.cache), ())
                if length == len(saved.tokens)
                else None
            )
        origin = _first(saved.segments, length)
        cache = self.make_cache()
        if origin:
            for layer, parts in zip(cache, zip(*(s.layers for s in origin), strict=True), strict=True):
                layer.state = (*(_joined(part, length, layer.step) for part in zip(*parts, strict=True)), length)
        return MlxLmSequence(self, saved.tokens[:length], cache, origin)

    def resume(self, sequence: MlxLmSequence, length: int) -> MlxLmSequence | None:
        """Return the first tokens of a sequence that is used by nobody any more."""
        return MlxLmSequence(self, sequence.tokens, sequence.cache, sequence.origin) if sequence.trim(length) else None

    def fingerprint(self) -> str:
        """Return what tells this model from others."""
        return mlx_lm_files.fingerprint(self.model)

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write the first tokens of a cache."""
        sequence = self.restore(saved, length)
        if sequence is not None:
            mlx_lm_files.write(path, sequence.cache, sequence.tokens)
        return sequence is not None

    def read(self, path: str | os.PathLike[str]) -> Saved | None:
        """Return what `write` has written."""
        found = mlx_lm_files.read(path, self.make_cache())
        return None if found is None else MlxLmSequence(self, *found, ()).save()

    def greedy(self, logits: Tensor) -> int:
        """Return the likeliest token of what mlx-lm compares: log-probabilities, which may be rounded alike."""
        place, first, second = two_likeliest(logits)
        # Rounding is monotonous: it makes two alike only that are no further apart than what it takes away.
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
        """Raise `ConfigurationError` if positions are not told to the model by turning keys."""
        rotations = self.rotations()
        for rotation in rotations:
            rotation.check()
        sequence = self.new()
        # Of an ordinary token: that of pads may be all zeros.
        sequence.feed([self.vocabulary_size // 2] * 8)
        if _is_plain(sequence.cache):
            for rotation, layer in zip(rotations, sequence.cache, strict=True):
                rotation.check(layer.keys_and_values()[0])

    def rotations(self) -> list[KeyRotation]:
        """Return how the keys of each layer turn with their positions."""
        return [KeyRotation(layer) for layer in self.model.layers]

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `stream_generate` encodes it."""
        bos = self.tokenizer.bos_token
        special = bos is None or not text.startswith(bos)
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=special)
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of new tokens."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


class MlxLmSequence:
    """Tokens of one sequence in mlx-lm; for what its methods promise see `CachedSequence`.

    Args:
        engine: The model.
        tokens: Whose positions the cache holds.
        cache: The caches of the layers.
        origin: The beginning of the cache that is shared with what was saved.
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
        """Number of those tokens."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return logits in the model's dtype."""
        ids, parts = list(tokens), []
        # As mlx-lm does: the last token by itself, what is before it in steps.
        ends = range(STEP, len(ids), STEP) if all_positions else [*range(STEP, len(ids) - 1, STEP), len(ids) - 1]
        for begin, end in zip([0, *ends], [*ends, len(ids)], strict=True):
            if begin == end:
                continue
            output = self._engine.model(mx.array([ids[begin:end]]), cache=self.cache)
            parts.append(output[0] if all_positions else output[0, -1])
            if end - begin == STEP:
                # Bounds the memory. A shorter step is computed with the last token, without logits of its own.
                mx.eval([layer.state for layer in self.cache])
        logits: Any = mx.concatenate(parts) if all_positions else parts[-1]
        mx.eval(logits)
        self._tokens.extend(ids)
        self.positions_fed += len(ids)
        self.forward_passes += 1
        if logits.dtype == mx.float32 and not all_positions:
            # On its memory, which nothing else reads any more: a copy takes a twentieth of a pass of a small model.
            return torch.frombuffer(memoryview(logits), dtype=torch.float32)
        taken = logits_to_torch(logits).tensor
        return taken if all_positions else taken[0]

    def trim(self, length: int) -> bool:
        """Keep the first positions only."""
        removed = self.length - length
        if removed and not _is_plain(self.cache):
            return False
        if removed:
            for layer in self.cache:
                layer.trim(removed)
            del self._tokens[length:]
            self.origin = _first(self.origin, length)
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions and turn the keys of the others back by as many."""
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
        """Return a sequence that goes its own way, on memory of its own."""
        if not (_is_plain(self.cache) or _can_go_on(self.cache)):
            return None
        return MlxLmSequence(self._engine, self.tokens, copy.deepcopy(self.cache), self.origin)

    def save(self) -> Saved | None:
        """Return the cache as it is now."""
        if not _is_plain(self.cache):
            return Saved(self.tokens, cache=copy.deepcopy(self.cache)) if _can_go_on(self.cache) else None
        done = sum(segment.length for segment in self.origin)
        if done < self.length:
            pairs = [layer.keys_and_values() for layer in self.cache]
            # Without what is shared, and without the memory that the whole lies in.
            new = tuple((_own(keys[:, :, done:]), _own(values[:, :, done:])) for keys, values in pairs)
            mx.eval(new)
            self.origin = _merged((*self.origin, Segment(new, self.length - done)))
        return Saved(self.tokens, self.origin)


def _first(segments: tuple[Segment, ...], length: int) -> tuple[Segment, ...]:
    kept: list[Segment] = []
    for segment in segments:
        if length <= 0:
            break
        kept.append(segment if segment.length <= length else segment.first(length))
        length -= segment.length
    return tuple(kept)


def _merged(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Return segments that halve in length at least, so that a long conversation has few: to put many together takes long."""
    *before, last = segments
    while before and before[-1].length < 2 * last.length:
        first = before.pop()
        pairs = zip(first.layers, last.layers, strict=True)
        layers = tuple((mx.concatenate([k, m], 2), mx.concatenate([v, w], 2)) for (k, v), (m, w) in pairs)
        mx.eval(layers)
        last = Segment(layers, first.length + last.length)
    return (*before, last)


def _joined(parts: Sequence[mx.array], length: int, step: int) -> mx.array:
    """Return keys or values in one array, with room for more as the cache makes it: without that, it would copy them again."""
    batch, heads, _, size = parts[0].shape
    room = mx.zeros((batch, heads, step - length % step, size), parts[0].dtype)
    return mx.concatenate([*parts, room], 2)


def _own(array: mx.array) -> mx.array:
    # A slice may lie in the memory of the whole, and would keep all of it.
    return array + mx.zeros((), array.dtype)


def _is_plain(cache: list[Any]) -> bool:
    """Whether a cache is the keys and values of all positions, as they were computed."""
    return all(type(layer) is KVCache for layer in cache)


def _can_go_on(cache: list[Any]) -> bool:
    """Whether tokens behind a cache come out as in a run over all tokens at once.

    A rotating cache without positions that it never drops is a sliding window, whose tokens do. Quantised positions do not: at
    once, the first tokens are attended to before they are quantised.
    """
    return all(type(layer) is KVCache or (type(layer) is RotatingKVCache and not layer.keep) for layer in cache)
