"""Check that processors were built for the tokens of an engine, and know each of its EOS ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from logitkit.composition.chain import Chain
from logitkit.composition.conflicts import eos_ids_of
from logitkit.errors import VocabularyError
from logitkit.protocol.processor import Processor, name_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["check_ends", "check_tokens_agree", "parts_of", "vocabulary_ends"]

# The maximum number of ids in a message.
NAMED = 8


def check_ends(processor: Processor[Any] | None, ends: Collection[int]) -> None:
    """Check that a processor knows every EOS of the engine. An unknown one would end a text before it is complete.

    Args:
        processor: The processor, or None.
        ends: The ids at which the engine ends a text.

    Raises:
        VocabularyError: One of them is missing in the vocabulary of a processor, or in the EOS ids that it was given.
    """
    for part in parts_of(processor):
        known = eos_ids_of(part)
        missing = sorted(set(ends).difference(known)) if known else []
        if missing:
            raise VocabularyError(
                f"the engine ends a text at the ids {_listed(sorted(ends))}, but {name_of(part)} knows the EOS ids "
                f"{_listed(sorted(known))} only: at {_listed(missing)}, a text would end before it is complete. Make the "
                "vocabulary with the model, vocabulary(tokenizer, model), and pass all of the ids to processors that take eos_ids"
            )


def vocabulary_ends(processor: Processor[Any] | None) -> frozenset[int]:
    """Return the EOS ids of a processor's vocabularies, each of which ends its text."""
    vocabularies = (getattr(part, "vocabulary", None) for part in parts_of(processor))
    return frozenset(i for vocabulary in vocabularies if vocabulary is not None for i in vocabulary.eos_ids)


def parts_of(processor: Processor[Any] | None) -> Iterator[Processor[Any]]:
    """Yield the processors that are not chains; `Chain`, unlike `chain`, may hold other chains."""
    if isinstance(processor, Chain):
        for part in processor.processors:
            yield from parts_of(part)
    elif processor is not None:
        yield processor


def _listed(ids: list[int]) -> str:
    return f"{ids[:NAMED]} and {len(ids) - NAMED} more" if len(ids) > NAMED else str(ids)


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
