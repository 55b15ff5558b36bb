"""Special tokens in grammars, alone and in a choice with characters."""

from __future__ import annotations

import pytest
import torch

import logitkit as lk

VOCABULARY = lk.Vocabulary([b"a", b"b", b"z", None, None, None], eos_ids=[5], special={"<x>": 3, "<y>": 4})


@pytest.mark.parametrize(
    ("text", "written", "legal"),
    [
        ('root ::= "a" | <x>', [], [0, 3]),
        ('root ::= ("a" | <x> | <y>)* "z"', [3, 0, 4], [0, 2, 3, 4]),
        ('root ::= (<x> | <y>)+ "z"', [], [3, 4]),
        ('root ::= (<x> | <y>)+ "z"', [4], [2, 3, 4]),
        ('root ::= ("a" | <x>){2} "b"', [3], [0, 3]),
        ('root ::= "a" | <x> root <y>', [3, 3, 0], [4]),
    ],
)
def test_a_choice_of_characters_and_tokens(text: str, written: list[int], legal: list[int]) -> None:
    grammar = lk.Grammar(text, VOCABULARY)
    state = grammar.init_state(lk.Context.of([[]], vocabulary_size=6))
    for token in written:
        state = grammar.advance(state, torch.tensor([token]))
    assert grammar.allowed_tokens(state)[0].nonzero().flatten().tolist() == legal


def test_a_byte_without_a_token_is_refused() -> None:
    with pytest.raises(lk.errors.ConfigurationError, match=r"b'\('"):
        lk.Grammar('root ::= "a" | "(" root "z"', VOCABULARY)
