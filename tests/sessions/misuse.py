"""Processors that are given by mistake."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.adapters.demo import vocabulary


class WithoutAdvance:
    """An object that lacks a method of a processor."""

    def init_state(self, context: lk.Context) -> None: ...

    def process_logits(self, state: Any, logits: Any, context: lk.Context) -> Any: ...


def of_another_tokenizer(*more: Any) -> lk.Processor[Any]:
    """Return a chain with a pattern, which is built for a tokenizer with two tokens exchanged."""
    own = vocabulary()
    tokens = list(own.tokens)
    tokens[3], tokens[4] = tokens[4], tokens[3]
    return lk.chain(lk.Regex("[0-9]{3}", lk.Vocabulary(tokens, own.eos_ids)), *more)
