"""The vocabularies that have been read, each remembered as long as its tokenizer."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from logitkit.vocabulary.vocabulary import Vocabulary
from logitkit_adapters.hooks.model_tokens import columns_of, ends_of

__all__ = ["known_vocabulary"]

# The attributes and methods of tokenizers that change if tokens are added, or others end or pad a text.
CHANGING = (
    "vocab_size",
    "get_vocab_size",
    "added_tokens_decoder",
    "get_added_tokens_decoder",
    "eos_token_id",
    "eos_token_ids",
    "pad_token_id",
)

# By the identity of the tokenizer, and then by the reader and the model: the state of the tokenizer, and its vocabulary.
_known: dict[int, dict[Hashable, tuple[list[str], Vocabulary]]] = {}


def known_vocabulary(read: Callable[[Any, Any], Vocabulary], tokenizer: Any, model: Any = None) -> Vocabulary:
    """Return the vocabulary of a tokenizer and a model, which is read when it is first asked for.

    It is remembered until the tokenizer is deleted, and read again if the tokenizer has other tokens, EOS or padding than before,
    or the model other EOS ids or columns. The model is not kept. A tokenizer without weak references is read each time.

    Args:
        read: Reads the vocabulary: the function `vocabulary` of an adapter.
        tokenizer: The tokenizer that it takes.
        model: The model that it takes, or None.

    Raises:
        VocabularyError: As `read` does.
    """
    state = [_shown(each, name) for each in _parts(tokenizer) for name in CHANGING]
    key = read, type(model), model is tokenizer, tuple(ends_of(model)), columns_of(model)
    known = _known.get(id(tokenizer))
    if known is None:
        known = {}
        try:
            weakref.finalize(tokenizer, _known.pop, id(tokenizer), None).atexit = False
        except TypeError:
            return read(tokenizer, model)
        _known[id(tokenizer)] = known
    if key not in known or known[key][0] != state:
        known[key] = state, read(tokenizer, model)
    return known[key][1]


def _parts(tokenizer: Any) -> Iterator[Any]:
    """Yield a tokenizer, the one in a processor of images and text, and the object that says where mlx-vlm ends a text."""
    yield tokenizer
    for name in ("tokenizer", "stopping_criteria"):
        inner = getattr(tokenizer, name, None)
        if inner is not None:
            yield inner
            tokenizer = inner


def _shown(tokenizer: Any, name: str) -> str:
    """Return what an attribute or method of a tokenizer shows; "" if the tokenizer lacks it."""
    try:
        found = getattr(tokenizer, name, None)
        return repr(found() if callable(found) else found)
    except NotImplementedError:  # the tokenizer of mistral-common says so of what it lacks
        return ""
