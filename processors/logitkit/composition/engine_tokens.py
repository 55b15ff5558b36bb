"""Check that processors were built for the tokens of an engine."""

from __future__ import annotations

from typing import Any

from logitkit.composition.engine_ends import parts_of
from logitkit.errors import VocabularyError
from logitkit.protocol.processor import Processor, name_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["check_tokens_agree"]


def check_tokens_agree(processor: Processor[Any] | None, vocabulary: Vocabulary) -> None:
    """Check that a processor was built for the tokens of an engine, and not for those of another tokenizer.

    Ids that have no text in one of the vocabularies do not count: a vocabulary may leave out tokens, and an EOS has no text.

    Args:
        processor: The processor, or None.
        vocabulary: The tokens of the engine.

    Raises:
        VocabularyError: A token has another text, or a token of the processor is beyond the tokens of the engine, or the reverse.
    """
    for part in parts_of(processor):
        own = getattr(part, "vocabulary", None)
        if isinstance(own, Vocabulary) and own.tokens != vocabulary.tokens:
            found = _difference(own.tokens, vocabulary.tokens)
            if found is not None:
                raise VocabularyError(
                    f"{name_of(part)} was built for other tokens than those of the tokenizer: {found}. Build it with the "
                    "vocabulary of this tokenizer, vocabulary(tokenizer)"
                )


def _difference(own: tuple[bytes | None, ...], engine: tuple[bytes | None, ...]) -> str | None:
    for i, (one, other) in enumerate(zip(own, engine, strict=False)):
        if one != other and one is not None and other is not None:
            return f"token {i} is {one!r} in its vocabulary, and {other!r} in the tokenizer"
    count = min(len(own), len(engine))
    if any(own[count:]) or any(engine[count:]):
        return f"its vocabulary has {len(own)} ids, and the tokenizer {len(engine)}"
    return None
