"""The vocabulary of a model loaded by llama.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import llama_cpp

import logitkit
from logitkit.errors import VocabularyError
from logitkit_adapters.tokenizers.reading import is_special

__all__ = ["vocabulary"]

# The initial buffer size for a token's text in bytes; few tokens need more.
ROOM = 128


def vocabulary(
    llama: llama_cpp.Llama, model: Any = None, *, eos_ids: int | Iterable[int] | None = None, size: int | None = None
) -> logitkit.Vocabulary:
    r"""Read the bytes that each token id adds to the text from a model.

    They are the bytes that llama.cpp itself writes for a token after other tokens. Control tokens, which it does not write,
    have names but no text. All tokens that end a generation in llama.cpp (EOS, end of turn, end of message) are EOS.

    Args:
        llama: The model; `vocab_only=True` is enough.
        model: The same model, for code that works with all engines; optional.
        eos_ids: Ids that end a sequence, instead of all those at which llama.cpp ends one.
        size: The number of logits columns, if that differs from the number of tokens.

    Returns:
        The vocabulary, with one id per logits column, the model's padding id if it has one, and the names of its special
        tokens.

    Raises:
        VocabularyError: The argument is not a `Llama`, the model has no token that ends a generation, or an id or `size` is out
            of range.

    Example:
        >>> import llama_cpp
        >>> from logitkit_adapters.demo import gguf_path
        >>> from logitkit_adapters.llama_cpp import vocabulary
        >>> vocabulary(llama_cpp.Llama(str(gguf_path()), vocab_only=True, verbose=False))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if not isinstance(llama, llama_cpp.Llama):
        raise VocabularyError(f"llama is {llama!r}, which has no tokens; pass the llama_cpp.Llama that generates")
    if model is not None and model is not llama:
        raise VocabularyError(
            f"model is {model!r}, but must be the llama_cpp.Llama passed as llama; pass that, or leave it out"
        )
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    ids = range(llama_cpp.llama_vocab_n_tokens(vocab))
    ends = [i for i in ids if llama_cpp.llama_vocab_is_eog(vocab, i)]
    if not ends and eos_ids is None:
        raise VocabularyError(
            "the model has no token that ends a generation; load it with "
            'kv_overrides={"tokenizer.ggml.eos_token_id": ...}, the id with which it ends a sequence'
        )
    pad = llama_cpp.llama_vocab_pad(vocab)
    tokens = [_text_of(vocab, i) for i in ids]
    return logitkit.Vocabulary(
        tokens,
        ends if eos_ids is None else eos_ids,
        size=size,
        pad_id=pad if pad in ids else None,
        special=_special(vocab, tokens),
    )


def _special(vocab: Any, tokens: list[bytes | None]) -> dict[str, int]:
    """Return the names of tokens without text, and of user-defined tokens named like these."""
    names: dict[str, int] = {}
    for i, token in enumerate(tokens):
        user_defined = llama_cpp.llama_vocab_get_attr(vocab, i) & llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED
        if token is not None and not user_defined:
            continue
        raw = llama_cpp.llama_vocab_get_text(vocab, i)
        name = raw.decode("utf-8", "replace")
        # Nobody could write a name that is not UTF-8.
        if name and name.encode() == raw and is_special(name, token):
            names.setdefault(name, i)
    return names


def _text_of(vocab: Any, token: int) -> bytes | None:
    """Return the text that llama.cpp writes for a token; None for an empty one."""
    size = -ROOM
    while size < 0:  # the size that it needs
        buffer = ctypes.create_string_buffer(-size)
        # Without removing leading spaces, and without control tokens.
        size = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    return buffer.raw[:size] or None
