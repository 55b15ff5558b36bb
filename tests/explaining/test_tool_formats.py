"""Turns with calls in every format, with a byte that is not allowed: each is explained."""

from __future__ import annotations

import pytest

import logitkit as lk
from logitkit import ToolCall, Tools
from tests.tools.turns import FORMATS, TOOLS, ids_of, vocabulary


@pytest.mark.parametrize("name", FORMATS)
def test_a_turn_that_leaves_its_language_is_explained(name: str) -> None:
    form = FORMATS[name]
    tools, tokens = Tools(TOOLS, form, choice="required"), vocabulary(form)
    constraint = tools.constraint(tokens)
    call = ToolCall("save", {"note": {"a": ["it's", None]}, "tags": ["x"]})
    ids = ids_of(tools.write([call]), form)
    for cut in (len(ids) - 9, len(ids) // 2):
        for byte in b"'5":
            output = [*ids[:cut], byte]
            turn = tools.parse(output, tokens)
            found = lk.explain(constraint, tokens, [], output)
            refused = [at for at, step in enumerate(found.steps) if step.refusal is not None]
            assert refused[:1] == ([] if turn.outside_at is None else [turn.outside_at])
            assert str(found)
