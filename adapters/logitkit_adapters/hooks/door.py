"""The processor of a hook, from everything that `logits_processor` of an adapter takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from logitkit.composition.engine_vocabulary import check_ends, check_tokens_agree
from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor, is_processor
from logitkit.vocabulary.vocabulary import Vocabulary
from logitkit_adapters.hooks.known_vocabularies import known_vocabulary

if TYPE_CHECKING:
    from logitkit.batching import RowProcessors

__all__ = ["processor_for", "processors_for"]


def processor_for(
    given: Any,
    tokenizer: Any,
    model: Any,
    read: Callable[[Any, Any], Vocabulary],
    *,
    closing: bool,
    argument: str = "tokenizer",
) -> Processor[Any]:
    """Return the processor for a hook: the given one, or a constraint for the tokens of the engine.

    Args:
        given: A processor, or everything else that `output_type_of` takes.
        tokenizer: The tokenizer of the engine. It is optional for a processor, whose tokens are then compared with its tokens.
        model: The model of the engine, or None. The EOS ids of a processor are compared with those of the model.
        read: The function `vocabulary` of the adapter.
        closing: Whether an output must be complete before it is cut off, as in `JsonSchema`.
        argument: The name of the engine's object that has the tokens, for errors.

    Raises:
        ConfigurationError: `given` is not allowed, or there is no tokenizer and it needs one.
        VocabularyError: The vocabulary cannot be read, or the processor was built for other tokens or EOS ids.
        LogitkitError: `given` cannot be compiled.
    """
    if is_processor(given):
        if tokenizer is None and model is None:
            return given
        vocabulary = _vocabulary(given, "is compared with the model", tokenizer, model, read, argument)
        check_tokens_agree(given, vocabulary)
        check_ends(given, () if model is None else vocabulary.eos_ids)
        return given
    # Only who gives no processor needs everything that makes one.
    from logitkit.output_types import output_type_of

    output = output_type_of(given, "processor")
    vocabulary = _vocabulary(given, "is compiled for the tokens of a model", tokenizer, model, read, argument)
    return output.constraint(vocabulary, closing=closing)


def processors_for(
    given: Sequence[Any], tokenizer: Any, model: Any, read: Callable[[Any, Any], Vocabulary], *, closing: bool
) -> RowProcessors:
    """Return the processor of a hook for rows that have one each; see `processor_for` for the arguments.

    Args:
        given: For each row, what `processor_for` takes, or None for a row without a processor.
        tokenizer: The tokenizer of the engine.
        model: The model of the engine, or None.
        read: The function `vocabulary` of the adapter.
        closing: Whether an output must be complete before it is cut off.
    """
    # Only hooks for rows that differ need it.
    from logitkit.batching import RowProcessors

    made = {id(one): processor_for(one, tokenizer, model, read, closing=closing) for one in given if one is not None}
    return RowProcessors(tuple(None if one is None else made[id(one)] for one in given))


def _vocabulary(
    given: Any, reason: str, tokenizer: Any, model: Any, read: Callable[[Any, Any], Vocabulary], argument: str
) -> Vocabulary:
    if tokenizer is None:
        raise ConfigurationError(
            f"processor is {given!r:.80}, which {reason}, and {argument} is None; write logits_processor(..., {argument})"
        )
    return known_vocabulary(read, tokenizer, model)
