"""Generators of `continuous` with the shipped model in transformers."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer, vocabulary


def generator(*processors: Any, **options: Any) -> Any:
    """Return one with processors that may be none."""
    return continuous(model(), tokenizer(), lk.chain(*processors) if processors else None, **options)


def choice(*options: str, **how: Any) -> Any:
    """Return one that says one of some texts."""
    return continuous(model(), tokenizer(), lk.Choice(options, vocabulary()), **how)
