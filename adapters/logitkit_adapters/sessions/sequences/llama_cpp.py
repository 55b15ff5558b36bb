"""A sequence in llama.cpp: sequences take turns in the one context of a `Llama`."""

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
from logitkit_adapters.sessions.sequences.likeliest import likeliest
from logitkit_adapters.sessions.sequences.llama_cpp_context import Kept, SharedContext
from logitkit_adapters.sessions.sequences.llama_cpp_files import fingerprint
from logitkit_adapters.sessions.sequences.protocol import SavedSequence

__all__ = ["LlamaCppEngine", "LlamaCppSequence"]


class LlamaCppEngine:
    """A model of llama.cpp; for what its methods promise see `SequenceEngine`.

    The `Llama` may be used otherwise between two calls: a sequence that it has lost by that is computed anew.

    Args:
        llama: The model, with its context.
        make_cache: None: llama.cpp makes its caches by itself.

    Raises:
        ConfigurationError: A way to make caches is given.
    """

    resumes = False

    def __init__(self, llama: llama_cpp.Llama, make_cache: Callable[[], Any] | None = None) -> None:
        if make_cache is not None:
            raise ConfigurationError(
                "make_cache is given, but llama.cpp makes its cache by itself; give type_k and type_v to llama_cpp.Llama"
            )
        self.llama = llama
        self.context = SharedContext(llama)
        self.vocabulary_size = llama.n_vocab()
        self.device = torch.device("cpu")
        self.has_text = True
        self.max_length: int | None = llama.n_ctx()
        vocab = llama_cpp.llama_model_get_vocab(llama.model)
        self.eos_ids = frozenset(i for i in range(self.vocabulary_size) if llama_cpp.llama_vocab_is_eog(vocab, i))
        self.layers = int(llama_cpp.llama_model_n_layer(llama.model))

    def new(self) -> LlamaCppSequence:
        """Return a sequence without tokens."""
        return LlamaCppSequence(self.context, ())

    def restore(self, saved: SavedSequence, length: int) -> LlamaCppSequence | None:
        """Return a sequence of the first tokens of a saved one."""
        assert isinstance(saved, Kept)
        if not self.context.can_load(saved):
            return None
        sequence = LlamaCppSequence(self.context, saved.tokens, saved)
        return sequence if sequence.trim(length) else None

    def resume(self, sequence: LlamaCppSequence, length: int) -> None:
        """Return None: what is in the context is not copied by `restore` either."""

    def fingerprint(self) -> str:
        """Return what tells this model, and its way to cache, from others."""
        return fingerprint(self.llama)

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write a cache as llama.cpp does; of a longer one, all of it."""
        assert isinstance(saved, Kept)
        if not (saved.is_cuttable or length == len(saved.tokens)) or not self.context.copy_out(saved):
            return False
        data = torch.frombuffer(bytearray(saved.data or b""), dtype=torch.uint8)
        save_file({"tokens": torch.tensor(saved.tokens, dtype=torch.int32), "data": data}, path)
        return True

    def read(self, path: str | os.PathLike[str]) -> Kept | None:
        """Return what `write` has written."""
        try:
            tensors = load_file(path)
            kept = Kept(tuple(tensors["tokens"].tolist()), self.context.is_cuttable)
            kept.data = tensors["data"].numpy().tobytes()
        except (OSError, SafetensorError, LookupError, TypeError):
            return None
        return kept

    def greedy(self, logits: Tensor) -> int:
        """Return the likeliest token."""
        return likeliest(logits)

    def forget(self) -> None:
        """Empty the context, from which the `Llama` would go on."""
        self.context.clear()

    def check_shift(self) -> None:
        """Raise `ConfigurationError` if positions are not told to the model by turning keys."""
        if llama_cpp.llama_model_rope_type(self.llama.model) == llama_cpp.LLAMA_ROPE_TYPE_NONE:
            reason = "the model has no rotary position embedding: a learned position cannot be taken out of a key"
        elif not llama_cpp.llama_memory_can_shift(self.context.memory):
            reason = "llama.cpp cannot shift the cache of this model"
        else:
            return
        raise ConfigurationError(f"rolling=True is not possible: {reason}; leave rolling=False")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `create_completion` encodes it."""
        return self.llama.tokenize(text.encode(), add_bos=True, special=True)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of new tokens."""
        return self.llama.detokenize([t for t in tokens if t not in self.eos_ids]).decode("utf-8", "replace")


class LlamaCppSequence:
    """Tokens of one sequence in llama.cpp; for what its methods promise see `CachedSequence`.

    Args:
        context: In which it takes its turns.
        tokens: Whose positions are cached.
        kept: Where they are cached, while it is another's turn; None for no tokens.
    """

    def __init__(self, context: SharedContext, tokens: tuple[int, ...], kept: Kept | None = None) -> None:
        self._context = context
        self._tokens = array("i", tokens)
        self._kept = kept
        self.positions_fed = 0
        self.forward_passes = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""
        return tuple(self._tokens)

    @property
    def ids(self) -> array[int]:
        """The same as numbers of 32 bits, as the context has them."""
        return self._tokens

    @property
    def length(self) -> int:
        """Number of those tokens."""
        return len(self._tokens)

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return float32 logits."""
        self._take_turn()
        logits = self._context.run(tokens, all_positions)
        self._kept = None
        self._tokens.extend(tokens)
        self.positions_fed += len(tokens)
        self.forward_passes += 1
        return logits

    def trim(self, length: int) -> bool:
        """Keep the first positions only."""
        if length < self.length:
            self._take_turn()
            if not self._context.cut(length):
                return False
            self._kept = None
            del self._tokens[length:]
        return True

    def shift(self, drop: int) -> bool:
        """Drop the first positions; llama.cpp turns the keys of the others at the next pass."""
        self._take_turn()
        if not self._context.shift(drop):
            return False
        self._kept = None
        del self._tokens[:drop]
        return True

    def fork(self) -> LlamaCppSequence:
        """Return a sequence that goes its own way; its cache is copied once both need the context."""
        return LlamaCppSequence(self._context, self.tokens, self.save())

    def save(self) -> Kept:
        """Return the cache as it is now; it is copied once another sequence needs the context."""
        if self._kept is None or self._kept.tokens != self.tokens:
            self._take_turn()
            self._kept = self._context.keep(self)
        return self._kept

    def park(self) -> None:
        """Remember the cache, for it is another's turn."""
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
