"""A sequence in ONNX Runtime GenAI, which continues a generator and goes back by rewinding it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.loaded_class import needed_for
from logitkit_adapters.onnxruntime_genai.generators import GeneratorUser, SharedGenerator
from logitkit_adapters.onnxruntime_genai.model_limits import limits_of
from logitkit_adapters.sessions.array_caches import cannot_shift
from logitkit_adapters.sessions.sequence import CachedSequence, SavedSequence, SequenceEngine
from logitkit_adapters.sessions.shared_model import shared_by

with needed_for("onnxruntime_genai", "onnxruntime-genai", "onnx"):
    import onnxruntime_genai as og

__all__ = ["OnnxEngine", "OnnxSequence", "SavedGenerator"]

# The room of the first generator of a short sequence, in tokens.
LEAST_ROOM = 512


class SavedGenerator:
    """A snapshot of a sequence: its tokens, and the generator that has run them, as long as nobody cuts them off.

    Args:
        tokens: The tokens.
        is_cuttable: Whether a generator can be rewound.
        generator: The generator, or None if the tokens have not been run.
    """

    def __init__(self, tokens: tuple[int, ...], is_cuttable: bool, generator: SharedGenerator | None) -> None:
        self.tokens, self.is_cuttable, self.generator = tokens, is_cuttable, generator


class OnnxEngine(SequenceEngine):
    """A model of ONNX Runtime GenAI; see `SequenceEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: None, because a generator has its own cache.

    Raises:
        ConfigurationError: `make_cache` is given.
    """

    moves = True

    def __init__(self, model: og.Model, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> None:
        if make_cache is not None:
            raise ConfigurationError(
                "make_cache is given, but a generator of ONNX Runtime GenAI makes its cache by itself; leave it out"
            )
        self.model = model
        self.limits = limits_of(model)
        self.lock = shared_by(model).lock
        self.tokenizer = tokenizer
        self.vocabulary_size = self.limits.columns
        self.device = torch.device("cpu")
        self.max_length: int | None = self.limits.max_length
        self.eos_ids = self.limits.eos_ids
        # Only rolling sessions ask for it, which `check_shift` refuses.
        self.layers = 0

    def new(self) -> OnnxSequence:
        """Return an empty sequence."""
        return OnnxSequence(self, ())

    def restore(self, saved: SavedSequence, length: int) -> OnnxSequence | None:
        """Return a sequence of the first tokens of a snapshot, which takes over its generator."""
        assert isinstance(saved, SavedGenerator)
        generator, tokens = saved.generator, saved.tokens[:length]
        if generator is None or not generator.begins_with(tokens):
            return None
        sequence = OnnxSequence(self, tokens, generator)
        return sequence if generator.cut(length) else None

    def generator(self, length: int) -> SharedGenerator:
        """Return a generator with room for some tokens, and for as many again if the model allows it."""
        assert self.max_length is not None
        return SharedGenerator(self.model, self.limits, min(max(2 * length, LEAST_ROOM), self.max_length))

    def check_fed(self, tokens: Sequence[int], length: int) -> None:
        """Raise `ConfigurationError` for ids that the model lacks, or more tokens than it takes.

        Args:
            tokens: The tokens to run.
            length: The number of tokens with those before.
        """
        if tokens and not 0 <= min(tokens) <= max(tokens) < self.vocabulary_size:
            # The engine counts negative ids from the end of the table of embeddings.
            raise ConfigurationError(
                f"a prompt has token ids from {min(tokens)} to {max(tokens)}; allowed are ids from 0 to "
                f"{self.vocabulary_size - 1}, which the model has"
            )
        if length > self.limits.max_length:
            raise ConfigurationError(
                f"{length} tokens are more than the {self.limits.max_length} of search.max_length in the model's "
                "genai_config.json; give fewer, or raise it there"
            )

    def check_shift(self) -> None:
        """Raise `ConfigurationError`: the keys of a generator cannot be changed."""
        raise cannot_shift("ONNX Runtime GenAI does not give access to the keys in its cache")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as the tokenizer encodes it."""
        return [int(i) for i in self.tokenizer.encode(text)]


class OnnxSequence(CachedSequence):
    """A sequence in ONNX Runtime GenAI; see `CachedSequence` for its methods.

    Args:
        engine: The model.
        tokens: The tokens whose positions are cached.
        generator: A generator that begins with them; None if there are none.
    """

    def __init__(self, engine: OnnxEngine, tokens: Sequence[int], generator: SharedGenerator | None = None) -> None:
        super().__init__(tokens)
        self._tokens: array[int] = array("i", tokens)
        self._engine, self._generator = engine, generator
        self._mark = GeneratorUser()

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return float32 logits."""
        self._engine.check_fed(tokens, self.length + len(tokens))
        generator = self._ready(self.length + len(tokens))
        logits = generator.run(tokens, all_positions)
        self._count(tokens)
        generator.belong_to(self._mark)
        return logits

    def trim(self, length: int) -> bool:
        """Keep only the first positions."""
        if length < self.length:
            generator = self._generator
            if generator is None or not generator.begins_with(self._tokens[:length]) or not generator.cut(length):
                return False
            del self._tokens[length:]
        return True

    def shift(self, drop: int) -> bool:
        """Return False: the keys of a generator cannot be changed."""
        return False

    def fork(self) -> OnnxSequence:
        """Return an independent sequence. Whichever goes on first keeps the generator; the other runs its tokens again."""
        return OnnxSequence(self._engine, self._tokens, self._generator)

    def save(self) -> SavedGenerator:
        """Return a snapshot, which shares the generator."""
        return SavedGenerator(self.tokens, self._engine.limits.can_rewind, self._generator)

    def _ready(self, length: int) -> SharedGenerator:
        """Return a generator that has run exactly the tokens of this sequence, with room for a length."""
        found = self._generator
        if found is not None and found.room >= length:
            if found.is_owned_by(self._mark):
                return found
            if found.begins_with(self._tokens) and found.is_free(self.length) and found.cut(self.length):
                return found
        found = self._generator = self._engine.generator(length)
        if self._tokens:
            found.run(self._tokens, all_positions=False)
            self.positions_fed += self.length
        return found
