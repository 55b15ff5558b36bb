"""LLGuidance as a judge of texts, byte by byte, if it is installed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

__all__ = ["guidance_reads"]


def guidance_reads(grammar: str, texts: Iterable[str]) -> dict[str, bool]:
    """Return whether LLGuidance reads each text by a grammar in Lark's syntax; skips the test without LLGuidance."""
    llguidance = pytest.importorskip("llguidance", reason="needs LLGuidance: pip install -c constraints.txt llguidance")
    tokenizer = llguidance.LLTokenizer("byte")
    wrapped = llguidance.LLMatcher.grammar_from_lark(grammar)
    found = {}
    for text in texts:
        judge = llguidance.LLMatcher(tokenizer, wrapped)
        assert not judge.is_error(), judge.get_error()
        ids = [*text.encode()]
        found[text] = judge.try_consume_tokens(ids) == len(ids) and judge.is_accepting()
    return found
