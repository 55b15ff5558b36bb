"""The mistakes in grammars of Lark's syntax: each has a place and a reason."""

from __future__ import annotations

import pytest

from logitkit.errors import GrammarError
from logitkit.grammars.lark import read_lark

__all__ = ["check_mistake"]


def check_mistake(grammar: str, expected: tuple[int | None, int | None, str]) -> None:
    """Check that a grammar is refused for a reason, at a line and column, both from 1; None if the error has no place."""
    line, column, reason = expected
    with pytest.raises(GrammarError) as caught:
        read_lark(grammar)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.column) == (line, column)
