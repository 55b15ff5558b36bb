"""A sequence in llama.cpp: sequences take turns in the single context of a `Llama`."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import llama_cpp
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.llama_cpp.context import Kept, SharedContext, context_of
from logitkit_adapters.llama_cpp.files import fingerprint
from logitkit_adapters.llama_cpp.tokenizer import LlamaTokenizer
from logitkit_adapters.sessions.array_caches import cannot_shift
from logitkit_adapters.sessions.sequence import CachedSequence, SavedSequence, SequenceEngine
from logitkit_adapters.sessions.shared_model import shared_by

__all__ = ["LlamaCppEngine", "LlamaCppSequence"]


class LlamaCppEngine(SequenceEngine):
    """A model of llama.cpp; see `SequenceEngine` for its methods.

    Other code may use the `Llama` between two calls, but not between the pieces of a stream: a sequence that is lost by that is
    recomputed.

    Args:
        llama: The model, with its context.
        make_cache: None, because llama.cpp creates its caches itself.

    Raises:
        ConfigurationError: `make_cache` is given.
    """

    def __init__(self, llama: llama_cpp.Llama, make_cache: Callable[[], Any] | None = None) -> None:
        if make_cache is not None:
            raise ConfigurationError(
                "make_cache is given, but llama.cpp makes its cache by itself; give type_k and type_v to llama_cpp.Llama"
            )
        self.llama = llama
        self.lock = shared_by(llama).lock
        self.tokenizer = LlamaTokenizer(llama)
        self.context = context_of(llama)
        self.vocabulary_size = llama.n_vocab()
        self.device = torch.device("cpu")
        self.max_length: int | None = llama.n_ctx()
        self.eos_ids = _eos_ids(llama)
        self.layers = int(llama_cpp.llama_model_n_layer(llama.model))

    def new(self) -> LlamaCppSequence:
        """Return an empty sequence."""
        return LlamaCppSequence(self.context, ())

    def restore(self, saved: SavedSequence, length: int) -> LlamaCppSequence | None:
        """Return a sequence of the first tokens of a snapshot."""
        assert isinstance(saved, Kept)
        if not self.context.can_load(saved):
            return None
        sequence = LlamaCppSequence(self.context, saved.tokens, saved)
        return sequence if sequence.trim(length) else None

    def fingerprint(self) -> str:
        """Return a string that identifies this model and its cache format."""
        return fingerprint(self.llama)

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write a cache in llama.cpp's format; a longer one is written completely."""
        assert isinstance(saved, Kept)
        if not (saved.is_cuttable or length == len(saved.tokens)) or not self.context.copy_out(saved):
            return False
        data = torch.frombuffer(bytearray(saved.data or b""), dtype=torch.uint8)
        save_file({"tokens": torch.tensor(saved.tokens, dtype=torch.int32), "data": data}, path)
        return True

    def read(self, path: str | os.PathLike[str]) -> Kept | None:
        """Return a snapshot written by `write`."""
        try:
            tensors = load_file(path)
            kept = Kept(tuple(tensors["tokens"].tolist()), self.context.is_cuttable)
            kept.data = tensors["data"].numpy().tobytes()
        except (OSError, SafetensorError, LookupError, TypeError):
            return None
        return kept

    @property
    def is_busy(self) -> bool:
        """Whether the contents of the context are changing."""
        return self.context.is_busy

    def forget(self) -> None:
        """Empty the context, from which the `Llama` would continue; what is still needed is copied."""
        with self.context.busy():
            self.context.park()
            self.context.clear()

    def check_shift(self) -> None:
        """Raise `ConfigurationError` if the model does not encode positions by rotating keys."""
        if llama_cpp.llama_model_rope_type(self.llama.model) == llama_cpp.LLAMA_ROPE_TYPE_NONE:
            reason = "the model has no rotary position embedding: a learned position cannot be taken out of a key"
        elif not llama_cpp.llama_memory_can_shift(self.context.memory):
            reason = "llama.cpp cannot shift the cache of this model"
        else:
            return
        raise cannot_shift(reason)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `create_completion` encodes it."""
        return self.llama.tokenize(text.encode(), add_bos=True, special=True)


def _eos_ids(llama: llama_cpp.Llama) -> frozenset[int]:
    shared = shared_by(llama)
    if shared.eos_ids is None:
        vocab = llama_cpp.llama_model_get_vocab(llama.model)
        shared.eos_ids = frozenset(i for i in range(llama.n_vocab()) if llama_cpp.llama_vocab_is_eog(vocab, i))
    return shared.eos_ids


class LlamaCppSequence(CachedSequence):
    """A sequence in llama.cpp; see `CachedSequence` for its methods.

    Args:
        context: The context in which it takes turns.
        tokens: The tokens whose positions are cached.
        kept: The snapshot of its cache while another sequence uses the context; None if there are no tokens.
    """

    def __init__(self, context: SharedContext, tokens: tuple[int, ...], kept: Kept | None = None) -> None:
        super().__init__(tokens)
        self._tokens: array[int] = array("i", tokens)
        self._context = context
        self._kept = kept

    @property
    def ids(self) -> array[int]:
        """The tokens as 32-bit numbers, as in the context."""
        return self._tokens

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return float32 logits."""
        with self._context.busy():
            self._take_turn()
            logits = self._context.run(tokens, all_positions)
            self._kept = None
            self._count(tokens)
        return logits

    def trim(self, length: int) -> bool:
        """Keep only the first positions."""
        if length < self.length:
            with self._context.busy():
                self._take_turn()
                if not self._context.cut(length):
                    return False
                self._kept = None
                del self._tokens[length:]
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions; llama.cpp rotates the keys of the others in the next pass."""
        with self._context.busy():
            self._take_turn()
            if not self._context.shift(drop):
                return False
            self._kept = None
            del self._tokens[:drop]
        return True

    def fork(self) -> LlamaCppSequence:
        """Return an independent sequence; its cache is copied when both need the context."""
        return LlamaCppSequence(self._context, self.tokens, self.save())

    def save(self) -> Kept:
        """Return a snapshot of the cache; it is copied when another sequence needs the context."""
        if self._kept is None or self._kept.tokens != self.tokens:
            with self._context.busy():
                self._take_turn()
                self._kept = self._context.keep(self)
        return self._kept

    def park(self) -> None:
        """Save the cache, because another sequence gets its turn."""
        self._kept = self._context.keep(self)

    def _take_turn(self) -> None:
        context = self._context
        if context.is_turn_of(self):
            return
        context.park()
        if self._kept is None or not context.load(self._kept, self.length):
            # Something else used the context meanwhile.
            context.clear()
            if self._tokens:
                context.run(self._tokens, all_positions=False)
                self.positions_fed += self.length
        context.begin_turn(self)
