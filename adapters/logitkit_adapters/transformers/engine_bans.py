"""Bans of `generate` itself: it may ban all tokens that a constraint allows, and then the row ends with an incomplete text."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from logitkit.composition.chain import members
from logitkit.composition.conflicts import eos_ids_of
from logitkit.protocol.calls import init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import follows_text
from logitkit.protocol.processor import Processor, name_of
from logitkit.vocabulary.vocabulary import Vocabulary
from logitkit_adapters.hooks.model_tokens import ids_of

__all__ = ["EngineBansWarning", "warn_of_cut_off", "warn_of_settings"]

# Settings that ban tokens whatever the text is, and those that ban them depending on it.
SUPPRESSED = ("suppress_tokens", "begin_suppress_tokens")
DEPENDING = ("no_repeat_ngram_size", "encoder_no_repeat_ngram_size")


class EngineBansWarning(UserWarning):
    """`generate` bans tokens that a constraint needs, by settings of its own."""


def warn_of_settings(processor: Processor[Any], model: Any) -> None:
    """Warn of settings of a model with which `generate` can end the rows of a constraint.

    Args:
        processor: The processor of a hook.
        model: The model that generates, or None if it is unknown.
    """
    settings = getattr(model, "generation_config", None)
    parts = [
        p for p in members(processor) if follows_text(p) and isinstance(getattr(p, "vocabulary", None), Vocabulary)
    ]
    found = [] if settings is None else [name for part in parts for name in _harmful(settings, part)]
    if found:
        _warn(
            f"`generate` applies {', '.join(dict.fromkeys(found))} of model.generation_config before the hook: this can ban all "
            f"tokens that {' and '.join(map(name_of, parts))} allows"
        )


def warn_of_cut_off(processor: Processor[Any], row: int, length: int) -> None:
    """Warn of a row that has ended because of a ban of `generate`.

    Args:
        processor: The processor of the hook.
        row: The row, from 0.
        length: The number of its tokens, prompt included.
    """
    _warn(
        f"row {row} ends at {length} tokens, prompt included: `generate` has banned all tokens that {name_of(processor)} allows "
        f"there ({', '.join(('forced_bos_token_id', 'forced_eos_token_id', *SUPPRESSED, 'bad_words_ids', *DEPENDING))})"
    )


def _warn(what: str) -> None:
    warnings.warn(
        f"{what}, so that the text is incomplete, though it ends with EOS. Turn the ban off, as in "
        "generate(..., forced_eos_token_id=None). A first token that the model needs belongs at the end of the prompt "
        "(decoder_input_ids) instead of forced_bos_token_id",
        EngineBansWarning,
        stacklevel=4,
    )


def _harmful(settings: Any, part: Any) -> Iterator[str]:
    """Yield the settings that can end the rows of a constraint with an incomplete text."""
    vocabulary: Vocabulary = part.vocabulary
    context = Context.of([[]], vocabulary.size)
    zeros = torch.zeros(1, vocabulary.size)
    first = process_checked(part, init_checked(part, context), zeros, context)[0] > -torch.inf
    if bool(first[list(eos_ids_of(part))].any()):
        # Its text may end anywhere, as far as its beginning shows that.
        return

    def has_text(ids: Sequence[int]) -> bool:
        return any(i < vocabulary.size and vocabulary.tokens[i] for i in ids if i >= 0)

    forced = ids_of(getattr(settings, "forced_bos_token_id", None))
    if forced and not any(i < vocabulary.size and bool(first[i]) for i in forced):
        yield f"forced_bos_token_id={forced[0]}"
    if ids_of(getattr(settings, "forced_eos_token_id", None)):
        yield "forced_eos_token_id"
    for name in SUPPRESSED:
        if has_text(ids_of(getattr(settings, name, None))):
            yield name
    if getattr(settings, "bad_words_ids", None):
        yield "bad_words_ids"
    for name in DEPENDING:
        if getattr(settings, name, None):
            yield name
