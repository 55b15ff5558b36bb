"""Special tokens in grammars, alone and in a choice with characters."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

import logitkit as lk
from logitkit.errors import GrammarError
from logitkit.languages import grammar, tag

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
    constraint = lk.Grammar(text, VOCABULARY)
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=6))
    for token in written:
        state = constraint.advance(state, torch.tensor([token]))
    assert constraint.allowed_tokens(state)[0].nonzero().flatten().tolist() == legal


@pytest.mark.parametrize(
    ("text", "syntax", "written", "legal"),
    [
        ('root ::= "a" <[3]> | "b" <x> "z"', "gbnf", [0], [3]),
        ('root ::= "a" <[3]> | "b" <x> "z"', "gbnf", [1, 3], [2]),
        ('root ::= "a" <[3]> | "b" root* <x> "z"', "gbnf", [1, 0], [3]),
        ('start: "a" <[3]> | "b" <x> "z"', "lark", [0], [3]),
        ('start: "a" <[3-4]> | "b" <[4]> "z"', "lark", [0], [3, 4]),
        ('start: "a" <[3-4]> | "b" <[4,3]> "z"', "lark", [1], [3, 4]),
    ],
)
def test_a_token_may_be_named_in_two_ways(
    text: str, syntax: Literal["gbnf", "lark"], written: list[int], legal: list[int]
) -> None:
    constraint = lk.Grammar(text, VOCABULARY, syntax=syntax)
    state = constraint.init_state(lk.Context.of([[]], vocabulary_size=6))
    for token in written:
        state = constraint.advance(state, torch.tensor([token]))
    assert constraint.allowed_tokens(state)[0].nonzero().flatten().tolist() == legal


def test_with_an_excluded_token_each_has_one_name() -> None:
    text = 'root ::= "a" !<[3]>\n| "b" <x>'
    with pytest.raises(GrammarError, match=r"line 2, column 7: <\[3\]> and <x> are the same token"):
        lk.Grammar(text, VOCABULARY)
    with pytest.raises(GrammarError, match=r"<\[3\]> and <x> are the same token"):
        tag("z", grammar(text), "z").constraint(VOCABULARY)


@pytest.mark.parametrize("name", ["<[900]>", "<[2,900]>", "<[0,900-901,3]>"])
def test_an_id_that_is_not_one_has_its_place(name: str) -> None:
    with pytest.raises(GrammarError, match="line 2, column 3: there is no token 900; allowed are ids from 0 to 5"):
        lk.Grammar(f'start: "900"\n| {name}', VOCABULARY, syntax="lark")


def test_a_byte_without_a_token_is_refused() -> None:
    with pytest.raises(lk.errors.ConfigurationError, match=r"b'\('"):
        lk.Grammar('root ::= "a" | "(" root "z"', VOCABULARY)
