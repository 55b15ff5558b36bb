"""Every processor, one row for each configuration, for the tests that hold for all of them. The rows are in `tests/rows`."""

from __future__ import annotations

from collections.abc import Sequence

from tests.rows import (
    automata,
    chains,
    grammars,
    languages,
    nesting,
    penalties,
    reasoning,
    sampling,
    schemas,
    stopping,
    structural_tags,
    texts,
    tokens,
    tools,
    watermarks,
)
from tests.rows.row import BOS, EOS, PAD, TOKENS, Row, ids, vocabulary

__all__ = ["BOS", "EOS", "ONE_PASS", "PAD", "ROWS", "TOKENS", "Row", "ids", "of_kind", "vocabulary"]

ROWS: tuple[Row, ...] = (
    *automata.ROWS,
    *nesting.ROWS,
    *schemas.ROWS,
    *grammars.ROWS,
    *languages.ROWS,
    *structural_tags.ROWS,
    *tools.ROWS,
    *penalties.ROWS,
    *tokens.ROWS,
    *texts.ROWS,
    *stopping.ROWS,
    *reasoning.ROWS,
    *sampling.ROWS,
    *watermarks.ROWS,
    *chains.ROWS,
)

# Those that every engine runs: they read no logits of a second pass.
ONE_PASS = tuple(row for row in ROWS if not row.guided)


def of_kind(kind: str) -> Sequence[Row]:
    """Return all rows of a kind."""
    return [row for row in ROWS if row.kind == kind]
