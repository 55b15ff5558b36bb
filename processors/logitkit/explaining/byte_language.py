"""Texts as an automaton over bytes reads them: how far they are legal, and where they may end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.errors import LogitkitError
from logitkit.json_schema.layout import Whitespace
from logitkit.languages.language import Language
from logitkit.languages.schemas import JsonValue
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["automaton", "endings", "is_legal", "is_schema_legal"]


def endings(dfa: NestedDfa, text: bytes) -> Iterator[bool]:
    """For each beginning of a text, the shortest first, yield whether it is complete; stop where it is not legal."""
    state, stack = dfa.start, list[int]()
    yield bool(dfa.accepting[state])
    for byte in text:
        does = int(dfa.step[state, dfa.byte_class[byte]])
        if does < dfa.states:
            state = does
        elif does < dfa.states + dfa.calls:
            stack.append(int(dfa.frame[does - dfa.states]))
            state = int(dfa.entry[does - dfa.states])
        else:
            state = int(dfa.behind[does - dfa.states - dfa.calls, stack.pop()])
        if state == DEAD:
            return
        yield bool(dfa.accepting[state]) and not stack


def is_legal(dfa: NestedDfa, text: bytes, complete: bool) -> bool:
    """Whether a text belongs to a language, or, if it is not complete, is the beginning of a text that does."""
    found = [*endings(dfa, text)]
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
