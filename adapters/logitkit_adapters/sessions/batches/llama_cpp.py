"""Batches in llama.cpp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from logitkit_adapters.sessions.batches.sequences import SequenceBatches
from logitkit_adapters.sessions.sequences.llama_cpp import LlamaCppEngine

__all__ = ["LlamaTokenizer", "llama_cpp_batches"]

# All generators of one `Llama` must know of one another's sequences, which take turns in its one context.
ATTRIBUTE = "_logitkit_sequences"


class LlamaTokenizer:
    """The tokenizer of a `Llama`, with the names that other tokenizers have.

    Args:
        llama: The model.
    """

    def __init__(self, llama: Any) -> None:
        self._llama = llama

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text, with a BOS where the model wants one."""
        found: list[int] = self._llama.tokenize(text.encode(), add_bos=add_special_tokens, special=True)
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; special ones have none."""
        text: bytes = self._llama.detokenize(list(ids))
        return text.decode("utf-8", "replace")

    @property
    def bos_token_id(self) -> int | None:
        """The id that begins a text, if any."""
        found = int(self._llama.token_bos())
        return found if found >= 0 else None

    @property
    def eos_token_id(self) -> int | None:
        """The id that ends a text, if any."""
        found = int(self._llama.token_eos())
        return found if found >= 0 else None


def llama_cpp_batches(llama: Any, make_cache: Callable[[], Any] | None) -> SequenceBatches:
    """Return a `Llama` as an engine.

    Args:
        llama: The model with its context.
        make_cache: None.

    Raises:
        ConfigurationError: A way to make caches is given.
    """
    engine: LlamaCppEngine | None = getattr(llama, ATTRIBUTE, None)
    if engine is None or make_cache is not None:
        engine = LlamaCppEngine(llama, make_cache)
        setattr(llama, ATTRIBUTE, engine)
    return SequenceBatches(llama, LlamaTokenizer(llama), engine, "llama.cpp")
