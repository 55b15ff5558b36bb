"""Texts as an automaton over bytes reads them: how far they are legal, and where they may end."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import LogitkitError
from logitkit.json_schema.layout import Whitespace
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["automaton", "is_legal", "is_schema_legal"]


def is_legal(dfa: NestedDfa, text: bytes, complete: bool) -> bool:
    """Whether a text belongs to a language, or, if it is not complete, is the beginning of a text that does."""
    found = [*dfa.endings(text)]
    return len(found) == len(text) + 1 and (found[-1] or not complete)


def is_schema_legal(schema: Any, whitespace: Whitespace, text: bytes, complete: bool) -> bool | None:
    """Whether a text satisfies a schema, or is the beginning of one that does; None if the schema cannot be compiled alone."""
    dfa = automaton(JsonValue(schema, whitespace))
    return None if dfa is None else is_legal(dfa, text, complete)


@lru_cache(maxsize=256)
def automaton(language: Language) -> NestedDfa | None:
    """Return the automaton over bytes of a language; None if it cannot be compiled."""
    every_byte = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    try:
        return language.constraint(every_byte).nested_dfa()
    except LogitkitError:
        return None
