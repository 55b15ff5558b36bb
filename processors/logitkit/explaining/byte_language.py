"""Texts as an automaton over bytes reads them: how far they are legal, and where they may end."""

from __future__ import annotations

from functools import lru_cache

from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import LogitkitError
from logitkit.languages.language import Language
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["automaton", "is_legal"]


def is_legal(language: Language, text: bytes, complete: bool) -> bool | None:
    """Whether a text belongs to a language, or, if it is not complete, is the beginning of a text that does.

    None: the language cannot be compiled alone.
    """
    dfa = automaton(language)
    found = [] if dfa is None else [*dfa.endings(text)]
    return None if dfa is None else len(found) == len(text) + 1 and (found[-1] or not complete)


@lru_cache(maxsize=256)
def automaton(language: Language) -> NestedDfa | None:
    """Return the automaton over bytes of a language; None if it cannot be compiled."""
    every_byte = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    try:
        return language.constraint(every_byte).nested_dfa()
    except LogitkitError:
        return None
