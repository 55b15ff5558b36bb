"""A rule that calls itself last costs nothing per repetition: the state and the legal tokens are the same after 10 and 10,000."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch

import logitkit as lk
from logitkit.protocol.state import leaves

TOKENS = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b"aa", b"a,", b"x,(", b"),x", None], eos_ids=[260])
# A grammar, the text of one repetition, and what it begins and ends with.
RECURSIVE = {
    "direct": ("gbnf", 'root ::= "a" root | "b"', "", "a", "b"),
    "a list": ("gbnf", 'root ::= item "," root | item\nitem ::= "x" | "(" root ")"', "", "x,", "x"),
    "a list in brackets": ("gbnf", 'root ::= item "," root | item\nitem ::= "x" | "(" root ")"', "((", "(x),", "x))"),
    "two rules": ("gbnf", 'root ::= "a" other | "b"\nother ::= "," root', "", "a,", "b"),
    "a nested rule": ("gbnf", 'root ::= pair root | "b"\npair ::= "(" pair ")" | "x"', "", "((x))", "b"),
    "Lark": ("lark", 'start: "x" "," start | NAME\nNAME: /[ab]+/\n%ignore " "', "", "x, ", "ab"),
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_repetitions_leave_the_state_as_it_was(name: str) -> None:
    syntax: Literal["gbnf", "lark"]
    syntax, text, before, once, after = RECURSIVE[name]  # type: ignore[assignment]
    grammar = lk.Grammar(text, TOKENS, syntax=syntax, max_depth=8)
    start = grammar.init_state(lk.Context.of([[]], TOKENS.size))

    def written(state: Any, some: str) -> Any:
        return grammar.advance(state, torch.tensor([[*some.encode()]]))

    few, many = (written(start, before + once * count) for count in (10, 10_000))
    assert not grammar.is_dead(many).any()
    assert all(torch.equal(a, b) for a, b in zip(leaves(few), leaves(many), strict=True))
    assert torch.equal(grammar.allowed_tokens(few), grammar.allowed_tokens(many))
    assert grammar.allowed_tokens(written(many, after))[0, 260]
